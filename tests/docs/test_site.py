"""The documentation builds without a warning: pages, pictures and search are whole."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.process

DOCS = Path(__file__).parent.parent.parent / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, which was built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", str(DOCS), str(folder)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


def test_each_page_is_built_and_in_the_navigation(site: Path) -> None:
    pages = {page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")}
    assert pages <= {page.relative_to(site) for page in site.rglob("*.html")}
    linked = {Path(link) for link in re.findall(r'class="reference internal" href="([^"#]+)"', text_of(site, "index"))}
    assert pages - linked - {Path("index.html")} == set()


def test_each_picture_is_part_of_the_site(site: Path) -> None:
    for page in site.rglob("*.html"):
        pictures = re.findall(r'<img[^>]* src="([^"]+)"', page.read_text(encoding="utf-8"))
        assert [picture for picture in pictures if not (page.parent / picture.partition("?")[0]).exists()] == []
    assert text_of(site, "explanation/comparison").count("_images/") == 6
    assert text_of(site, "explanation/measurements").count("_images/") == 9


def test_a_diagram_is_a_picture_and_needs_no_network(site: Path) -> None:
    """Each Mermaid block is drawn: its words are in an SVG of the site, and no page asks another host for anything."""
    drawn = 0
    for source in DOCS.rglob("*.md"):
        page = site / source.relative_to(DOCS).with_suffix(".html")
        pictures = re.findall(r'<img class="diagram"[^>]* src="([^"]+)"', page.read_text(encoding="utf-8"))
        diagrams = re.findall(r"```mermaid\n(.*?)```", source.read_text(encoding="utf-8"), re.DOTALL)
        assert len(pictures) == len(diagrams), source
        for picture, diagram in zip(pictures, diagrams, strict=True):
            root = ElementTree.parse(page.parent / picture).getroot()
            text = " ".join("".join(root.itertext()).split())
            words = (
                {"checkpoint", "verify"} if "flowchart" in diagram else {*re.findall(r"(\w+) --> (\w+)", diagram)[0]}
            )
            assert all(word in text for word in words), (source, text)
            drawn += 1
    assert drawn == 2
    for page in site.rglob("*.html"):
        asked = re.findall(
            r'<(?:script|link|img)[^>]* (?:src|href)="(https?://[^"]+)"', page.read_text(encoding="utf-8")
        )
        assert asked == [], page


def test_options_and_quotes_are_as_they_are_typed(site: Path) -> None:
    """Two hyphens stay two hyphens, and quotes straight: the pages have commands in sentences, too."""
    for page in site.rglob("*.html"):
        assert re.findall(r"\S*(?:–[a-z]|[“”‘’])\S*", page.read_text(encoding="utf-8")) == [], page
    assert "lakehouse-cdc reset --keep-tables -c pipeline.yml" in text_of(site, "reference/errors")


def test_a_search_has_what_the_pages_say(site: Path) -> None:
    """The index that the search page reads, in the browser, is of all pages."""
    index = json.loads((site / "searchindex.js").read_text(encoding="utf-8").removeprefix("Search.setIndex(")[:-1])
    assert set(index["docnames"]) == {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")}
    for word, page in (("quarantin", "guides/when-a-table-stops"), ("gtid", "guides/query-the-tables")):
        found = index["terms"][word]
        assert index["docnames"].index(page) in (found if isinstance(found, list) else [found])


def text_of(site: Path, page: str) -> str:
    return (site / f"{page}.html").read_text(encoding="utf-8")
