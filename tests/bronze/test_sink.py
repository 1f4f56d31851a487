"""The stream into bronze: each batch once, read once, with its position, its counts and its schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from lakehouse_cdc.bronze.sink import BronzeBatch, start
from lakehouse_cdc.bronze.tables import create_bronze
from lakehouse_cdc.lake.commits import history
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.bronze_row import SCHEMA
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.schema.table import Column, TableSchema

TABLE = TableSchema("shop", "t", (Column("id", "int", False),), ("id",))


def counting_source(folder: Path) -> type[DataSource]:
    """A source whose tip stands in the file `tip`; it yields position n as one insert, and notes every read.

    Position 1 is the table's schema. The classes are made here so that they travel to Spark's workers by value.
    """
    tip, reads, schema = str(folder / "tip"), str(folder / "reads"), TABLE.to_json()
    table_id = TABLE.id

    class Reader(DataSourceStreamReader):
        def initialOffset(self) -> dict[str, Any]:
            return {}

        # Spark still takes the form without a limit, which pyspark's annotation leaves out
        def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
            with open(tip) as file:
                pos = int(file.read())
            return {"epoch": 1, "server_uuid": "u", "file": "binlog.000001", "pos": pos, "gtid": "", "commit_ts": 0}

        def partitions(self, begin: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
            return [InputPartition((begin.get("pos", 0), end["pos"]))]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            from decimal import Decimal

            from pyspark.sql.types import VariantVal

            from lakehouse_cdc.model.variant import encode

            first, last = partition.value
            with open(reads, "a") as file:
                file.write(f"{first}-{last}\n")
            where = ("u", "binlog.000001", last, None)
            for pos in range(first + 1, last + 1):
                after = json.loads(schema) | {"statement": None} if pos == 1 else {"id": pos}
                image = VariantVal(*encode(after))
                key = None if pos == 1 else VariantVal(*encode({"id": pos}))
                op = "s" if pos == 1 else "c"
                yield (Decimal(pos), op, "shop.t", key, None, image, None, where, table_id)

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "counting"

        def schema(self) -> str:
            return SCHEMA

        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            return Reader()

    return Source


def test_every_batch_is_written_once_with_its_position_and_schema(spark: SparkSession, tmp_path: Path) -> None:
    layout = Layout("shop", bronze="b", path=str(tmp_path / "lake"))
    create_bronze(spark, layout)
    spark.dataSource.register(counting_source(tmp_path))
    done: list[BronzeBatch] = []

    def run(tip: int, fail: bool = False) -> None:
        def on_batch(batch: BronzeBatch) -> None:
            if fail:
                raise RuntimeError("the driver dies after the append")
            done.append(batch)

        (tmp_path / "tip").write_text(str(tip))
        changes = spark.readStream.format("counting").load()
        start(spark, changes, layout, str(tmp_path / "checkpoint"), on_batch=on_batch).awaitTermination()

    with pytest.raises(Exception, match="the driver dies"):
        run(3, fail=True)
    run(3)  # batch 0 comes again
    run(5)
    run(5)  # nothing new

    rows = [int(row["seq"]) for row in read(spark, layout.changes).collect()]
    assert sorted(rows) == [1, 2, 3, 4, 5]
    assert [(b.batch, b.version, b.source_point.pos, b.rows) for b in done] == [
        (0, 1, 3, {"shop.t": {"c": 2, "s": 1}}),
        (1, 2, 5, {"shop.t": {"c": 2}}),
    ]
    assert [c.note.source_point.pos for c in history(spark, layout.changes) if c.note] == [5, 3]
    # the frame was evaluated once a batch; the replay, which Delta knows, did not read the source at all
    assert (tmp_path / "reads").read_text().split() == ["0-3", "3-5"]
    schemas = read(spark, layout.schemas).collect()
    assert [(r["source_table"], r["schema_id"], int(r["seq"]), r["statement"]) for r in schemas] == [
        ("shop.t", TABLE.id, 1, None)
    ]
    assert TableSchema.from_json(schemas[0]["schema"]) == TABLE
