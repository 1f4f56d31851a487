"""Signals to a pipeline: a silver table that was spoilt is mended, a paused pipeline rests and goes on."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.support.commands import CONFIG, call
from tests.support.servers import connected
from tests.support.waiting import until


@pytest.fixture
def config(mysql: MySqlServer, database: str, tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yml"
    path.write_text(CONFIG.format(url=mysql.url, database=database))
    return path


@pytest.mark.long
def test_verify_names_what_differs_and_repair_mends_it(
    spark: SparkSession, mysql: MySqlServer, database: str, config: Path
) -> None:
    with closing(connected(mysql)) as connection, connection.cursor() as cursor:
        for table in ("a", "b"):
            cursor.execute(f"CREATE TABLE {database}.{table} (id INT PRIMARY KEY, v VARCHAR(9))")
            cursor.execute(f"INSERT INTO {database}.{table} VALUES (1, 'x'), (2, 'y'), (3, 'z')")
        assert call(3, "signal", "-c", config, "snapshot", f"{database}.a")["error"] == "nothing has been read yet"
        assert call(3, "as-of", "-c", config)["error"] == "nothing has been read yet"
        at: Any = call(0, "run", "-c", config, "--once")["position"]
        silver = f"delta.`{Pipeline.from_yaml(config).layout.silver_table(f'{database}.a').path}`"
        spark.sql(f"DELETE FROM {silver} WHERE id = 1")
        spark.sql(f"UPDATE {silver} SET v = 'other' WHERE id = 2")
        spark.sql(f"INSERT INTO {silver} SELECT 9, v, _seq, _commit_ts FROM {silver} WHERE id = 3")
        assert call(1, "verify", "-c", config, "--repair")["keys_read_again"] == {f"{database}.a": 3}
        cursor.execute(f"UPDATE {database}.a SET v = 'zz' WHERE id = 3")
        ran = call(0, "run", "-c", config, "--once")
    assert isinstance(ran["tables"], dict)
    assert {name: counts.get("r", 0) for name, counts in ran["tables"].items()} == {f"{database}.a": 2}
    assert call(0, "verify", "-c", config)["verified"] is True
    assert sorted(row.v for row in spark.sql(f"SELECT v FROM {silver}").collect()) == ["x", "y", "zz"]
    then = call(0, "as-of", "-c", config, f"{database}.a", "--position", f"{at['file']}:{at['pos']}", "--rows", "9")
    assert then["tables"] == {f"{database}.a": 3}
    rows: Any = then["rows"]
    assert sorted(row["v"] for row in rows) == ["x", "y", "z"]
    both = call(0, "as-of", "-c", config, "--position", f"{at['file']}:{at['pos']}")
    assert both == {"tables": {f"{database}.a": 3, f"{database}.b": 3}}
    reach: Any = call(0, "as-of", "-c", config)["tables"]
    assert {name: (back["file"], back["pos"]) for name, back in reach.items()} == {
        f"{database}.{name}": (at["file"], at["pos"]) for name in "ab"
    }
    assert "no position" in str(call(2, "as-of", "-c", config, "--position", "12")["error"])


@pytest.mark.long
def test_what_is_asked_wrongly(mysql: MySqlServer, database: str, config: Path, spark: SparkSession) -> None:
    with closing(connected(mysql)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {database}.a (id INT PRIMARY KEY)")
    call(0, "run", "-c", config, "--once")
    assert call(2, "signal", "-c", config, "snapshot", "shop.nothing")["hint"] == f"one of {database}.a"
    assert call(0, "signal", "-c", config, "snapshot", "*.a") == {"read_again": [f"{database}.a"]}
    assert call(2, "signal", "-c", config, "snapshot")["kind"] == "config"
    assert call(2, "signal", "-c", config, "pause", f"{database}.a")["kind"] == "config"
    assert call(0, "signal", "-c", config, "pause") == {"paused": True}
    assert call(3, "run", "-c", config, "--once")["error"] == "the pipeline is paused"
    assert call(0, "signal", "-c", config, "resume") == {"paused": False}
    call(0, "run", "-c", config, "--once")


@pytest.mark.long
def test_a_paused_pipeline_rests_and_goes_on(
    spark: SparkSession, mysql: MySqlServer, database: str, config: Path
) -> None:
    lake = Pipeline.from_yaml(config)
    begun = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            lake.run(every_seconds=0.2, progress=lambda _: begun.set())
        except BaseException as error:
            failures.append(error)

    def active() -> int:
        return len([q for q in spark.streams.active if q.name and q.name.startswith("shop: ")])

    def rows() -> int:
        if Checkpoint(lake.checkpoint("silver")).last_commit() is None:
            return -1
        return read(spark, lake.layout.silver_table(f"{database}.a")).count()

    with closing(connected(mysql)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {database}.a (id INT PRIMARY KEY)")
        cursor.execute(f"INSERT INTO {database}.a VALUES (1)")
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        assert begun.wait(120)
        until(lambda: rows() == 1)
        lake.signals.pause()
        until(lambda: active() == 0)
        cursor.execute(f"INSERT INTO {database}.a VALUES (2)")
        time.sleep(3)
        assert active() == 0
        lake.signals.resume()
        until(lambda: rows() == 2)
    for query in spark.streams.active:
        query.stop()  # which ends the run as well
    thread.join(120)
    assert not thread.is_alive()
    assert failures == []
