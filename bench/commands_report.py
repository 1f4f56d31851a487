"""What `bench.commands` measured, for people: a table in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.machine import told


def section(data: Mapping[str, Any]) -> str:
    """The part of RESULTS.md."""
    plan, run = data["plan"], data["run"]
    lines = [
        f"## Commands that only look, over {plan['tables']} tables",
        "",
        f"`uv run python -m bench.commands`, {told(data['machine'])};",
        f"source and pipeline on the same machine, which had a load of {data['busy']} by others before.",
        f"`target.engine: {plan['engine']}`. Each command is a process of its own, and has run once before: medians of",
        f"{plan['times']}. A bare Spark session is made, counts to one and ends: {run['session']} s. A process of",
        f"Python's that does nothing takes {run['python']} s.",
        "",
        "| | s | in bare sessions |",
        "|---|---:|---:|",
    ]
    lines += [f"| `{name}` | {s} | {s / run['session']:.2f} |" for name, s in run["commands"].items()]
    return "\n".join([*lines, ""])
