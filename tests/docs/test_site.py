"""The documentation builds without a warning: each page is in a table of contents, each link leads somewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "-q", str(DOCS), str(tmp_path)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    pages = {page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")}
    assert pages <= {page.relative_to(tmp_path) for page in tmp_path.rglob("*.html")}
