"""What `bench.merge` measured, for people: a table in Markdown, and the curve as an SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bench.machine import told
from bench.svg import framed, text

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 320, 56, 170, 40, 48
_LINES = {  # (type, keys) -> colour and dashes
    (1, "near"): ("#1f6feb", ""),
    (1, "random"): ("#d29922", ""),
    (2, "near"): ("#1f6feb", "6 4"),
    (2, "random"): ("#d29922", "6 4"),
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


def chart(data: Mapping[str, Any]) -> str:
    """Seconds of a batch by the table's rows, these on a logarithmic axis."""
    runs = data["runs"]
    sizes = sorted({run["rows"] for run in runs})
    top: float = 4 * math.ceil(max(run["seconds"] for run in runs) * 1.05 / 4)  # whole seconds at each line
    low, high = math.log10(sizes[0]), math.log10(sizes[-1])

    def x(rows: int) -> float:
        share = (math.log10(rows) - low) / (high - low) if high > low else 0.5
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(seconds: float) -> float:
        return round(_HEIGHT - _BOTTOM - seconds / top * (_HEIGHT - _TOP - _BOTTOM), 1)

    parts = [text(_LEFT, 22, f"Seconds to merge {data['changes']:,} changes, by the rows of the silver table", size=14)]
    for i in range(5):
        seconds = top * i / 4
        parts.append(f'<path d="M{_LEFT} {y(seconds)}H{_WIDTH - _RIGHT}" stroke="#8884"/>')
        parts.append(text(_LEFT - 8, y(seconds) + 4, f"{seconds:g}", anchor="end"))
    parts += [text(x(rows), _HEIGHT - _BOTTOM + 20, f"{rows:,}", anchor="middle") for rows in sizes]
    for (scd, keys), (colour, dashes) in _LINES.items():
        mine = sorted((r["rows"], r["seconds"]) for r in runs if (r["scd"], r["keys"]) == (scd, keys))
        if not mine:
            continue
        path = "L".join(f"{x(rows)} {y(seconds)}" for rows, seconds in mine)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>')
        parts += [f'<circle cx="{x(rows)}" cy="{y(seconds)}" r="3" fill="{colour}"/>' for rows, seconds in mine]
    parts += _legend()
    return framed(_WIDTH, _HEIGHT, parts)


def _legend() -> list[str]:
    parts = []
    for i, ((scd, keys), (colour, dashes)) in enumerate(_LINES.items()):
        at, left = _TOP + 20 + 22 * i, _WIDTH - _RIGHT + 16
        line = f'<path d="M{left} {at}h28" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
        parts += [line, text(left + 36, at + 4, f"type {scd}, {keys} keys")]
    return parts
