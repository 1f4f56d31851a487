"""What `bench.whole_server` measured, for people: a table in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.machine import told

_STEPS = {
    "session": "a bare Spark session: made, counted to one, ended",
    "discovery": "discovery: the catalog's answers, as schemas",
    "doctor": "`doctor`",
    "first": "first run: every table in bronze and silver",
    "idle": "a run with nothing new",
    "changes": "a run with one change in each of {changed} tables",
}


def section(data: Mapping[str, Any]) -> str:
    """The part of RESULTS.md."""
    plan, run = data["plan"], data["run"]
    tables = plan["databases"] * plan["tables"]
    lines = [
        f"## {tables:,} tables in {plan['databases']} databases",
        "",
        f"`uv run python -m bench.whole_server`, {told(data['machine'])};",
        f"source and pipeline on the same machine, which had a load of {data['busy']} by others before.",
        f"`target.engine: {plan['engine']}`, tables of few rows, one session for all. Some tables were compared with",
        "the source at the end.",
        "",
        "| | s | in bare sessions |",
        "|---|---:|---:|",
    ]
    lines += [
        f"| {words.format(**plan)} | {run[step]} | {run[step] / run['session']:.1f} |" for step, words in _STEPS.items()
    ]
    return "\n".join([*lines, ""])
