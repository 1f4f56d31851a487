"""A table and changes of it, as Spark makes them: what each row holds is a function of its key and its version.

So what a table must hold after any changes can be computed without the code that is measured, however big it is. The
table has the even keys; changes update and delete these, and insert odd ones.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.model.seq import ORDINAL, Rank, Seq
from lakehouse_cdc.model.table_layout import literal
from lakehouse_cdc.schema.table import Column, TableSchema

Keys = Literal["near", "random"]
KEYS: tuple[Keys, ...] = ("near", "random")
UUID = "6f0b0f2e-0000-4000-8000-000000000001"
_BEGAN = 1_700_000_000  # seconds since 1970

ORDERS = TableSchema(
    "bench",
    "orders",
    (
        Column("id", "bigint", nullable=False),
        Column("customer", "bigint"),
        Column("status", "varchar", length=20, charset="utf8mb4", collation="utf8mb4_0900_ai_ci"),
        Column("amount", "decimal", precision=12, scale=2),
        Column("note", "varchar", length=100, charset="utf8mb4", collation="utf8mb4_0900_ai_ci"),
        Column("placed", "datetime"),
    ),
    key=("id",),
)
# of the columns `id` and `version`
_ROW = {
    "id": "id",
    "customer": "abs(xxhash64(id)) % 1000000",
    "status": "element_at(array('new', 'paid', 'sent', 'returned'), CAST((id + version) % 4 AS INT) + 1)",
    "amount": "CAST(abs(xxhash64(id, version)) % 1000000 / 100 AS DECIMAL(12,2))",
    "note": "substr(sha2(concat(id, ':', version), 256), 1, 40)",
    "placed": f"CAST(timestamp_seconds({_BEGAN} + id % 86400000) AS TIMESTAMP_NTZ)",
}


@dataclass(frozen=True)
class Sample:
    """The keys that one batch changes: those of `updated` and `deleted` are in the table, `inserted` are new."""

    updated: list[int]
    deleted: list[int]
    inserted: list[int]

    @classmethod
    def draw(cls, keys: Keys, rows: int, changes: int, seed: int) -> Sample:
        """Eight of ten changes update, one deletes, one inserts; `near` ones lie side by side somewhere in the table.

        Samples of other seeds lie apart from each other only by chance.
        """
        chance = random.Random(seed)
        if keys == "random":
            found = chance.sample(range(rows), changes)
        else:
            first = chance.randrange(rows - changes + 1)
            found = chance.sample(range(first, first + changes), changes)
        tenth = changes // 10
        even = [2 * i for i in found]
        return cls(even[2 * tenth :], even[:tenth], [i + 1 for i in even[tenth : 2 * tenth]])

    def frame(self, spark: SparkSession) -> DataFrame:
        """Its keys with their ops, in the order of the keys: op, id."""
        pairs = [(op, i) for op, ids in (("u", self.updated), ("d", self.deleted), ("c", self.inserted)) for i in ids]
        return spark.createDataFrame(sorted(pairs, key=lambda pair: pair[1]), "op string, id bigint")


def row(version: str = "version") -> list[str]:
    """SQL: the columns of a row, from `id` and that version of it."""
    return [f"{sql.replace('version', version)} AS `{name}`" for name, sql in _ROW.items()]


def commit_ts(pos: int) -> str:
    """SQL: when what ends at that position was committed."""
    return f"timestamp_seconds({_BEGAN + pos})"


def read_seq(pos: int) -> int:
    """The seq of rows that were read at that position."""
    return Seq(1, 1, pos, Rank.READ, 0).pack()


def change_seq(pos: int) -> str:
    """SQL: the seq of the n-th change of the transaction that ends at that position, from `n`."""
    return f"CAST({Seq(1, 1, pos, Rank.EVENT, 0).pack()}BD + n * {ORDINAL} AS DECIMAL(38,0))"


def snapshot(spark: SparkSession, rows: int, pos: int, rows_in_task: int) -> DataFrame:
    """The whole table in bronze's columns, as it is read at a position, with the table's schema in front."""
    tasks = max(1, rows // rows_in_task)
    read = spark.range(0, rows, 1, tasks).selectExpr("id * 2 AS id", "0 AS version", "'r' AS op")
    found = _bronze(read, pos, f"CAST({read_seq(pos)}BD AS DECIMAL(38,0))")
    schema = literal(ORDERS.to_json())
    begin = spark.range(1).selectExpr(
        f"CAST({Seq(1, 1, 1, Rank.SCHEMA, 0).pack()}BD AS DECIMAL(38,0)) AS seq", "'s' AS op",
        f"'{ORDERS.name}' AS source_table", "CAST(NULL AS VARIANT) AS key", "CAST(NULL AS VARIANT) AS before",
        f"parse_json({schema}) AS after", f"{commit_ts(pos)} AS commit_ts", f"{_position(pos)} AS position",
        f"'{ORDERS.id}' AS schema_id",
    )  # fmt: skip
    return begin.unionByName(found)


def changes(spark: SparkSession, sample: Sample, pos: int) -> DataFrame:
    """A sample's changes in bronze's columns: one transaction; `pos` is the version of the rows from there on."""
    found = sample.frame(spark).repartition(1).sortWithinPartitions("id")
    found = found.withColumn("n", F.monotonically_increasing_id()).withColumn("version", F.lit(pos))
    return _bronze(found, pos, change_seq(pos))


def _bronze(found: DataFrame, pos: int, seq: str) -> DataFrame:
    image = ", ".join(f"'{name}', {sql}" for name, sql in _ROW.items())
    return found.selectExpr(
        f"{seq} AS seq", "op", f"'{ORDERS.name}' AS source_table",
        "to_variant_object(named_struct('id', id)) AS key",
        "CAST(NULL AS VARIANT) AS before",  # silver does not look at it
        f"IF(op = 'd', NULL, to_variant_object(named_struct({image}))) AS after",
        f"{commit_ts(pos)} AS commit_ts", f"{_position(pos)} AS position", f"'{ORDERS.id}' AS schema_id",
    )  # fmt: skip


def _position(pos: int) -> str:
    fields = {"server_uuid": f"'{UUID}'", "file": "'binlog.000001'", "pos": f"CAST({pos} AS BIGINT)"}
    inside = ", ".join(f"'{name}', {sql}" for name, sql in fields.items())
    return f"named_struct({inside}, 'gtid', CAST(NULL AS STRING))"
