"""The benchmark of a whole server measures each step and compares tables with the source."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.timeout(0)
def test_a_small_run_is_right_and_says_what_it_cost(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.whole_server", "--quick", "--json", "--write", str(tmp_path)]
    data = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    assert all(seconds > 0 for seconds in data["run"].values())
    assert "\n## 4 tables in 2 databases\n" in (tmp_path / "RESULTS.md").read_text()
