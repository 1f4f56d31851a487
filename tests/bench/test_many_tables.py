"""The benchmark of many tables measures both engines and compares every table with the source."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.many_tables import ENGINES


@pytest.mark.long
@pytest.mark.timeout(0)
def test_a_small_run_is_right_and_says_what_it_cost(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.many_tables", "--quick", "--json", "--write", str(tmp_path)]
    data = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    assert [one["engine"] for one in data["runs"]] == [*ENGINES]
    assert all(one["seconds"] > 0 for one in data["runs"])
    assert (tmp_path / "RESULTS.md").read_text().count("\n| `") == len(ENGINES)
