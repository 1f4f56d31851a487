"""What `bench.alters` measured, for people: a table in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.machine import told

BAR, AIM = 2.0, 1.3


def section(data: Mapping[str, Any]) -> str:
    """The part of RESULTS.md."""
    plan, run = data["plan"], data["run"]
    statements = plan["tables"] * plan["each"]
    lines = [
        f"## A backlog in which {statements:,} statements alter {plan['tables']:,} tables",
        "",
        f"`uv run python -m bench.alters`, {told(data['machine'])};",
        f"source and pipeline on the same machine, which had a load of {data['busy']} by others before.",
        f"`target.engine: {plan['engine']}`, tables of few rows, {plan['each'] + 1} changed rows in each. Both",
        "pipelines run by turns in one session, and were verified against the source at the end.",
        f"The medians of {plan['runs']} runs.",
        "",
        "| `run --once` over the backlog | s |",
        "|---|---:|",
        f"| with the statements | {run['altered']:.1f} |",
        f"| without them | {run['plain']:.1f} |",
        "",
        f"- with / without: **{run['ratio']}** (at most {BAR:g}, aim {AIM:g})",
    ]
    return "\n".join([*lines, ""])
