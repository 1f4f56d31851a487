"""The pages and files that are made from the code are what the code makes: see lakehouse_cdc/cli/reference.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse_cdc.cli.reference import MADE, main

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
AGAIN = "uv run python -m lakehouse_cdc.cli.reference docs/reference"


@pytest.mark.parametrize("name", MADE)
def test_the_file_is_what_is_made_from_the_code(name: str, tmp_path: Path) -> None:
    main(tmp_path)
    made = (tmp_path / name).read_text(encoding="utf-8")
    assert made == (FOLDER / name).read_text(encoding="utf-8"), f"run: {AGAIN}"
