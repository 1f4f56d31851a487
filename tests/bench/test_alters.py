"""The benchmark of changed schemas verifies both pipelines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.timeout(0)
def test_a_small_run_is_right_and_says_what_it_cost(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.alters", "--quick", "--json", "--write", str(tmp_path)]
    data = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    assert all(seconds > 0 for seconds in data["run"].values())
    assert "\n## A backlog in which 12 statements alter 6 tables\n" in (tmp_path / "RESULTS.md").read_text()
