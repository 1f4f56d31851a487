"""Spark before 4.2 does not say where a batch begins: the same rows come, whatever dies when."""

from __future__ import annotations

import inspect
import json
import random
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.spark.legacy_reader import RememberingReader
from lakehouse_cdc.source.spark.stream import MySqlCdcSource
from lakehouse_cdc.source.spark.stream_reader import StreamReader
from lakehouse_cdc.testing import MySqlServer
from tests.support.servers import connected
from tests.support.source.driver import COLUMNS, changes, exact_bytes
from tests.support.source.stage import Stage

_DEATHS = ("offered", "written down", "planned", "read", None)


class Older:
    """What Spark 4.0 does with a stream: `written` are the ends that it has written down, `done` how many are done."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options
        self.written: list[dict[str, Any]] = []
        self.done = 0
        self.log: list[Any] = []
        self.last: list[pa.RecordBatch] = []
        self.restart()

    def restart(self) -> None:
        """A new process; a batch that was written down and not done is planned before anything else."""
        self.reader = RememberingReader(SourceOptions.parse(self.options))
        if self.done < len(self.written):
            self._execute(None)

    def batch(self, dies: str | None = None) -> bool:
        """One batch, or a part of it. False if there is nothing new."""
        end = json.loads(json.dumps(self.reader.latestOffset()))
        if end == (self.written[-1] if self.written else {}):
            return False
        if dies == "offered":
            self.restart()
            return True
        self.written.append(end)
        if dies == "written down":
            self.restart()
            return True
        self._execute(dies)
        return True

    def _execute(self, dies: str | None) -> None:
        start, end = self.written[-2] if len(self.written) > 1 else {}, self.written[-1]
        parts = self.reader.partitions(dict(start), dict(end))
        if dies == "planned":
            self.restart()
            return
        batches = [batch for part in parts for batch in self.reader.read(part)]
        if dies == "read":
            before = exact_bytes(batches)
            self.restart()
            assert exact_bytes(self.last) == before
            return
        self.last = batches
        self.log.extend(changes(batches))
        self.done += 1


def test_spark_before_4_2_gets_a_reader_that_it_can_call(monkeypatch: pytest.MonkeyPatch, stage: Stage) -> None:
    source = MySqlCdcSource(stage.driver().options)
    assert [*inspect.signature(source.streamReader(COLUMNS).latestOffset).parameters] == ["start", "limit"]
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    reader = source.streamReader(COLUMNS)
    assert isinstance(reader, RememberingReader)
    assert not inspect.signature(reader.latestOffset).parameters


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_the_rows_are_those_of_the_source_whatever_dies(stage: Stage, seed: int) -> None:
    chance = random.Random(seed)
    stage.create(rows=30)
    driver = stage.driver(chunkRows="7", maxRowsPerTrigger="9")
    older = Older(driver.options)
    for n in range(25):
        stage.run(f"INSERT INTO t VALUES ({1000 + n}, {n})")
        stage.run(f"UPDATE t SET v = {n} WHERE id % 5 = {n % 5}")
        older.batch(chance.choice(_DEATHS))
        if chance.random() < 0.2:
            older.restart()
    while older.batch(chance.choice(_DEATHS)):
        pass
    assert older.done == len(older.written) > 10
    driver.log, driver.offset = older.log, older.written[-1]
    stage.same(driver)


def test_the_files_of_another_checkpoint_are_refused(stage: Stage) -> None:
    stage.create(rows=3)
    older = Older(stage.driver().options)
    assert older.batch()
    stage.run("INSERT INTO t VALUES (1000, 1)")
    anew = Older(older.options)
    assert anew.reader.latestOffset() != older.written[-1]  # Spark takes it for the end of the first batch
    with pytest.raises(DefiniteError, match="do not belong together"):
        anew.reader.partitions({}, anew.reader.latestOffset())


@pytest.fixture
def registered(spark: SparkSession) -> str:
    class OlderSource(MySqlCdcSource):
        @classmethod
        def name(cls) -> str:
            return "mysql_cdc_older"

        def streamReader(self, schema: StructType) -> StreamReader:
            return RememberingReader(SourceOptions.parse(self.options))

    spark.dataSource.register(OlderSource)
    return OlderSource.name()


@pytest.mark.long
def test_a_real_stream(spark: SparkSession, mysql: MySqlServer, stage: Stage, registered: str, tmp_path: Path) -> None:
    """Spark 4.2 itself calls a reader of this kind as the Spark before it does."""
    stage.create(rows=20)
    options, table, place = stage.driver().options, str(tmp_path / "table"), str(tmp_path / "checkpoint")
    with closing(connected(mysql, database=stage.database)) as connection, connection.cursor() as cursor:
        for n in range(4):
            cursor.execute(f"INSERT INTO t VALUES ({1000 + n}, {n})")
            changes = spark.readStream.format(registered).options(**options).load()
            query = changes.writeStream.format("delta").option("checkpointLocation", place).trigger(availableNow=True)
            assert query.start(table).awaitTermination(300)
    rows = spark.read.format("delta").load(table).where("op <> 's'")
    ids = [r.id for r in rows.selectExpr("CAST(after:id AS INT) AS id").collect()]
    assert sorted(ids) == [*range(0, 200, 10), *range(1000, 1004)]
