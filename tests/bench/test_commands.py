"""The benchmark of commands measures each of them, and holds `status` beside what Spark says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.timeout(0)
def test_a_small_run_is_right_and_says_what_it_cost(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.commands", "--quick", "--json", "--write", str(tmp_path)]
    data = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    assert data["run"]["commands"].keys() == {"status", "as-of", "report", "doctor", "signal"}
    assert all(0 < seconds < data["run"]["session"] for seconds in data["run"]["commands"].values())
    assert "\n## Commands that only look, over 2 tables\n" in (tmp_path / "RESULTS.md").read_text()
