"""What `bench.soak` measured, for people: a table in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.machine import told

_LINES = 12


def section(data: Mapping[str, Any]) -> str:
    """The part of RESULTS.md."""
    plan, run = data["plan"], data["run"]
    minutes, looks = plan["seconds"] // 60, run["looks"]
    shown = looks[:: max(1, len(looks) // _LINES)]
    done = ", ".join(f"{count} {what}" for what, count in run["done"].items())
    lines = [
        f"## {minutes} minutes at {plan['rate']} changes a second",
        "",
        f"`uv run python -m bench.soak --minutes {minutes}`, {told(data['machine'])};",
        f"source, writer and pipeline on the same machine, which had a load of {data['busy']} by others before.",
        f"{run['changes']:,} changes, half of them updates, and meanwhile, in another table that is written, too:",
        f"{done}. From a commit to the row in silver: p50 {run['p50']} s, p99 {run['p99']} s, slowest",
        f"{run['slowest']} s, in {run['batches']:,} batches. Memory: all processes of the run together. Handles: their",
        "open files and sockets. Sessions: at the server. Files: data files of all tables as they are. On disk: with",
        "those that were replaced, which stay until `maintain --vacuum`. Log: the most versions of a table after its",
        "last checkpoint. State: files of the checkpoints. Printed: the run's output. Others: cores that programs",
        "which do not belong to it used meanwhile. Silver and bronze were compared with the source, and the changes in",
        "bronze counted.",
        "",
        "| minute | memory MB | processes | handles | sessions | files | on disk | log | state | printed kB | lag s"
        " | others |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    columns = (
        "memory_mb", "processes", "handles", "sessions", "files", "on_disk", "log", "state_files", "printed_kb", "lag",
        "others",
    )  # fmt: skip
    for one in shown:
        cells = [f"{one['second'] / 60:.0f}", *(f"{one[column]:,}" for column in columns)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])
