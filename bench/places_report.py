"""What `bench.places` measured, for people: a table in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from bench.machine import told


def section(data: Mapping[str, Any]) -> str:
    """The part of RESULTS.md: of each place the median of its runs."""
    by: dict[str, list[dict[str, Any]]] = {}
    for one in data["runs"]:
        by.setdefault(one["place"], []).append(one)
    [rows] = {one["rows"] for one in data["runs"]}
    lines = [
        "## A bucket in place of a folder",
        "",
        f"`uv run python -m bench.places --rows {rows}`, {told(data['machine'])};",
        f"source, store ({data['store']}) and pipeline on the same machine, which had a load of {data['busy']}",
        "by others before. Rows of TPC-DS `customer`, first into bronze, then from there into silver, then a batch of",
        "ten changes into both; each a run of its own, in one session of Spark. Silver was compared with the source.",
        f"The median of {len(by['folder'])} runs.",
        "",
        "| | into bronze s | rows/s | into silver s | ten changes s |",
        "|---|---:|---:|---:|---:|",
    ]
    for place, runs in by.items():
        bronze, silver, small = (median(one[name] for one in runs) for name in ("bronze", "silver", "small"))
        lines.append(f"| {place} | {bronze:.1f} | {rows / bronze:,.0f} | {silver:.1f} | {small:.1f} |")
    ratio = median(one["bronze"] / other["bronze"] for one, other in zip(by["folder"], by["S3"], strict=True))
    return "\n".join([*lines, "", f"Bronze in S3 is written at {ratio:.2f} of the rate of a folder.", ""])
