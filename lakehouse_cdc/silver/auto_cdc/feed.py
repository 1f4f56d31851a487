"""What AUTO CDC is fed with: two typed streams for each table, of what happened to each key, in the order of seq.

`changes` are the row changes of bronze in the columns of the last schema (see `schema_eras`), with `own.op` (d: the row
goes) and `own.sequence`, a struct of seq and commit_ts, which AUTO CDC writes into `__START_AT` and `__END_AT` as the
MERGE does.

AUTO CDC knows nothing of a barrier (a truncation; the end of a repeated read, which takes away what the pass did not
find), and its own truncation only for type 1. So each barrier becomes a delete of every key that it takes away, at its
own seq: `gone`. That is one line for each key of which the last change before the barrier left a row, and is older than
what the barrier says. All changes before a barrier are in bronze when the barrier is, and none is ever added there,
so it is the same whenever it is asked for, be it long after. A key that an earlier barrier has taken away may be among
them once more, which deletes nothing.

Why that is the fold: a key's changes and deletes have seqs that differ. For type 1 the last of them decides, and it is
a delete just where the fold has none: a row older than what a barrier says goes at the barrier, whose seq is greater
than the row's. For type 2 the fold ends a version where the key's next line is a delete, and the barrier's is one at
the barrier's own moment just where the current version there took its last change before what the barrier says.

Barriers are rare, and what they take away is found by a look at all keys of the table. So they are in a small table of
their own (`barriers`) and have a flow of their own, which has work only where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.own_columns import OwnColumns
from lakehouse_cdc.model.table_layout import literal, quoted
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.auto_cdc.schema_eras import Eras
from lakehouse_cdc.silver.batch.contents import BELOW
from lakehouse_cdc.silver.batch.typed_columns import ROW_OPS
from lakehouse_cdc.silver.definition.form import MOMENT

BARRIERS = (
    ("source_table", "string"),
    ("op", "string"),
    ("seq", "decimal(38,0)"),
    ("commit_ts", "timestamp"),
    ("below", "decimal(38,0)"),
)


def barriers(rows: DataFrame) -> DataFrame:
    """The barriers of all tables among rows of bronze; what is older than `below`, a seq, goes at `seq`."""
    marks = rows.where(F.col("op").isin(Op.TRUNCATE.value, Op.END.value))
    return marks.selectExpr("source_table", "op", "seq", "commit_ts", f"{BELOW} AS below")


def changes(
    rows: DataFrame, eras: Eras, own: OwnColumns, comments: Mapping[str, str] = MappingProxyType({})
) -> DataFrame:
    """The row changes of one table among rows of bronze: its columns, with `comments`, and those of `own`.

    Reading one of a schema that `schema_eras` do not know raises an error, which says so.
    """
    images = {f"row_{id}": _image("after", s, s.captured) for id, s in _schemas(eras).items()}
    values = [eras.values(n, f"row_{era.schema.id}") for n, era in enumerate(eras.every)]
    others = {name: F.expr(_by_era([v[name] for v in values])) for name, _ in eras.columns}
    return _fed(_lines(rows, eras, images), eras, others, own, comments)


def gone(
    marks: DataFrame,
    rows: DataFrame,
    eras: Eras,
    own: OwnColumns,
    comments: Mapping[str, str] = MappingProxyType({}),
) -> DataFrame:
    """What the barriers among `marks` take away of one table, in the columns of `changes`; `rows` are all of bronze's.

    `marks` may be a stream.
    """
    following = F.lead("seq").over(Window.partitionBy("key").orderBy("seq"))
    lasts = _lines(rows, eras, {}).select("key", "op", "seq", following.alias("next")).alias("l")
    mine = (F.col("source_table") == eras.last.schema.name) & F.expr(f"seq > {eras.begins}BD")
    taken = F.expr("l.seq < b.below AND (l.next IS NULL OR l.next > b.seq) AND l.op <> 'd'")
    lost = lasts.join(F.broadcast(marks.where(mine)).alias("b"), taken)
    deleted = lost.select("l.key", F.lit(Op.DELETE.value).alias("op"), "b.seq", "b.commit_ts")
    nulls = {name: F.expr(f"CAST(NULL AS {kind})") for name, kind in eras.columns}
    return _fed(deleted, eras, nulls, own, comments)


def _fed(
    lines: DataFrame,
    eras: Eras,
    others: Mapping[str, SparkColumn],
    own: OwnColumns,
    comments: Mapping[str, str],
) -> DataFrame:
    """Lines (key, op, seq, commit_ts, ...) in the columns of the feed; `others` are the values beside the key's."""
    key = {name: F.col("key").getField(name) for name, _ in eras.key}
    marks = {name: {"comment": text} for name, text in comments.items()}
    columns = [{**others, **key}[name].alias(name, metadata=marks.get(name, {})) for name, _ in eras.columns]
    sequence = F.struct("seq", "commit_ts").cast(MOMENT).alias(own.sequence)
    added = {"seq": own.seq, "commit_ts": own.commit_ts, "op": own.op}
    return lines.select(*columns, *(F.col(name).alias(given) for name, given in added.items()), sequence)


def _lines(rows: DataFrame, eras: Eras, images: Mapping[str, str]) -> DataFrame:
    """The row changes of the table since its key is what it is: that key, op, seq, commit_ts, era, and `images`."""
    name = literal(eras.last.schema.name)
    mine = rows.where(f"source_table = {name} AND op IN ({_ops()}) AND seq > {eras.begins}BD")
    keys = {f"key_{id}": _image("key", s, s.key_columns) for id, s in _schemas(eras).items()}
    given = {"era": eras.which(), **keys, **images}
    lines = mine.selectExpr("op", "seq", "commit_ts", *(f"{sql} AS {name}" for name, sql in given.items()))
    values = [eras.keys(n, f"key_{era.schema.id}") for n, era in enumerate(eras.every)]
    key = F.struct(*(F.expr(_by_era([v[k] for v in values])).alias(k) for k, _ in eras.key))
    return lines.select(key.alias("key"), "op", "seq", "commit_ts", "era", *images)


def _schemas(eras: Eras) -> dict[str, TableSchema]:
    """Two eras may be of one schema."""
    return {era.schema.id: era.schema for era in eras.every}


def _image(variant: str, schema: TableSchema, columns: tuple[Column, ...]) -> str:
    """SQL: the VARIANT as a struct, NULL of a row of another schema.

    The column is not cast itself, nor a branch of an IF: such a cast would move into the scan (see
    `batch.typed_columns`).
    """
    fields = ", ".join(f"{quoted(c.name)}: {require(c, schema.name).image}" for c in columns)
    mine = f"get(array({variant}), IF(op IN ({_ops()}) AND schema_id = {literal(schema.id)}, 0, 1))"
    return f"CAST({mine} AS STRUCT<{fields}>)"


def _by_era(values: list[str]) -> str:
    """SQL: one of the values, by the number of the era."""
    return f"CASE era {' '.join(f'WHEN {n} THEN {value}' for n, value in enumerate(values))} END"


def _ops() -> str:
    return ", ".join(map(literal, ROW_OPS))
