"""The benchmark of a table without a key measures both tables and compares them with the source."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.timeout(0)
def test_a_small_run_is_right_and_says_what_it_cost(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.keyless", "--quick", "--json", "--write", str(tmp_path)]
    data = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    assert [one["keyed"] for one in data["runs"]] == [True, False]
    assert all(one["load"] > 0 and one["written"] > 0 and one["p50"] > 0 for one in data["runs"])
    assert (tmp_path / "RESULTS.md").read_text().count("\n| primary") == 1
