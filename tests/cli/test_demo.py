"""`lakehouse-cdc demo`, as a user calls it: in a process of its own, in an empty folder, twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakehouse_cdc.testing.shop import TABLES


def demo(folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "lakehouse_cdc.cli.main", "demo", "--rows", "5000", "--json", "--keep"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    # the user sees our words alone: no log line of Spark's, no trace
    assert [line for line in done.stderr.splitlines() if not line.startswith(OURS)] == []
    [line] = done.stdout.splitlines()
    told: dict[str, Any] = json.loads(line)
    assert told["verified"]
    assert set(told["tables"]) == {f"shop.{name}" for name in TABLES}
    assert told["rows_compared"] == sum(t["rows"] for t in told["tables"].values())
    assert told["written_meanwhile"]["transactions"] > 0
    assert [p.name for p in folder.iterdir()] == ["lakehouse-demo"]
    assert (Path(told["lakehouse"]) / "shop_silver" / "orders" / "_delta_log").is_dir()
    return told


OURS = (
    "starting a MySQL server", "MySQL runs at", "loaded 5,000 rows", "the shop is there already", "reading the",
    "following the", "comparing silver", "bronze at", "silver at",
)  # fmt: skip


@pytest.mark.timeout(1200)
def test_the_demo_verifies_and_resumes(tmp_path: Path) -> None:
    first = demo(tmp_path)
    assert first["resumed"] is False
    assert first["rows_compared"] > 4000
    assert sum(t["r"] for t in first["runs"][0]["tables"].values()) > 4000
    assert first["seconds"] > 0
    again = demo(tmp_path)
    assert again["resumed"] is True
    read = [t.get("r", 0) for run in again["runs"] for t in run["tables"].values()]
    assert sum(read) == 0  # nothing is read twice
