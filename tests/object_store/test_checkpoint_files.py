"""Checkpoints of streams in S3: each file is created once, as a whole, by one query."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from lakehouse_cdc.errors import CdcError, DefiniteError, codes
from lakehouse_cdc.lake.file_systems import reach
from lakehouse_cdc.lake.files.choice import files_at
from lakehouse_cdc.lake.object_store import ObjectStore
from lakehouse_cdc.lake.spark_errors import as_cdc_error, failure_of
from lakehouse_cdc.model.place import Storage
from lakehouse_cdc.pipeline.run.store import store_asked
from lakehouse_cdc.runtime.object_store import keep_checkpoints
from tests.support.s3_server import S3Server

REFUSED = "org.apache.hadoop.fs.FileAlreadyExistsException"


class Manager:
    """Spark's manager of the files of one checkpoint, as a query of the session has it."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        keep_checkpoints(spark)
        jvm: Any = spark._jvm
        self._jvm = jvm
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        files: Any = self._jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
        self.place, self._java = place, files.create(self._jvm.org.apache.hadoop.fs.Path(place), configuration)

    def stream(self, name: str, *, overwrite: bool = False) -> Any:
        """One to write a file by."""
        return self._java.createAtomic(self._jvm.org.apache.hadoop.fs.Path(f"{self.place}/{name}"), overwrite)

    def create(self, name: str, text: str, *, overwrite: bool = False) -> str:
        """Create a file; the class of the exception, "" for none."""
        stream = self.stream(name, overwrite=overwrite)
        stream.write(text.encode())
        try:
            stream.close()
        except Py4JJavaError as error:
            stream.cancel()
            return str(error.java_exception.getClass().getName())
        return ""


def test_of_many_who_create_a_file_one_does(spark: SparkSession, store: ObjectStore, bucket: str) -> None:
    manager = Manager(spark, f"s3a://{bucket}/checkpoint/offsets")
    with ThreadPoolExecutor(6) as pool:
        for batch in range(5):
            ends = [*pool.map(lambda who, of=batch: manager.create(str(of), f"end {who}"), range(6))]
            assert sorted(ends) == ["", *[REFUSED] * 5]
            held = store.read(f"{manager.place}/{batch}")
            assert held is not None
            assert held[0].decode() == f"end {ends.index('')}"
    assert manager.create("0", "replaced", overwrite=True) == ""
    assert store.read(f"{manager.place}/0")[0] == b"replaced"  # type: ignore[index]


def test_nothing_is_there_before_the_end_and_what_is_given_up_leaves_nothing(
    spark: SparkSession, s3: S3Server, bucket: str
) -> None:
    manager = Manager(spark, f"s3a://{bucket}/checkpoint/offsets")
    begun, given_up = manager.stream("0"), manager.stream("1")
    for stream in (begun, given_up):
        stream.write(b"text")
    given_up.cancel()
    given_up.close()
    assert s3.objects(bucket) == []
    begun.close()
    begun.close()
    assert s3.objects(bucket) == ["checkpoint/offsets/0"]


def test_a_file_whose_answer_is_lost_was_created(spark: SparkSession, s3: S3Server, bucket: str) -> None:
    manager = Manager(spark, f"s3a://{bucket}/checkpoint/offsets")
    lost = iter([True])
    s3.lost = lambda asked: asked.method == "PUT" and asked.path.endswith("/0") and next(lost, False)
    assert manager.create("0", "mine") == ""
    assert next(lost, None) is None
    assert manager.create("0", "another's") == REFUSED


def test_files_of_folders_are_written_as_ever(spark: SparkSession, tmp_path: Path) -> None:
    manager = Manager(spark, f"file:{tmp_path}/checkpoint")
    assert manager.create("metadata", "who") == ""
    assert sorted(one.name for one in (tmp_path / "checkpoint").iterdir()) == [".metadata.crc", "metadata"]


@pytest.mark.long
def test_a_query_that_finds_its_batch_planned_by_another_ends(
    spark: SparkSession, store: ObjectStore, bucket: str
) -> None:
    keep_checkpoints(spark)
    place = f"s3a://{bucket}/checkpoint"

    def write(_: DataFrame, batch: int) -> None:
        if batch == 1:
            assert store.put_new(f"{place}/offsets/2", b"another's")

    rates = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    query = rates.writeStream.foreachBatch(write).option("checkpointLocation", place)
    started = query.trigger(processingTime="200 milliseconds").start()
    with pytest.raises(StreamingQueryException):
        started.awaitTermination(120)
    failure = failure_of(started)
    assert failure is not None
    assert as_cdc_error(failure).code is codes.LEASE_LOST
    assert store.read(f"{place}/offsets/2")[0] == b"another's"  # type: ignore[index]


@pytest.mark.parametrize("methods", [("GET",), ("PUT",), ("DELETE", "POST")])
def test_a_store_that_refuses_the_keys_is_not_tried_again(
    spark: SparkSession, s3: S3Server, bucket: str, methods: tuple[str, ...]
) -> None:
    place = f"s3a://{bucket}/kept/shop"
    storage = Storage(endpoint=s3.url, access_key="key", secret_key="secret")
    reach(place, storage)
    files = files_at(place)
    files.write("note", "of a run")
    s3.refused = lambda asked: asked.method in methods
    asks: dict[str, Callable[[], object]] = {
        "GET": files.names,
        "PUT": lambda: files.write("note", ""),
        "DELETE": lambda: files.delete("note"),
    }
    with pytest.raises(CdcError) as transient:
        asks[methods[0]]()
    assert transient.value.code is codes.OBJECT_STORE_UNAVAILABLE
    with pytest.raises(CdcError) as refused, store_asked(place, lambda: spark):
        asks[methods[0]]()
    assert refused.value.code is codes.OBJECT_STORE_REFUSED
    s3.refused = lambda _: False
    with pytest.raises(CdcError) as passed, store_asked(place, lambda: spark):
        raise transient.value
    assert passed.value is transient.value


def test_an_older_spark_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakehouse_cdc.runtime.object_store.CHECKPOINT_FILES", "lakehouse_cdc.store.None")
    with pytest.raises(DefiniteError, match="cannot keep checkpoints in a store") as refused:
        keep_checkpoints(spark)
    assert refused.value.code is codes.OBJECT_STORE_UNSUPPORTED
