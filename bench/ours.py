"""One run of this project, in a process of its own, and a check of what arrived; prints one line of JSON.

    python -m bench.ours decode PORT TABLE                    # a table's rows to VARIANT, one connection, no Spark
    python -m bench.ours decode-log PORT TABLE START END      # a stretch of binlog to VARIANT, the same
    python -m bench.ours begin PORT TABLE FOLDER              # a pipeline that has read the table, to be copied
    python -m bench.ours bronze|silver PORT TABLE FOLDER      # all that is new, into that pipeline's tables
    python -m bench.ours catalog|by-spark PORT TABLE FOLDER   # a new pipeline's bronze in a catalog; by Spark's writer

Before the clock runs, kernels are loaded; and before a pipeline is timed, one over a small table has been run in the
same session, as the peers have their virtual machine warm, too.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pymysql.cursors
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.tables import BY_NAME, WARM, connected
from lakehouse_cdc.images.program import ProgramSet, key_metadata, row_metadata
from lakehouse_cdc.images.warm import warm_up
from lakehouse_cdc.lake import catalog_folder
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.offset import Identity
from lakehouse_cdc.model.position import FIRST_EVENT, Position
from lakehouse_cdc.model.table_layout import Table
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.mysql.catalog import read_tables
from lakehouse_cdc.mysql.connection.session import connect
from lakehouse_cdc.mysql.key_range import KeySpace
from lakehouse_cdc.mysql.wire.select import select_images
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.runtime.session import local_session
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.reading.log_reader import LogReader
from lakehouse_cdc.source.tail.log_tail import Tail
from lakehouse_cdc.workers.launcher import programs

_SAMPLED = 997  # every so manieth key is compared in full
_REPLICA = 78_001
_OF_CATALOG = ("catalog", "by-spark")


def decode_rows(port: int, table: str) -> tuple[int, float]:
    """All rows of a table, by one SELECT; the images of every 997th are compared with what PyMySQL reads."""
    options, schema = _options(port, table), _schema(port, table)
    space, programs = KeySpace(schema), ProgramSet.of([schema])
    warm_up()
    rows, sample = 0, _Sample(options, schema)
    began = time.perf_counter()
    with connect(options.connection, purpose="data") as data:
        for images in select_images(
            data.connection, f"SELECT {space.select_list()} FROM {space.table}", schema, programs=programs
        ):
            sample.take(images.key.to_arrow(), images.after.to_arrow())
            rows += images.n
    seconds = time.perf_counter() - began
    _require_images(port, schema, sample.last)
    return rows, seconds


def decode_log(port: int, table: str, start: str, end: str) -> tuple[int, float]:
    """All changes of a table between two positions; of every 997th key the last image is compared with its row."""
    options, schema = _options(port, table), _schema(port, table)
    identity = _identity(options, _position(start))
    warm_up()
    changes, sample = 0, _Sample(options, schema)
    began = time.perf_counter()
    with LogReader(options, _position(start), _position(end), [schema], identity, _REPLICA) as log:
        for part in log:
            images = part.changes
            sample.take(images.key.to_arrow(), images.after.to_arrow())
            changes += images.n
    seconds = time.perf_counter() - began
    _require_images(port, schema, sample.last)
    return changes, seconds


class _Sample:
    """The last image of every 997th key that the table has now, of those that pass."""

    def __init__(self, options: SourceOptions, schema: TableSchema) -> None:
        [key], space = schema.primary_key, KeySpace(schema)
        sql = f"SELECT {space.select_list()} FROM {space.table} WHERE {key} % {_SAMPLED} = 1"
        with connect(options.connection, purpose="data") as data:
            chosen = [images.key.to_arrow() for images in select_images(data.connection, sql, schema)]
        self._chosen = pa.concat_arrays(chosen)
        self.last: dict[bytes, bytes | None] = {}

    def take(self, key: pa.Array, after: pa.Array) -> None:
        mine = pc.is_in(key, value_set=self._chosen)
        self.last.update(zip(key.filter(mine).to_pylist(), after.filter(mine).to_pylist(), strict=True))


def _require_images(port: int, schema: TableSchema, images: Mapping[bytes, bytes | None]) -> None:
    """Each key's row, as the server has it now, is what its image says; None where there is none."""
    of_key, of_row = key_metadata(schema), row_metadata(schema)
    names = [column.name for column in schema.captured]
    wanted = {decode(key, of_key)[names[0]]: after and decode(after, of_row) for key, after in images.items()}
    assert wanted, "there was nothing to compare"
    with closing(connected(port)) as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute(f"SELECT * FROM {schema.name} WHERE {names[0]} IN %s", (list(wanted),))
        found = {row[names[0]]: row for row in cursor.fetchall()}
    for key, row in wanted.items():
        assert found.get(key) == row, f"{schema.name} {key}: {row} arrived, {found.get(key)} was sent"


def begin(port: int, table: str, folder: Path) -> tuple[int, float]:
    """A pipeline whose tables hold what the table holds now."""
    folder.mkdir(parents=True)
    spark = local_session("bench", log=folder / "spark.log", python=programs())
    return _timed(_pipeline(spark, port, table, folder, "silver"))


def arrive(port: int, table: str, folder: Path, kind: str) -> tuple[int, float]:
    """All that is new in a pipeline's tables; the rows that these tell of are compared with the source's."""
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "by-spark":
        catalog_folder.SESSION_CATALOG = ""  # as where a catalog's tables are in no folder
    conf = {"spark.sql.warehouse.dir": str(folder / "warehouse")}
    spark = local_session("bench", conf=conf, log=folder / "spark.log", python=programs())
    with tempfile.TemporaryDirectory(dir=folder, prefix="warm-") as warm:
        _timed(_pipeline(spark, port, WARM.name, Path(warm), kind))
    pipeline = _pipeline(spark, port, table, folder, kind)
    rows, seconds = _timed(pipeline)
    if kind == "silver":
        report = pipeline.verify()
        assert report.verified, report.to_json()
    _require_bronze(spark, port, table, pipeline.layout.changes)
    return rows, seconds


def _timed(pipeline: Pipeline) -> tuple[int, float]:
    began = time.perf_counter()
    report = pipeline.run(once=True)
    seconds = time.perf_counter() - began
    return sum(n for ops in report.rows.values() for op, n in ops.items() if op in "rcud"), seconds


def _require_bronze(spark: SparkSession, port: int, table: str, changes: Table) -> None:
    """The newest image of each key in bronze is a row of the source, and there is no other: counted, and summed up."""
    names = [name for name, *_ in BY_NAME[table].columns]
    key = names[0]
    newest = (
        read(spark, changes).where("op IN ('r', 'c', 'u', 'd')")
        .groupBy(F.expr(f"variant_get(key, '$.{key}', 'int') AS k"))
        .agg(F.max_by(F.struct("op", "after"), "seq").alias("last")).where("last.op <> 'd'")
    )  # fmt: skip
    values = ", ".join(f"coalesce(variant_get(last.after, '$.{name}', 'string'), '~')" for name in names)
    found = newest.selectExpr("count(*)", f"sum(crc32(CAST(concat_ws('|', {values}) AS BINARY)))").head()
    told = ", ".join(f"COALESCE({name}, '~')" for name in names)
    with closing(connected(port)) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*), SUM(CRC32(CONCAT_WS('|', {told}))) FROM {table}")
        [(rows, total)] = cursor.fetchall()
    assert found is not None
    assert (found[0], found[1] or 0) == (rows, int(total or 0)), f"bronze tells of {found}, {table} has {rows}, {total}"


def _pipeline(spark: SparkSession, port: int, table: str, folder: Path, kind: str) -> Pipeline:
    place: dict[str, object] = {"path": "lake", "bronze": "bronze", "silver": "silver" if kind == "silver" else None}
    if kind in _OF_CATALOG:
        schema = f"bronze_{folder.name.replace('-', '_')}".lower()
        place = {"catalog": "spark_catalog", "checkpoints": "checkpoints", "bronze": schema}
    config = PipelineConfig.parse(
        {
            "name": "bench",
            "source": {"url": f"mysql://root@127.0.0.1:{port}", "tls": "disabled", "tables": [table]},
            "target": place,
        }
    )
    return Pipeline(config, spark, home=folder)


def _options(port: int, table: str) -> SourceOptions:
    url = f"mysql://root@127.0.0.1:{port}"
    return SourceOptions.parse({"url": url, "tables": table, "tls": "disabled"}, streaming=False)


def _schema(port: int, table: str) -> TableSchema:
    with connect(_options(port, table).connection) as session:
        return read_tables(session, Selection((table,)))[table]


def _identity(options: SourceOptions, start: Position) -> Identity:
    with (
        connect(options.connection) as session,
        Tail(options, Position(start.file, FIRST_EVENT), matches=lambda _: False) as tail,
    ):
        tail.advance(start)
        return Identity(session.server_uuid, start.file, tail.created(start))


def _position(text: str) -> Position:
    file, _, pos = text.rpartition(":")
    return Position(file, int(pos))


def main() -> None:
    """See above."""
    what, port, table, *more = sys.argv[1:]
    if what == "decode":
        rows, seconds = decode_rows(int(port), table)
    elif what == "decode-log":
        rows, seconds = decode_log(int(port), table, *more)
    elif what == "begin":
        rows, seconds = begin(int(port), table, Path(*more))
    else:
        rows, seconds = arrive(int(port), table, Path(*more), what)
    print(json.dumps({"rows": rows, "seconds": round(seconds, 3)}), flush=True)


if __name__ == "__main__":
    main()
