"""What `bench.latency` measured, for people: a table in Markdown, and bars as an SVG."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench import bars
from bench.machine import told

_ENGINES = {
    "spark": "spark: the silver table is kept by Spark's MERGE.",
    "deltalake": "deltalake: the silver table is kept by tasks of Spark with the library deltalake.",
}
_KINDS = {"p50": ("median", bars.OURS), "p99": ("99 %", bars.OTHERS)}


def section(data: Mapping[str, Any]) -> str:
    """The part of RESULTS.md."""
    lines = [
        "## From a commit on the source to the row in silver",
        "",
        f"`uv run python -m bench.latency`, {told(data['machine'])};",
        f"source, writer and pipeline on the same machine, each rate for {data['seconds']} s after a warm-up, fifty",
        f"transactions a second. Bronze and silver each begin a batch {data['every_seconds']} s after they began the",
        "last one, or as soon as that is done. Silver was compared with the source at the end.",
        "",
        "![seconds from a commit on the source to the row in silver](latency.svg)",
        "",
        "| changes/s | tables | `target.engine` | p50 s | p99 s | slowest s | batches |",
        "|---:|---:|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {r['rate']:,} | {r['tables']} | {r['engine']} | {r['p50']} | {r['p99']} | {r['slowest']} | {r['batches']} |"
        for r in data["rates"]
    ]
    return "\n".join([*lines, ""])


def _of(one: Mapping[str, Any]) -> str:
    tables = "" if one["tables"] == 1 else f" in {one['tables']} tables"
    return f"{one['rate']:,} changes/s{tables}, {one['engine']}"


def charts(data: Mapping[str, Any]) -> dict[str, str]:
    """Seconds, median and 99th percentile, of each rate."""
    found = [
        bars.Bar(f"{_of(one)}: {said}", one[kind], f"{one[kind]} s", colour)
        for one in data["rates"]
        for kind, (said, colour) in _KINDS.items()
    ]
    notes = [
        "changes/s: how many rows a writer changes each second, in fifty transactions.",
        *(_ENGINES[name] for name in dict.fromkeys(one["engine"] for one in data["rates"])),
        "median: half of the changes were in silver after at most this time. 99 %: all but one in a hundred were.",
        "in silver: a version of the silver table that holds the change is committed. Bronze and silver each begin a "
        f"batch {data['every_seconds']:g} s after they began the last one, or as soon as that is done.",
        f"Measured: {told(data['machine'])}; source, writer and pipeline on the same machine; "
        f"each rate for {data['seconds']} s after a warm-up.",
    ]
    title = "From a commit on the source to the row in silver"
    return {"latency": bars.chart(title, "seconds; a shorter bar is better", found, notes)}
