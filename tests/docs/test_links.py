"""Each relative link of the documentation leads to a file, and to a heading of it; the index reaches every page."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.support.documents import PAGES, ROOT, prose

# read on their own, by people who look at the repository
BESIDE = [ROOT / name for name in ("CHANGELOG.md", "SECURITY.md", "bench/RESULTS.md")]
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_ROLE = re.compile(r"\{doc\}`([^`]+)`")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#{1,6} +(.*?) *$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def targets(page: Path) -> dict[str, Path]:
    """Each relative link of a page, with the file that it means."""
    links = {link: unquote(link.partition("#")[0]) for link in _LINK.findall(prose(page)) if "://" not in link}
    roles = {name: f"{name}.md" for name in _ROLE.findall(prose(page))}
    return {link: (page.parent / path).resolve() if path else page for link, path in {**links, **roles}.items()}


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    found = targets(page)
    assert [link for link, path in found.items() if not path.exists()] == []
    named = {link: path for link, path in found.items() if "#" in link and path.suffix == ".md"}
    assert [link for link, path in named.items() if link.partition("#")[2] not in anchors(path)] == []


def test_the_index_reaches_every_page() -> None:
    docs = ROOT / "docs"
    listed: set[Path] = set()
    for tree in re.findall(r"```\{toctree\}\n(.*?)```", (docs / "index.md").read_text(encoding="utf-8"), re.DOTALL):
        entries = [line for line in tree.splitlines() if line and not line.startswith(":")]
        listed |= {page for entry in entries for page in docs.glob(f"{entry}.md")}
    assert listed == {*docs.rglob("*.md")} - {docs / "index.md"}


def test_the_readme_leads_on() -> None:
    """Each guide is one click away; the README fits a few screens."""
    readme = ROOT / "README.md"
    linked = {*targets(readme).values()}
    assert {*(ROOT / "docs" / "guides").glob("*.md")} - linked <= {*(ROOT / "docs" / "guides").glob("add-a-*.md")}
    assert len(readme.read_text(encoding="utf-8").splitlines()) <= 160
