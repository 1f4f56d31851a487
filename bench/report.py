"""The results that are kept: each benchmark's as NAME.json and, but for costs, NAME.svg; all of them as RESULTS.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import (
    cost_report,
    keyless_report,
    latency_report,
    many_tables_report,
    merge_report,
    speed_report,
    whole_server_report,
)

_SECTIONS = {
    "speed": speed_report.section,
    "latency": latency_report.section,
    "cost": cost_report.section,
    "merge": merge_report.section,
    "many_tables": many_tables_report.section,
    "keyless": keyless_report.section,
    "whole_server": whole_server_report.section,
}
_CHARTS = {"speed": speed_report.chart, "latency": latency_report.chart, "merge": merge_report.chart}
_HEAD = "# What was measured\n\nEach part was written by the command in it, and is repeated by it.\n"


def results(name: str, data: Mapping[str, Any]) -> str:
    """One benchmark's part."""
    return _SECTIONS[name](data)


def write(folder: Path, name: str, data: Mapping[str, Any]) -> None:
    """Keep the results of a benchmark in place of its last ones."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    if name in _CHARTS:
        (folder / f"{name}.svg").write_text(_CHARTS[name](data), encoding="utf-8")
    kept = {one: folder / f"{one}.json" for one in _SECTIONS}
    parts = [results(one, json.loads(p.read_text(encoding="utf-8"))) for one, p in kept.items() if p.exists()]
    (folder / "RESULTS.md").write_text("\n".join([_HEAD, *parts]), encoding="utf-8")
