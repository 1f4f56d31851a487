"""Bronze against its source: what all changes of a table come to, at the position of a commit of bronze.

Each key's last change is its row, unless that is a delete, or a truncation or the end of a repeated read took it away;
of a table without a key the images are counted (see `model.multiset`). Rows that were written under an earlier schema
are read as the changes of the schema since then have left them (see `silver.auto_cdc.schema_eras`). Images are VARIANT
objects that the loader's kernels wrote; Spark takes them apart here. A JSON document is compared letter by letter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.own_columns import longer_than_any
from lakehouse_cdc.model.table_layout import Layout, quoted
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.auto_cdc.schema_eras import Eras
from lakehouse_cdc.silver.batch.contents import split
from lakehouse_cdc.silver.batch.typed_columns import of_rows
from lakehouse_cdc.verify.canonical import of_source, of_typed, to_typed
from lakehouse_cdc.verify.columns import is_json, uncomparable
from lakehouse_cdc.verify.compare import Compared, TableResult, compare
from lakehouse_cdc.verify.reading import BY_IMAGE
from lakehouse_cdc.verify.silver import source_texts

_N = longer_than_any("n")  # how often a row is there, beside columns by the source's names
_SIGNS = {"r": (1, 0), "c": (1, 0), "u": (1, -1), "d": (0, -1)}  # what `after` and `before` count


def verify_bronze(
    spark: SparkSession, layout: Layout, options: Mapping[str, str], offset: Offset, schema: TableSchema, version: int
) -> TableResult:
    """Compare the fold of bronze's rows of one table, up to a version of bronze, with the source at the offset.

    `schema` is the table's at the offset. Raises DefiniteError where bronze holds no schema of the table, or another.
    """
    texts = source_texts(spark, options, offset, schema.name, exact_json=True)
    names = [c.name for c in schema.captured]
    expected = texts.select(
        *[F.expr(of_source(f"c{i}", c)).alias(c.name) for i, c in enumerate(schema.captured)], BY_IMAGE
    )
    rows = read(spark, layout.changes, version).where(F.col("source_table") == schema.name)
    eras = _Eras.of(spark, layout, schema)
    actual = _by_key(rows, eras) if schema.key else _counted(rows, eras)
    kinds = {c.name: require(_exact(c), schema.name).silver for c in schema.captured}

    def typed(name: str, value: str) -> str:
        return to_typed(value, kinds[name])

    compared = Compared(names, list(schema.key), typed, {}, BY_IMAGE)
    return compare(schema.name, expected, actual.select(*map(quoted, names)), compared, rows=actual.count())


class _Eras:
    """How rows of each era read as rows of the last: as Spark's values, documents as their texts."""

    def __init__(self, named: Eras, exact: Eras) -> None:
        self.named, self.exact = named, exact
        self.last = exact.last.schema

    @classmethod
    def of(cls, spark: SparkSession, layout: Layout, schema: TableSchema) -> _Eras:
        """Of all that bronze met of a table, up to the schema that is in force."""
        rows = read(spark, layout.schemas).where(F.col("source_table") == schema.name)
        schemas = [(int(row["seq"]), row["schema"]) for row in rows.select("seq", "schema").orderBy("seq").collect()]
        while schemas and (schemas[-1][1] is None or TableSchema.from_json(schemas[-1][1]).id != schema.id):
            schemas.pop()  # met since
        eras = Eras.of(schema.name, schemas)
        exact = Eras.of(schema.name, [(seq, None if text is None else _with_texts(text)) for seq, text in schemas])
        if eras is None or exact is None:
            raise codes.BRONZE_EMPTY.error(
                "bronze does not hold the table's schema", where=schema.name, hint="run first"
            )
        return cls(eras, exact)

    def image(self, variant: str) -> str:
        """SQL: the canonical row of the last schema that an image column holds, given the row's `era`."""
        return self._of_each(
            variant, lambda n, row: self.exact.values(n, row), lambda s: s.captured, self.last.captured
        )

    def key(self) -> str:
        """SQL: the key of the last schema, of the column `key`, given the row's `era`."""
        keys = self.last.key_columns
        return self._of_each("key", lambda n, row: self.exact.keys(n, row), lambda s: s.key_columns, keys)

    def _of_each(self, variant: str, values: Any, columns: Any, last: Sequence[Column]) -> str:
        cases = []
        for n, era in enumerate(self.exact.every):
            fields = ", ".join(f"{quoted(c.name)}: {require(c, era.schema.name).image}" for c in columns(era.schema))
            expressions = values(n, f"CAST(IF(era = {n}, {of_rows(variant)}, NULL) AS STRUCT<{fields}>)")
            struct = ", ".join(f"'{i}', {expressions[c.name]}" for i, c in enumerate(last))
            cases.append(f"WHEN era = {n} AND {variant} IS NOT NULL THEN named_struct({struct})")
        return f"CASE {' '.join(cases)} END"


def _with_texts(text: str) -> str:
    """A schema, as bronze holds it, in which JSON is carried as its text."""
    data = json.loads(text)
    for column in data["columns"]:
        if column["type"] == "json" and not column.get("mask"):
            column["carried"] = "text"
    return json.dumps(data, ensure_ascii=False)


def _exact(column: Column) -> Column:
    return replace(column, carried="text") if is_json(column) else column


def _rows(rows: DataFrame, eras: _Eras) -> DataFrame:
    """The changes of rows that can be read, with their `era`."""
    changes = rows.where(F.col("op").isin(*_SIGNS)).where(f"seq > {eras.exact.begins}BD")
    return changes.withColumn("era", F.expr(eras.named.which()))


def _by_key(rows: DataFrame, eras: _Eras) -> DataFrame:
    part = split(rows).get(eras.last.name)
    barrier = part.barrier if part is not None else 0
    keyed = _rows(rows, eras).select(F.expr(eras.key()).alias("id"), "seq", "op", "after", "era")
    latest = keyed.groupBy("id").agg(
        F.max("seq").alias("seq"), F.max_by(F.struct("op", "after", "era"), "seq").alias("c")
    )
    stand = latest.select("seq", "c.op", "c.after", "c.era").where(f"op <> 'd' AND seq >= {barrier}BD")
    return _canonical(stand.select(F.expr(eras.image("after")).alias("row")), eras)


def _counted(rows: DataFrame, eras: _Eras) -> DataFrame:
    part = split(rows).get(eras.last.name)
    read_at = rows.where("op = 'r'").agg(F.max("seq").alias("seq")).head()
    floor = max(part.barrier if part is not None else 0, int((read_at and read_at["seq"]) or 0))
    changes = _rows(rows, eras).where(f"seq >= {floor}BD")
    signs = [F.create_map(*[F.lit(v) for op, n in _SIGNS.items() for v in (op, n[at])]) for at in (0, 1)]
    after, before = (
        changes.select(F.expr(eras.image(image)).alias("row"), sign[F.col("op")].alias(_N)).where(f"{_N} <> 0")
        for image, sign in zip(("after", "before"), signs, strict=True)
    )
    names = [quoted(c.name) for c in eras.last.captured]
    counts = _canonical(after.unionByName(before), eras).groupBy(*names).agg(F.sum(_N).alias(_N)).where(f"{_N} <> 0")
    below = F.raise_error(F.lit(f"bronze counts a row of {eras.last.name} below zero"))
    times = F.when(F.col(_N) > 0, F.col(_N)).otherwise(below.cast("bigint"))
    return counts.select(*names, F.explode(F.sequence(F.lit(1).cast("bigint"), times)).alias(_N))


def _canonical(rows: DataFrame, eras: _Eras) -> DataFrame:
    """The canonical columns of the struct `row`; the other columns stay."""
    columns = []
    for i, column in enumerate(eras.last.captured):
        value = f"row.`{i}`"
        if uncomparable(column) is not None:
            columns.append(F.expr(f"IF({value} IS NULL, NULL, '')").alias(column.name))
        else:
            columns.append(of_typed(value, require(column, eras.last.name).silver).alias(column.name))
    return rows.select(*columns, *[name for name in rows.columns if name != "row"])
