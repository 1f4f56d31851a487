"""The pages that compare: each statement about another product has a source, with a version or a day."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.documents import ROOT

pytestmark = pytest.mark.unit

OVERVIEW = ROOT / "docs" / "explanation" / "comparison.md"
PAGES = sorted((ROOT / "docs" / "explanation" / "comparison").glob("*.md"))
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}|\b\d+\.\d+\.\d+\b")
_SELF = "(../comparison.md"  # what this project measured has its source there


def sources(page: Path) -> dict[str, str]:
    """Each source of a page, by its name."""
    return dict(re.findall(r"^\[\^(\w+)\]: (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE))


def rows(page: Path) -> list[list[str]]:
    """The cells of each row of a page's tables, without the rules and headings."""
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not line.startswith("| |")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_source_is_linked_dated_and_used(page: Path) -> None:
    text, known = page.read_text(encoding="utf-8"), sources(page)
    assert set(re.findall(r"\[\^(\w+)\](?!:)", text)) == set(known)
    assert {name for name, said in known.items() if "](https://" not in said or not _DATED.search(said)} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_statement_about_the_other_has_a_source(page: Path) -> None:
    found = rows(page)
    assert len(found) > 8
    unsourced = [cells[0] for cells in found if not re.search(r"\[\^|^not documented|" + re.escape(_SELF), cells[1])]
    assert unsourced == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_advantage_of_the_other_comes_first_and_has_a_source(page: Path) -> None:
    better = page.read_text(encoding="utf-8").partition("## What it does better")[2].partition("\n## ")[0]
    points = re.split(r"^- ", better, flags=re.MULTILINE)[1:]
    assert len(points) >= 4
    assert [point for point in points if "[^" not in point] == []


def test_the_overview_leads_to_each_page_and_names_the_same_versions() -> None:
    overview = OVERVIEW.read_text(encoding="utf-8")
    assert {page.name for page in PAGES} == set(re.findall(r"\(comparison/([\w-]+\.md)\)", overview))
    for name, page in (("Debezium", "debezium"), ("Flink CDC", "flink-cdc"), ("OLake", "olake")):
        [version] = re.findall(rf"^\| \| lakehouse-cdc .*\| {name} (\d+\.\d+) ", overview, re.MULTILINE)
        assert re.search(rf"\b{re.escape(version)}\.\d+", (OVERVIEW.parent / "comparison" / f"{page}.md").read_text())
