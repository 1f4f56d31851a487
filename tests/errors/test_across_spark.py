"""An error of a planner, of a task, of a foreachBatch and of SQL arrives on the driver with its code and its parts."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from delta.tables import DeltaTable
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lakehouse_cdc.errors import CdcError, TableError, codes
from lakehouse_cdc.errors.codec import crossing, encoded
from lakehouse_cdc.lake import spark_errors
from lakehouse_cdc.lake.spark_errors import as_cdc_error, conditions, crossing_batch, jvm_has_ended
from lakehouse_cdc.model.table_layout import literal
from lakehouse_cdc.source.spark.stream import MySqlCdcSource
from tests.remedies import remedy

WHAT = """it 'went' "wrong" {"a": 1} <b> ${c} \\ %s é ] Hint: no """ + "x" * 20_000


def error() -> TableError:
    return codes.DECLARED_KEY_NOT_UNIQUE.error(WHAT, where="[here] Hint: there", hint="do {this}", table="shop.orders")


class FailingSource(DataSource):
    """It fails in its planner, or in its task."""

    @classmethod
    def name(cls) -> str:
        return "failing"

    def schema(self) -> str:
        return "n INT"

    def reader(self, schema: StructType) -> DataSourceReader:
        return FailingReader(self.options["at"])


class FailingReader(DataSourceReader):
    def __init__(self, at: str) -> None:
        self.at = at

    @crossing()
    def partitions(self) -> Sequence[InputPartition]:
        if self.at == "planner":
            raise error()
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        with crossing():
            yield (1,)
            raise error()


def of_source(spark: SparkSession, at: str) -> None:
    spark.dataSource.register(FailingSource)
    spark.read.format("failing").option("at", at).load().collect()


def of_sql(spark: SparkSession, _: str) -> None:
    spark.range(3).select(F.expr(f"raise_error({literal(encoded(error()))})")).collect()


def of_batch(spark: SparkSession, folder: str) -> None:
    @crossing_batch()
    def write(rows: DataFrame, batch: int) -> None:
        raise error()

    rows = spark.readStream.format("rate").load()
    rows.writeStream.foreachBatch(write).option("checkpointLocation", folder).trigger(
        once=True
    ).start().awaitTermination()


def arrived(run: Callable[[SparkSession, str], None], spark: SparkSession, given: str) -> CdcError:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        run(spark, given)
    assert not isinstance(caught.value, CdcError)
    return as_cdc_error(caught.value)


@pytest.mark.parametrize(
    ("run", "given"), [(of_source, "planner"), (of_source, "task"), (of_sql, ""), (of_batch, "folder")]
)
def test_it_arrives_as_it_was(
    spark: SparkSession, tmp_path: Path, run: Callable[[SparkSession, str], None], given: str
) -> None:
    found = arrived(run, spark, str(tmp_path / "checkpoint") if run is of_batch else given)
    assert type(found) is TableError
    assert found.code is codes.DECLARED_KEY_NOT_UNIQUE
    assert found.as_json() == error().as_json()


def test_the_source_itself_sends_its_errors_so(spark: SparkSession, tmp_path: Path) -> None:
    spark.dataSource.register(MySqlCdcSource)
    options = {"url": "mysql://nobody@127.0.0.1:1", "tables": "a.b", "schemaFolder": str(tmp_path), "asOf": "{}"}

    def planner(spark: SparkSession, as_of: str) -> None:
        spark.read.format("mysql_cdc").options(**{**options, "asOf": as_of}).load().collect()

    found = arrived(planner, spark, json.dumps({"version": 99}))
    assert found.code is codes.OFFSET_UNREADABLE
    assert "version 99" in found.what

    def options_of(spark: SparkSession, _: str) -> None:
        spark.read.format("mysql_cdc").options(**options, chunkRows="none").load().collect()

    assert arrived(options_of, spark, "").kind == "config"


@remedy(codes.DELTA_FAILED)
def test_what_deltas_message_names_is_changed(spark: SparkSession, tmp_path: Path) -> None:
    def opened(spark: SparkSession, place: str) -> None:
        DeltaTable.forPath(spark, place)

    refused = arrived(opened, spark, str(tmp_path / "nothing"))
    assert refused.code is codes.DELTA_FAILED
    assert refused.hint == "Read Delta's message in the error, and change what it names."
    named = re.search(r"`([^`]*nothing)`|(/\S*nothing)", refused.what)
    assert named, refused.what
    place = (named[1] or named[2]).removeprefix("file:")
    spark.range(3).write.format("delta").save(place)
    assert DeltaTable.forPath(spark, place).toDF().count() == 3


def test_errors_of_spark_go_by_their_conditions(spark: SparkSession, tmp_path: Path) -> None:
    def lacking(spark: SparkSession, _: str) -> None:
        DeltaTable.forPath(spark, str(tmp_path / "nothing"))

    assert arrived(lacking, spark, "").code is codes.DELTA_FAILED

    def cast(spark: SparkSession, _: str) -> None:
        spark.sql("SELECT variant_get(parse_json('\"a\"'), '$', 'int')").collect()

    with pytest.raises(Exception, match="cast") as caught:
        cast(spark, "")
    assert "INVALID_VARIANT_CAST" in conditions(caught.value)
    # its text alone is not its condition
    assert arrived(lambda *_: (_ for _ in ()).throw(RuntimeError("DELTA_X")), spark, "").code is codes.SPARK_FAILED
    late = RuntimeError("Python worker failed to connect back.")
    assert as_cdc_error(late).code is codes.PYTHON_WORKER_LATE


class Unreachable:
    """A JVM, or an exception in it, whose connections have ended."""

    def __getattr__(self, name: str) -> Any:
        raise ConnectionRefusedError(111, "Connection refused")


@contextmanager
def unreachable_jvm(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Iterator[BaseException]:
    """This process's JVM, which cannot be asked, and ends after so many seconds; and a failure that it had."""
    failure = RuntimeError("a query failed")
    failure.java_exception = Unreachable()  # type: ignore[attr-defined]
    with subprocess.Popen(["sleep", str(seconds)]) as process:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process, jvm=Unreachable()))
        try:
            yield failure
        finally:
            process.kill()


@pytest.mark.process
@pytest.mark.parametrize(
    "cut_off", [None, Py4JNetworkError("Error while sending or receiving"), ConnectionResetError(104, "reset by peer")]
)
def test_a_jvm_that_is_ending_cannot_be_asked(monkeypatch: pytest.MonkeyPatch, cut_off: Exception | None) -> None:
    """One that was killed has closed its connections, and its process is there for a moment yet."""
    with unreachable_jvm(monkeypatch, 1) as failure:
        assert not jvm_has_ended()
        ended = as_cdc_error(cut_off or failure, hint="look")
        assert jvm_has_ended()
    assert (ended.code, ended.what, ended.hint) == (codes.SPARK_FAILED, "Spark's JVM has ended", "look")


@pytest.mark.process
def test_what_a_jvm_does_not_say_is_not_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_errors, "DYING_SECONDS", 0.1)
    with unreachable_jvm(monkeypatch, 60) as failure, pytest.raises(ConnectionRefusedError):
        as_cdc_error(failure)
