"""The results that are kept: each benchmark's as NAME.json, some with charts as SVG; all of them as RESULTS.md.

uv run python -m bench.report [FOLDER]      # draw and write again from what was recorded; nothing is measured
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import (
    alters_report,
    cold_report,
    commands_report,
    cost_report,
    keyless_report,
    latency_report,
    many_tables_report,
    merge_report,
    places_report,
    soak_report,
    speed_report,
    topics_out_report,
    whole_server_report,
)

_SECTIONS = {
    "speed": speed_report.section,
    "latency": latency_report.section,
    "cost": cost_report.section,
    "merge": merge_report.section,
    "many_tables": many_tables_report.section,
    "alters": alters_report.section,
    "keyless": keyless_report.section,
    "whole_server": whole_server_report.section,
    "soak": soak_report.section,
    "cold": cold_report.section,
    "commands": commands_report.section,
    "topics_out": topics_out_report.section,
    "places": places_report.section,
}
_CHARTS = {"speed": speed_report.charts, "latency": latency_report.charts, "merge": merge_report.charts}
_HEAD = "# What was measured\n\nEach part was written by the command in it, and is repeated by it.\n"


def results(name: str, data: Mapping[str, Any]) -> str:
    """One benchmark's part."""
    return _SECTIONS[name](data)


def write(folder: Path, name: str, data: Mapping[str, Any]) -> None:
    """Keep the results of a benchmark in place of its last ones."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    for file, text in drawn(folder).items():
        (folder / file).write_text(text, encoding="utf-8")


def drawn(folder: Path) -> dict[str, str]:
    """RESULTS.md and the charts of what a folder keeps, by the file's name."""
    kept = {name: folder / f"{name}.json" for name in _SECTIONS}
    data = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in kept.items() if path.exists()}
    charts = {f"{file}.svg": svg for name in _CHARTS.keys() & data for file, svg in _CHARTS[name](data[name]).items()}
    return {"RESULTS.md": "\n".join([_HEAD, *(results(name, data[name]) for name in data)]), **charts}


def main() -> None:
    """See above."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for file, text in drawn(folder).items():
        (folder / file).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
