"""What `bench.topics_out` measured, for people: a table in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from bench.machine import told


def section(data: Mapping[str, Any]) -> str:
    """The part of RESULTS.md: of each the run in the middle."""
    by: dict[str, list[dict[str, Any]]] = {}
    for one in data["runs"]:
        by.setdefault(one["who"], []).append(one)
    [rows] = {one["rows"] for one in data["runs"]}
    lines = [
        "## Into a topic of Kafka",
        "",
        f"`uv run python -m bench.topics_out --rows {rows}`, {told(data['machine'])};",
        f"source, broker and writer on the same machine, which had a load of {data['busy']} by others before.",
        f"Rows of TPC-DS `customer` as Debezium's JSON into {data['partitions']} partitions, acknowledged.",
        "`lakehouse-cdc`: from bronze, each row once, by transactions; what the rows took into bronze is beside it.",
        f"Debezium {data['versions']['Debezium']}: its embedded engine from the source, at least once.",
        f"The median of {len(by['Debezium'])} runs.",
        "",
        "| | s | rows/s | into bronze s | peak MB |",
        "|---|---:|---:|---:|---:|",
    ]
    for who, runs in by.items():
        seconds = median(one["seconds"] for one in runs)
        bronze = [one["bronze_seconds"] for one in runs if one["bronze_seconds"] is not None]
        before = f"{median(bronze):.1f}" if bronze else ""
        peak = median(one["peak_mb"] for one in runs)
        lines.append(f"| {who} | {seconds:.1f} | {rows / seconds:,.0f} | {before} | {peak:,.0f} |")
    return "\n".join([*lines, ""])
