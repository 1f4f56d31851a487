"""The documentation builds without a warning: pages, pictures and search are whole."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

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


def test_a_search_has_what_the_pages_say(site: Path) -> None:
    """The index that the search page reads, in the browser, is of all pages."""
    index = json.loads((site / "searchindex.js").read_text(encoding="utf-8").removeprefix("Search.setIndex(")[:-1])
    assert set(index["docnames"]) == {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")}
    for word, page in (("quarantin", "guides/when-a-table-stops"), ("gtid", "guides/query-the-tables")):
        found = index["terms"][word]
        assert index["docnames"].index(page) in (found if isinstance(found, list) else [found])


def text_of(site: Path, page: str) -> str:
    return (site / f"{page}.html").read_text(encoding="utf-8")
