"""What `bench.merge` measured, for people: a table in Markdown, and a curve of each SCD type as an SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bench.machine import told
from bench.svg import framed, paragraphs, text

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM, _MARGIN = 800, 380, 56, 190, 70, 60, 16
_COLOURS = {"near": "#1f6feb", "random": "#b35900"}
_TYPES = {1: "SCD type 1", 2: "SCD type 2"}
_FORMS = {
    1: "SCD type 1: the table holds each row as it is now.",
    2: "SCD type 2: the table holds every version of each row, so an update ends a version and adds one.",
}


def section(data: Mapping[str, Any]) -> str:
    """The part of RESULTS.md."""
    runs = sorted(data["runs"], key=lambda run: (run["scd"], run["keys"], run["rows"]))
    lines = [
        f"## {data['changes']:,} changes into silver tables of different sizes",
        "",
        f"`uv run python -m bench.merge`, {told(data['machine'])}. Each line ended with a check of the whole table.",
        "Seconds are those of one batch, applied to silver: the median, and the slowest. Written: new data files and",
        "deletion vectors of a batch, and as a share of the table's bytes. Read: files that may hold the keys, of",
        "those that the table had. Touched: those that held a changed row, or were put together.",
        "",
        *(
            line
            for scd in sorted({run["scd"] for run in runs})
            for line in (
                f"![seconds to apply a batch, by the rows of the table, SCD type {scd}](merge-scd{scd}.svg)",
                "",
            )
        ),
        "| SCD type | keys | rows | median s | slowest s | table MB | written MB | share | files read | touched |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {r['scd']} | {r['keys']} | {r['rows']:,} | {r['seconds']} | {r['slowest']} | {r['table_bytes'] / 1e6:.1f} "
        f"| {r['bytes_written'] / 1e6:.2f} | {r['share']:.2%} | {r['files_read']:g} of {r['files']} "
        f"| {r['files_touched']:g} |"
        for r in runs
    ]
    return "\n".join([*lines, ""])


def charts(data: Mapping[str, Any]) -> dict[str, str]:
    """Of each SCD type the seconds of a batch by the table's rows, these on a logarithmic axis."""
    return {f"merge-scd{scd}": _chart(data, scd) for scd in sorted({run["scd"] for run in data["runs"]})}


def _chart(data: Mapping[str, Any], scd: int) -> str:
    sizes = sorted({run["rows"] for run in data["runs"]})
    # whole seconds at each line, the same in every chart, so that they can be compared
    top: float = 4 * math.ceil(max(run["seconds"] for run in data["runs"]) * 1.05 / 4)
    low, high = math.log10(sizes[0]), math.log10(sizes[-1])

    def x(rows: int) -> float:
        share = (math.log10(rows) - low) / (high - low) if high > low else 0.5
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(seconds: float) -> float:
        return round(_HEIGHT - _BOTTOM - seconds / top * (_HEIGHT - _TOP - _BOTTOM), 1)

    title = f"Seconds to apply {data['changes']:,} changes to a silver table: {_TYPES[scd]}"
    parts = [text(_MARGIN, 26, title, size=15), text(_MARGIN, 46, "seconds of a batch; lower is faster", colour="#555")]
    for i in range(5):
        seconds = top * i / 4
        parts.append(f'<path d="M{_LEFT} {y(seconds)}H{_WIDTH - _RIGHT}" stroke="#8884"/>')
        parts.append(text(_LEFT - 8, y(seconds) + 4, f"{seconds:g}", anchor="end"))
    parts += [text(x(rows), _HEIGHT - _BOTTOM + 20, f"{rows:,} rows", anchor="middle") for rows in sizes]
    for keys, colour in _COLOURS.items():
        mine = sorted((r["rows"], r["seconds"]) for r in data["runs"] if (r["scd"], r["keys"]) == (scd, keys))
        if not mine:
            continue
        path = "L".join(f"{x(rows)} {y(seconds)}" for rows, seconds in mine)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x(rows)}" cy="{y(seconds)}" r="3" fill="{colour}"/>' for rows, seconds in mine]
        rows, seconds = mine[-1]
        parts.append(text(x(rows) + 10, y(seconds) + 4, f"{keys} keys: {seconds:g} s", colour=colour))
    notes = [
        "near keys: the rows that change lie close to each other in the order of the key, as new ones do.",
        "random keys: they are spread over the whole table, so each of its files holds some of them and is read.",
        _FORMS[scd],
        f"Measured: {told(data['machine'])}; medians.",
    ]
    said, below = paragraphs(_MARGIN, _HEIGHT, _WIDTH - 2 * _MARGIN, notes)
    return framed(_WIDTH, below, [*parts, *said])
