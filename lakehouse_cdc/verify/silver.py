"""One silver table against its source, both as they were at one position.

The source side is an as-of read at the position at which silver is, so writes that continue meanwhile change neither
side. It is read as text (see `reading`), and silver by the types of its own columns (see `canonical`), so that neither
side goes through what filled silver. Of a table whose snapshot is unfinished the keys that silver can have are
compared, those below the cursor.

A computed column is compared with what its expression gives of silver's own row, whose other columns are compared with
the source; a filter is asked of the source's row, typed by Spark from its text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.column import Column as SparkColumn

from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.table_layout import Table, quoted
from lakehouse_cdc.schema.table import Column
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.batch.computed_columns import filtered, with_computed
from lakehouse_cdc.silver.definition.casts import carried_over
from lakehouse_cdc.silver.definition.column_mapping import Shape
from lakehouse_cdc.silver.definition.form import Form
from lakehouse_cdc.verify.canonical import of_source, of_typed, to_typed
from lakehouse_cdc.verify.columns import is_json, uncomparable
from lakehouse_cdc.verify.compare import Compared, TableResult, compare
from lakehouse_cdc.verify.reading import BY_IMAGE, unheld
from lakehouse_cdc.verify.text_source import FORMAT

_COMPUTED = "as its expression says"


def verify_table(
    spark: SparkSession,
    options: Mapping[str, str],
    offset: Offset,
    shape: Shape,
    silver: Table,
    version: int | None,
    *,
    form: Form,
) -> TableResult:
    """Compare the silver table at `version` (None: it does not exist) with the source at the offset's position.

    Of one that keeps more, as its `form` says, the rows as they are now are compared. Columns of a frozen table that
    follow none of the source's are passed over, and so is metadata. `options` are those of the `mysql_cdc` source.
    """
    expected = _expected(source_texts(spark, options, offset, shape.rows.name, raw_json=not _is_direct(shape)), shape)
    columns = [name for name in shape.names if name in shape.sources or name in shape.transform.computed]
    keys = list(shape.schema.key)
    kinds = {c.name: require(c, shape.schema.name).silver for c in shape.schema.captured}
    if version is None:
        actual = expected.select(*map(quoted, columns)).where("false")
    else:
        rows = read(spark, silver, version).where(form.is_current(silver.own))
        kinds |= {field.name: field.dataType.simpleString() for field in rows.schema}
        actual = rows.select(*[_held(shape, name, kinds[name]).alias(name) for name in columns])
    compared = Compared(columns, keys, _typed(shape, kinds), _flags(shape, kinds), BY_IMAGE)
    result = compare(shape.schema.name, expected, actual, compared, rows=actual.count())
    result = replace(result, notes=_notes(shape, form))
    if shape.frozen or result.keys is None:
        return replace(result, keys=None)
    return replace(result, keys=tuple({shape.sources[name]: key[name] for name in key} for key in result.keys))


def source_texts(
    spark: SparkSession,
    options: Mapping[str, str],
    offset: Offset,
    name: str,
    *,
    exact_json: bool = False,
    raw_json: bool = False,
) -> DataFrame:
    """The rows of one source table as of the offset, as `reading.Texts` has them."""
    alone = json.dumps(replace(offset, tables={name: offset.tables[name]}).to_json())
    flags = {"exactJson": str(exact_json).lower(), "rawJson": str(raw_json).lower()}
    return spark.read.format(FORMAT).options(**options).options(**flags).option("asOf", alone).load()


def _is_direct(shape: Shape) -> bool:
    """Whether the source's text is compared as it is, without being typed first."""
    return shape.transform.filter is None and not shape.frozen


def _expected(texts: DataFrame, shape: Shape) -> DataFrame:
    """The canonical columns of silver's names, of the source's rows that silver should hold, and the flags."""
    place = {c.name: (i, c) for i, c in enumerate(shape.rows.captured)}
    if shape.transform.filter is not None:
        row = F.struct(*[F.expr(_typed_value(shape, place, c)).alias(c.name) for c in shape.schema.captured])
        texts = filtered(with_computed(texts.withColumn("row", row), shape), shape).where("passes")
    columns = [_canonical(shape, place, c).alias(c.name) for c in shape.schema.captured if c.name in shape.sources]
    columns += [F.lit(_COMPUTED).alias(name) for name in shape.transform.computed]
    flags = {unheld(i) for i in range(len(shape.rows.captured))}
    return texts.select(*columns, *[name for name in texts.columns if name in flags], BY_IMAGE)


def _canonical(shape: Shape, place: Mapping[str, tuple[int, Column]], column: Column) -> SparkColumn:
    i, source = place[shape.sources[column.name]]
    held, comes = (require(c, shape.schema.name).silver for c in (column, source))
    return F.expr(of_source(f"c{i}", source)) if held == comes else of_typed(_typed_value(shape, place, column), held)


def _typed_value(shape: Shape, place: Mapping[str, tuple[int, Column]], column: Column) -> str:
    """SQL: what silver should hold in a column, of its type."""
    held = require(column, shape.schema.name).silver
    if column.name not in shape.sources:
        return f"CAST(NULL AS {held})"
    i, source = place[shape.sources[column.name]]
    comes = require(source, shape.schema.name).silver
    value = to_typed(f"t{i}" if is_json(source) else f"c{i}", comes)
    return value if held == comes else carried_over(value, comes, held, f"CAST(NULL AS {held})")


def _held(shape: Shape, name: str, kind: str) -> SparkColumn:
    """What silver holds in a column, in canonical form."""
    if name in shape.transform.computed:
        text = shape.transform.computed[name]
        return F.expr(f"IF({quoted(name)} <=> ({text}), '{_COMPUTED}', CAST({quoted(name)} AS STRING))")
    source = next((c for c in shape.rows.captured if c.name == shape.sources[name]), None)
    if source is not None and uncomparable(source) is not None:
        return F.expr(f"IF({quoted(name)} IS NULL, NULL, '')")
    return of_typed(quoted(name), kind)


def _typed(shape: Shape, kinds: Mapping[str, str]) -> Callable[[str, str], str]:
    return lambda name, value: to_typed(value, kinds[name])


def _flags(shape: Shape, kinds: Mapping[str, str]) -> dict[str, str]:
    """Silver's VARIANT columns, and where the source's side says of a document that a VARIANT cannot hold it."""
    place = {c.name: i for i, c in enumerate(shape.rows.captured) if is_json(c)}
    sources = {name: source for name, source in shape.sources.items() if kinds.get(name) == "variant"}
    return {name: unheld(place[source]) for name, source in sources.items() if source in place}


def _notes(shape: Shape, form: Form) -> tuple[str, ...]:
    """What of a silver table is not compared, for it has no like in the source."""
    notes = []
    if form.not_verified is not None:
        notes.append(form.not_verified)
    if shape.transform.metadata:
        notes.append(f"metadata columns are not compared: {', '.join(shape.transform.metadata)}")
    if ownerless := [c.name for c in shape.schema.captured if c.name not in shape.sources]:
        notes.append(f"columns that follow none of the source's are not compared: {', '.join(ownerless)}")
    if shape.ignored:
        notes.append(f"columns of the source that silver does not hold: {', '.join(shape.ignored)}")
    masked = [name for name, source in shape.sources.items()
              if any(c.name == source and uncomparable(c) for c in shape.rows.captured)]  # fmt: skip
    if masked:
        notes.append(f"masked floating point numbers are compared for NULL alone: {', '.join(masked)}")
    return tuple(notes)
