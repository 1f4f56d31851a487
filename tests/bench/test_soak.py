"""The benchmark of an hour compares both layers with the source, and says what the run held."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.timeout(0)
def test_two_minutes_are_right_and_say_what_is_held(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.soak", "--quick", "--json", "--write", str(tmp_path)]
    data = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    plan, run = data["plan"], data["run"]
    assert run["changes"] >= plan["rate"] * plan["seconds"]
    assert {*run["done"]} == {"statements of DDL", "tables read again", "repairs of rows"}
    assert len(run["looks"]) >= 5
    assert all(one["memory_mb"] > 100 and one["files"] and one["sessions"] for one in run["looks"])
    assert "| minute | memory MB |" in (tmp_path / "RESULTS.md").read_text()
