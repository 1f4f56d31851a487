"""What `bench.latency` measured, for people: a table in Markdown, and bars as an SVG."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.machine import told
from bench.svg import framed, text

_WIDTH, _LEFT, _BAR, _LINE = 640, 170, 380, 20
_KINDS = {"p50": "#1f6feb", "p99": "#8b949e"}


def section(data: Mapping[str, Any]) -> str:
    """The part of RESULTS.md."""
    lines = [
        "## From a commit on the source to the row in silver",
        "",
        f"`uv run python -m bench.latency`, {told(data['machine'])};",
        f"source, writer and pipeline on the same machine, each rate for {data['seconds']} s behind a warm-up, fifty",
        f"transactions a second. Bronze and silver each begin a batch {data['every_seconds']} s after they began the",
        "last one, or as soon as that is done. Silver was compared with the source at the end.",
        "",
        "| changes/s | p50 s | p99 s | slowest s | batches |",
        "|---:|---:|---:|---:|---:|",
    ]
    lines += [f"| {r['rate']:,} | {r['p50']} | {r['p99']} | {r['slowest']} | {r['batches']} |" for r in data["rates"]]
    return "\n".join([*lines, ""])


def chart(data: Mapping[str, Any]) -> str:
    """Seconds, median and 99th percentile, of each rate."""
    parts, y = [text(12, 24, "Seconds from a commit on the source to the row in silver", size=14)], 40.0
    most = max(one["p99"] for one in data["rates"])
    for one in data["rates"]:
        for kind, colour in _KINDS.items():
            width = max(1, round(_BAR * one[kind] / most))
            parts.append(f'<rect x="{_LEFT}" y="{y}" width="{width}" height="{_LINE - 6}" fill="{colour}"/>')
            parts.append(text(_LEFT - 8, y + 11, f"{one['rate']:,} changes/s, {kind}", anchor="end"))
            parts.append(text(_LEFT + width + 6, y + 11, f"{one[kind]}"))
            y += _LINE
        y += 6
    return framed(_WIDTH, y + 6, parts)
