"""`lakehouse-cdc demo`, as a user calls it: in an empty folder, twice, the first time in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lakehouse_cdc.cli.main import app
from lakehouse_cdc.testing.shop import TABLES

ARGUMENTS = ["demo", "--rows", "5000", "--json", "--keep"]


def told(folder: Path, code: int, out: str, errors: str) -> dict[str, Any]:
    """What it said, which is right."""
    assert code == 0, out + errors
    # the user sees our words alone: no log line of Spark's, no trace
    assert [line for line in errors.splitlines() if not line.startswith(OURS)] == []
    [line] = out.splitlines()
    data: dict[str, Any] = json.loads(line)
    assert data["verified"]
    assert set(data["tables"]) == {f"shop.{name}" for name in TABLES}
    assert data["rows_compared"] == sum(t["rows"] for t in data["tables"].values())
    assert data["written_meanwhile"]["transactions"] > 0
    assert [p.name for p in folder.iterdir()] == ["lakehouse-demo"]
    assert (Path(data["lakehouse"]) / "shop_silver" / "orders" / "_delta_log").is_dir()
    return data


OURS = (
    "starting a MySQL server", "MySQL runs at", "loaded 5,000 rows", "the shop is there already", "reading the",
    "following the", "comparing silver", "bronze at", "silver at",
)  # fmt: skip


@pytest.mark.timeout(1200)
def test_the_demo_verifies_and_resumes(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-m", "lakehouse_cdc.cli.main", *ARGUMENTS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    first = told(tmp_path, done.returncode, done.stdout, done.stderr)
    assert first["resumed"] is False
    assert first["rows_compared"] > 4000
    assert sum(t["r"] for t in first["runs"][0]["tables"].values()) > 4000
    assert first["seconds"] > 0
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ARGUMENTS)  # in the session of the tests: it takes the files alone to resume
    again = told(tmp_path, result.exit_code, result.stdout, result.stderr)
    assert again["resumed"] is True
    read = [t.get("r", 0) for run in again["runs"] for t in run["tables"].values()]
    assert sum(read) == 0  # nothing is read twice
