"""The benchmark of topics sends a small table by both, and looks at what arrived."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.timeout(0)
def test_a_small_run_is_right_and_says_how_long_it_took(tmp_path: Path) -> None:
    if shutil.which("mvn") is None:
        pytest.skip("mvn is not installed, which builds the peer")
    command = [sys.executable, "-m", "bench.topics_out", "--quick", "--json", "--write", str(tmp_path)]
    data = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    assert [(one["who"], one["rows"]) for one in data["runs"]] == [("lakehouse-cdc", 5_000), ("Debezium", 5_000)]
    assert all(one["seconds"] > 0 for one in data["runs"])
    assert (tmp_path / "RESULTS.md").read_text().count("\n| Debezium") == 1
