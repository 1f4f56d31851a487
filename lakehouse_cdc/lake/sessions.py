"""What a session of Spark can, and what is done in its place on one that is remote (Spark Connect, serverless).

A remote session is a client: there is no JVM in this process, no second session with settings of its own, and of the
settings only a few may be changed (on Databricks serverless). So nothing here depends on a setting: what a
commit says goes by the options of a writer, or into the statement (see `commits`), and tasks are given what they are to
do by a DataFrame.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from lakehouse_cdc.lake.file_systems import in_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
Item = TypeVar("Item")
_UNSUPPORTED = "NOT_SUPPORTED"  # how the conditions begin by which a server says that it does not do something
_ROWS = 10_000  # that a session spreads over as many tasks as it does at once
_parallelism: dict[str, int] = {}  # of remote sessions, by their ids


def is_remote(spark: SparkSession) -> bool:
    """Whether it is a session of Spark Connect; such a one has no JVM in this process."""
    return not hasattr(spark, "_jvm")


def session_with(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session of its own with these settings; a remote one is used as it is, by all threads."""
    if is_remote(spark):
        return spark
    session = spark.newSession()
    for name, value in settings.items():
        session.conf.set(name, value)
    return session


def tasks_at_once(spark: SparkSession) -> int:
    """How many tasks a job has by default."""
    if not is_remote(spark):
        return int(spark.sparkContext.defaultParallelism)
    from pyspark.sql import functions as F

    if (name := str(spark.session_id)) not in _parallelism:  # type: ignore[attr-defined]  # of Connect's session
        _parallelism[name] = spark.range(_ROWS).select(F.spark_partition_id()).distinct().count()
    return max(1, _parallelism[name])


def done_in_tasks(spark: SparkSession, function: Callable[[Item], T], items: Sequence[Item]) -> list[T]:
    """What the function makes of each item, in a task of its own; in the order of the items."""
    function = in_task(function)
    if not is_remote(spark):
        return spark.sparkContext.parallelize(items, len(items)).map(function).collect()
    answers = spark.range(0, len(items), 1, len(items)).mapInArrow(
        _OneEach(function, tuple(map(pickle.dumps, items))), "number bigint, answer binary"
    )
    return [pickle.loads(bytes(row["answer"])) for row in sorted(answers.collect(), key=lambda row: row["number"])]


@contextmanager
def kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Within the block a frame that is looked at from several sides, computed once where the session keeps any.

    On serverless none is kept: there each look computes it again. So it must come to the same each time.
    """
    from pyspark.errors import PySparkException

    try:
        persisted = frame.persist()
    except PySparkException as error:
        if not (is_remote(frame.sparkSession) and (error.getCondition() or "").startswith(_UNSUPPORTED)):
            raise
        yield frame
        return
    try:
        yield persisted
    finally:
        persisted.unpersist()


@dataclass(frozen=True)
class _OneEach:
    """For `mapInArrow` over a range: of each number the answer to the item of that number."""

    function: Callable[[Any], Any]
    items: tuple[bytes, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for number in batch.column(0).to_pylist():
                answer = pickle.dumps(self.function(pickle.loads(self.items[number])))
                kind = pa.schema([("number", pa.int64()), ("answer", pa.binary())])
                yield pa.RecordBatch.from_pylist([{"number": number, "answer": answer}], schema=kind)
