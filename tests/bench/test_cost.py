"""What a run costs its source is counted by the server itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cost import Counted
from bench.report import results
from bench.tables import SMALL
from lakehouse_cdc.testing import MySqlServer


@pytest.mark.mysql
def test_counting_does_not_count_itself() -> None:
    with MySqlServer.start(version="mysql-8.0") as server:
        SMALL.create(server, 100)
        counted = Counted(server)
        nothing = counted.cost("nothing", 0, 0)
        assert (nothing.queries, nothing.connections) == (0, 0)
        with server.connect(autocommit=None) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {SMALL.name}")
        one = counted.cost("one", 0, 0)
        assert one.connections == 1
        assert one.rows_read == 100
        assert one.bytes_sent > 100 * 100


@pytest.mark.long
def test_a_small_run_is_counted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.cost", "--quick", "--json", "--write", str(tmp_path)]
    data = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    behind, snapshot, changes, nothing = data["costs"]
    assert behind["bytes_sent"] > snapshot["bytes_sent"]
    assert 2 * 5_000 > snapshot["rows_read"] >= snapshot["rows"] == 5_000
    assert snapshot["bytes_sent"] > snapshot["size"] / 2
    assert changes["bytes_sent"] > changes["size"] > 0
    assert nothing["queries"] > 0
    assert results("cost", data) in (tmp_path / "RESULTS.md").read_text()
