"""What `bench.many_tables` measured, for people: a table in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.machine import told


def section(data: Mapping[str, Any]) -> str:
    """The part of RESULTS.md."""
    lines = [
        f"## One change in each of {data['runs'][0]['tables']} tables",
        "",
        f"`uv run python -m bench.many_tables`, {told(data['machine'])}. Silver tables of {data['rows']} rows, a warm",
        "process: the seconds of silver's batch, the median and the slowest, and the median in MERGEs of one row that",
        f"bare Spark makes beside it ({data['merge']} s each). Each table was compared with the source at the end.",
        "",
        "| `target.engine` | seconds | slowest | in bare MERGEs |",
        "|---|---:|---:|---:|",
    ]
    lines += [f"| `{r['engine']}` | {r['seconds']} | {r['slowest']} | {r['merges']} |" for r in data["runs"]]
    return "\n".join([*lines, ""])
