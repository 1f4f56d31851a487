"""The benchmark of first runs measures both kinds of kernels, and those that were built ahead cost less."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cold import LIBRARY, NUMBA


@pytest.mark.long
@pytest.mark.timeout(0)
def test_a_first_run_costs_less_with_kernels_that_were_built_ahead(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.cold", "--quick", "--numba", "--json", "--write", str(tmp_path)]
    data = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    ahead, compiled = data["runs"]
    assert (ahead["kernels"], compiled["kernels"]) == (LIBRARY, NUMBA)
    assert ahead["more"] < compiled["more"]
    assert (tmp_path / "RESULTS.md").read_text().count("\n| built ahead") == 1
