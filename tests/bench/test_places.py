"""The benchmark of places keeps a table in a folder and in a bucket, and compares both with the source."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.timeout(0)
def test_a_small_run_is_right_and_says_how_long_it_took(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.places", "--quick", "--json", "--write", str(tmp_path)]
    data = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    assert [one["place"] for one in data["runs"]] == ["folder", "S3"]
    assert all(one[name] > 0 for one in data["runs"] for name in ("bronze", "silver", "small"))
    assert "\n| S3 |" in (tmp_path / "RESULTS.md").read_text()
