"""Maintenance beside a pipeline that runs: it goes on, and every row is what the source holds."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.ops import maintain as ops
from lakehouse_cdc.testing import MySqlServer, Shop, ShopWriter
from tests.support.pipelines import pipeline

_HOLDS_THE_LOCK = """
import sys
from pathlib import Path
from lakehouse_cdc.pipeline.run.exclusive import exclusive
with exclusive(Path(sys.argv[1]), ""):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.long
@pytest.mark.timeout(0)
def test_a_pipeline_runs_on_while_its_tables_are_maintained(
    spark: SparkSession, mysql: MySqlServer, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ops, "_SPARE", -2)  # any two files are too many
    tables = {f"{database}.orders": {"scd": 2}, f"{database}.customers": {"deletes": "soft"}}
    shop = Shop(mysql.connect, database, seed=5)
    shop.create()
    shop.load(500)
    lake = pipeline(spark, mysql, database, tmp_path, tables=tables)
    lake.run(once=True)
    over, runs, failed = threading.Event(), [0], []

    def follow() -> None:
        try:
            while not over.is_set():
                lake.run(once=True)
                runs[0] += 1
        except Exception as error:
            failed.append(error)

    with ShopWriter(shop, rate=20):
        thread = threading.Thread(target=follow)
        thread.start()
        try:
            found = lake.maintain(vacuum=True)
        finally:
            over.set()
            thread.join()
    assert not failed, failed
    assert runs[0] > 0
    assert any(one.files < one.files_before for one in found)
    assert {one.left for one in found} <= {"", "the pipeline wrote to it each time; it comes next time"}
    lake.run(once=True)
    report = lake.verify()
    assert report.verified, report.to_json()
    assert all(reach is not None for reach in lake.reach().values())


def test_another_process_waits_its_turn_with_local_tables(
    spark: SparkSession, mysql: MySqlServer, database: str, tmp_path: Path
) -> None:
    lake = pipeline(spark, mysql, database, tmp_path)
    holds = [sys.executable, "-c", _HOLDS_THE_LOCK, str(lake.state)]
    with subprocess.Popen(holds, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(DefiniteError, match=r"another process writes to these tables.*signal pause"):
            lake.maintain()
        assert other.stdin is not None
        other.stdin.close()
    with pytest.raises(DefiniteError, match="nothing has been read yet"):
        lake.maintain()
