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
        f"`uv run python -m bench.many_tables`, with `{data['asked']}`, {told(data['machine'])}.",
        f"Silver tables of {data['rows']} rows, a warm",
        "process: the seconds of the first load, which makes the tables, and of silver's batch, the median and the",
        f"slowest, and the median in MERGEs of one row that bare Spark makes beside it ({data['merge']} s each). Each",
        "table was compared with the source at the end.",
        "",
        "| `target.engine` | first load | seconds | slowest | in bare MERGEs |",
        "|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| `{r['engine']}` | {r['load']} | {r['seconds']} | {r['slowest']} | {r['merges']} |" for r in data["runs"]
    ]
    return "\n".join([*lines, ""])
