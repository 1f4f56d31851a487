"""What `bench.keyless` measured, for people: a table in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.machine import told


def section(data: Mapping[str, Any]) -> str:
    """The part of RESULTS.md."""
    lines = [
        "## A table without a key beside the same with one",
        "",
        f"`uv run python -m bench.keyless --rows {data['runs'][0]['rows']}`, {told(data['machine'])};",
        f"source, writer and pipeline on the same machine, which had a load of {data['busy']} by others before.",
        f"{data['rate']:,} changes a second, half of them updates, while the table is loaded, and then for",
        f"{data['seconds']} s that count. First run: seconds with Spark's start. p50, p99, slowest: from a commit to",
        "the row in silver. Written: silver's data files and deletion vectors in that time. Silver was compared with",
        "the source.",
        "",
        "| key | rows | first run s | p50 s | p99 s | slowest s | batches | written MB | table MB |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {'primary' if r['keyed'] else 'none'} | {r['rows']:,} | {r['load']} | {r['p50']} | {r['p99']} |"
        f" {r['slowest']} | {r['batches']} | {r['written'] / 1e6:.1f} | {r['table_bytes'] / 1e6:.1f} |"
        for r in data["runs"]
    ]
    return "\n".join([*lines, ""])
