"""What `bench.cold` measured, for people: a table in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.machine import told


def section(data: Mapping[str, Any]) -> str:
    """The part of RESULTS.md."""
    lines = [
        "## The first run on a machine",
        "",
        f"`uv run python -m bench.cold`, with `{data['asked']}`, {told(data['machine'])}.",
        "`run --once` over a new table of one row, with the machine code of kernels that an earlier run has left, and",
        "with none: median seconds, the median difference, and that in bare Spark sessions started between them",
        f"({data['session']} s each).",
        "",
        "| kernels | later runs | first run | more | in bare sessions |",
        "|---|---:|---:|---:|---:|",
    ]
    lines += [f"| {r['kernels']} | {r['warm']} | {r['cold']} | {r['more']} | {r['sessions']} |" for r in data["runs"]]
    return "\n".join([*lines, ""])
