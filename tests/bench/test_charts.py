"""The charts are drawn from what was recorded; each explains its words, names machine and day, and is read whole."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from bench.report import drawn
from bench.speed_report import shown

pytestmark = pytest.mark.unit

BENCH = Path(__file__).parents[2] / "bench"
CHARTS = sorted(BENCH.glob("*.svg"))
DATA = {name: json.loads((BENCH / f"{name}.json").read_text()) for name in ("speed", "latency", "merge")}
FONT = FontProperties(family="DejaVu Sans")  # the widest of those that browsers take for sans-serif


def texts(chart: Path) -> list[ElementTree.Element]:
    return ElementTree.parse(chart).findall("{*}text")


def test_what_is_kept_is_what_is_drawn_from_the_records() -> None:
    made = drawn(BENCH)
    assert {chart.name for chart in CHARTS} == made.keys() - {"RESULTS.md"}
    again = "run: uv run python -m bench.report"
    assert {name: (BENCH / name).read_text(encoding="utf-8") for name in made} == made, again


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.stem)
def test_every_text_is_inside_the_frame(chart: Path) -> None:
    _, _, width, height = map(float, ElementTree.parse(chart).getroot().attrib["viewBox"].split())
    for text in texts(chart):
        said, at, size = text.text or "", text.attrib, float(text.attrib["font-size"])
        long = TextPath((0, 0), said, size=size, prop=FONT).get_extents().width
        left = float(at["x"]) - {"start": 0.0, "middle": long / 2, "end": long}[at["text-anchor"]]
        assert left >= 0, said
        assert left + long <= width, said
        assert size <= float(at["y"]) <= height, said


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.stem)
def test_machine_and_day_are_named(chart: Path) -> None:
    machine = DATA[chart.stem.partition("-")[0]]["machine"]
    said = " ".join(text.text or "" for text in texts(chart))
    assert f"Measured: {machine['date']}, {machine['cores']} cores of {machine['processor']}" in said


@pytest.mark.parametrize("contest", DATA["speed"]["contests"], ids=lambda contest: contest["contest"])
def test_one_contest_a_chart_and_each_contender_is_explained(contest: dict[str, object]) -> None:
    if contest["contest"] == "memory":
        return
    said = [text.text or "" for text in texts(BENCH / f"speed-{contest['contest']}.svg")]
    assert isinstance(contest["contenders"], list)
    for one in contest["contenders"]:
        assert [line for line in said if line.startswith(f"{shown(one['name'])}: ")] != []
        assert f"{one['rate']:,}" in said
