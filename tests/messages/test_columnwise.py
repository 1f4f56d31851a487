"""Messages that are written by columns are those that are written row by row, byte by byte: the plain writers judge."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_cdc.images.program import row_metadata
from lakehouse_cdc.images.typed.columns import ImageColumns
from lakehouse_cdc.messages.change import RowChange, Settings
from lakehouse_cdc.messages.columnwise import Images, Stretch
from lakehouse_cdc.messages.formats import FORMATS, FormatName, around, by_columns
from lakehouse_cdc.model import variant
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.types import MAX_DECIMAL
from tests.messages.test_round_trip import TYPES
from tests.support.row_images import UTF8, image, random_row

NOW = 1_700_000_000_123_456
FORMS: tuple[FormatName, ...] = tuple(name for name in FORMATS if by_columns(name) is not None)
OPS = (Op.READ, Op.INSERT, Op.UPDATE, Op.DELETE)
ID = Column("id", "bigint", False)
NAME = "v \"é'\\%"  # of the column of a type
each_form = pytest.mark.parametrize("name", FORMS)


def change(chosen: random.Random, op: Op, key: Any, before: Any, after: Any) -> RowChange:
    rank = chosen.choice((Rank.EVENT, Rank.READ, Rank.END))
    seq = Seq(1, 7, 500 + chosen.randrange(10), rank, chosen.randrange(10**6)).pack()
    commit_us = chosen.choice((0, -1, NOW, 1_999, chosen.randrange(10**15)))
    gtid = chosen.choice((None, "", "uuid:7", 'a"b'))
    return RowChange(seq, op, key, before, after, commit_us, chosen.choice(("", "binlog.1", '"')), 500, gtid)


def columns(schema: TableSchema, rows: Sequence[Any], at: Sequence[int]) -> Images:
    """The images as tasks read them, of those rows that have one."""
    shown = replace(
        schema,
        columns=tuple(replace(c, type="longtext", **UTF8) if c.type == "json" else c for c in schema.columns),
    )
    if not rows:
        rows, empty = [dict.fromkeys(c.name for c in schema.captured)], True
    else:
        empty = False
    packed = pa.array([image(shown, row) for row in rows], pa.binary())
    blocks = list(ImageColumns(shown).read(packed, np.arange(len(rows))))
    whole = [pa.concat_arrays(pieces) for pieces in zip(*blocks, strict=True)]
    return Images([column.slice(0, 0) if empty else column for column in whole], np.array(at, np.int64))


def stretch(schema: TableSchema, changes: Sequence[RowChange]) -> Stretch:
    def those(images: list[Any]) -> Images:
        there = [i for i, one in enumerate(images) if one is not None]
        return columns(schema, [images[i] for i in there], there)

    of_key = replace(schema, columns=tuple(schema.key_columns))
    return Stretch(
        pa.array([str(one.seq) for one in changes], pa.string()),
        pa.array([one.op.value for one in changes], pa.string()),
        columns(of_key, [one.key for one in changes], range(len(changes))).columns if schema.key else None,
        those([one.before for one in changes]),
        those([None if one.op is Op.DELETE else one.after for one in changes]),
        np.array([one.commit_us for one in changes], np.int64), pa.array([one.file for one in changes], pa.string()),
        np.array([one.pos for one in changes], np.int64), pa.array([one.gtid for one in changes], pa.string()),
    )  # fmt: skip


def require_same(name: FormatName, schema: TableSchema, changes: Sequence[RowChange], **settings: Any) -> None:
    how = Settings("shop", "shop.t", version="1", **settings)
    plain = FORMATS[name](schema, how)
    wanted = [(i, message.key, message.value) for i, one in enumerate(changes) for message in plain(one, NOW)]
    form = by_columns(name)
    assert form is not None
    made = form(schema, how)(stretch(schema, changes), NOW)
    around_key, around_value = around(name, schema, how)
    keys = [None if key is None else around_key % key for key in made.keys.to_pylist()]
    values = [None if value is None else around_value % value for value in made.values.to_pylist()]
    assert list(zip(made.of.tolist(), keys, values, strict=True)) == wanted


def as_read(schema: TableSchema, row: dict[str, Any]) -> dict[str, Any]:
    """The row as bronze's image of it is decoded."""
    return dict(variant.decode(image(schema, row), row_metadata(schema)))


@each_form
@pytest.mark.parametrize(("column", "values"), TYPES, ids=[column.declared for column, _ in TYPES])
def test_every_type(name: FormatName, column: Column, values: st.SearchStrategy[Any]) -> None:
    schema = TableSchema("shop", "t", (replace(column, name=NAME), ID), ("id",))
    texts = schema if column.type != "json" else replace(schema, columns=(Column(NAME, "longtext", **UTF8), ID))

    @settings(max_examples=15)
    @given(st.lists(st.tuples(st.none() | values, st.none() | values, st.sampled_from(OPS)), max_size=12),
           st.randoms(), st.booleans(), st.booleans(), st.booleans())  # fmt: skip
    def same(rows: list[Any], chosen: Any, exact: bool, schemas: bool, tombstones: bool) -> None:
        changes = []
        for i, (one, two, op) in enumerate(rows):
            before = as_read(texts, {NAME: one, "id": i}) if op in (Op.UPDATE, Op.DELETE) else None
            after = None if op is Op.DELETE else as_read(texts, {NAME: two, "id": i})
            changes.append(change(chosen, op, {"id": i}, before, after))
        require_same(name, schema, changes, exact=exact, schemas=schemas, tombstones=tombstones)

    same()


def whole_table(chosen: random.Random) -> TableSchema:
    """A table of some of all types, with a key of one or more of its columns, or none."""
    picked = chosen.sample(TYPES, chosen.randrange(1, len(TYPES)))
    columns = [replace(column, name=f"c{i} {chosen.choice('é%')}") for i, (column, _) in enumerate(picked)]
    keys = [c for c in columns if c.type in ("int", "bigint", "varchar", "date", "decimal", "blob", "datetime")]
    key = chosen.sample(keys, min(len(keys), chosen.randrange(3)))
    columns = [replace(c, nullable=False) if c in key else c for c in columns]
    return TableSchema("shop", "t\"'", tuple(columns), tuple(c.name for c in key))


def row_of(chosen: random.Random, schema: TableSchema) -> dict[str, Any]:
    """A row at random, in which texts and bytes that stand for something are such."""
    row = random_row(chosen, schema)
    for column in schema.columns:
        digits = f".{chosen.randrange(10**6):06}"[: 1 + column.fraction] if column.fraction else ""
        meant: dict[str, Any] = {
            "time": f"{chosen.choice(('', '-'))}{chosen.randrange(839):02}:59:01{digits}",
            "bit": {1: bool, 10: int, 64: Decimal}[column.length or 1](chosen.randrange(2 ** (column.length or 1))),
            "decimal": "-0." + "1" * 30 if column.scale else "-12",
            **dict.fromkeys(("point", "geometry"), struct.pack("<IBIdd", chosen.choice((0, 4326)), 1, 1, 0.5, -1e300)),
        }
        if row[column.name] is not None and (column.type != "decimal" or (column.precision or 0) > MAX_DECIMAL):
            row[column.name] = meant.get(column.type, row[column.name])
    return row


@each_form
def test_whole_rows(name: FormatName, seed: int) -> None:
    """Of many columns, with keys of several, and without one; updates without a row before, too."""
    chosen = random.Random(seed)
    for _ in range(40):
        schema = whole_table(chosen)
        texts = replace(
            schema, columns=tuple(replace(c, type="text", **UTF8) if c.type == "json" else c for c in schema.columns)
        )
        changes = []
        for _ in range(chosen.choice((0, 1, 5, 60))):
            op = chosen.choice(OPS)
            one, two = (as_read(texts, row_of(chosen, texts)) for _ in range(2))
            before = one if op is Op.DELETE or (op is Op.UPDATE and chosen.random() < 0.8) else None
            held = one if op is Op.DELETE else two
            key = {name: held[name] for name in schema.key} if schema.key else None
            changes.append(change(chosen, op, key, before, None if op is Op.DELETE else two))
        how = {word: chosen.random() < 0.5 for word in ("exact", "schemas", "tombstones")}
        require_same(name, schema, changes, **how)


@each_form
def test_values_at_the_edges(name: FormatName) -> None:
    """Each text that JSON escapes alone and among others; decimals at each number of bytes, with either sign."""
    texts = [chr(n) for n in range(0x80)] + ["", "é\x7f", 'a"', "\\" * 70, "x" * 64 + "\n", "😀\u2028"]
    schema = TableSchema("shop", "t", (ID, Column("s", "text", **UTF8)), ("id",))
    rows: list[dict[str, Any]] = [{"id": i, "s": text} for i, text in enumerate([*texts, *([None, "plain"] * 3)])]
    chosen = random.Random(1)
    require_same(name, schema, [change(chosen, Op.INSERT, {"id": row["id"]}, None, row) for row in rows])
    for precision, scale in ((38, 0), (38, 6), (38, 7), (38, 38), (18, 3)):
        most = 10**precision - 1
        whole = {n for bits in range(128) for n in (2**bits, 2**bits - 1, -(2**bits), -(2**bits) - 1)} | {0, most}
        column = Column("d", "decimal", precision=precision, scale=scale)
        schema = TableSchema("shop", "t", (ID, column), ("id",))
        rows = [{"id": i, "d": Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale))} for i, n in enumerate(
            sorted(n for n in whole if abs(n) <= most)
        )]  # fmt: skip
        changes = [change(chosen, Op.INSERT, {"id": row["id"]}, None, row) for row in rows]
        require_same(name, schema, [*changes, change(chosen, Op.INSERT, {"id": 0}, None, {"id": 0, "d": None})])


@each_form
def test_a_time_that_is_too_far_is_not_written(name: FormatName) -> None:
    """Where the plain writer has a value, it is left to that one; else both refuse it."""
    schema = TableSchema("shop", "t", (ID,), ("id",))
    far = RowChange(Seq(1, 7, 5, 0, 0).pack(), Op.INSERT, {"id": 1}, None, {"id": 1}, 10**18, "b", 5, None)
    if name == "changelog-json":  # which has no time
        require_same(name, schema, [far])
        return
    form = by_columns(name)
    assert form is not None
    with pytest.raises(ValueError, match="a time that"):
        form(schema, Settings("shop", "shop.t"))(stretch(schema, [far]), NOW)


def test_of_what_is_not_by_columns() -> None:
    assert {*FORMATS} - {*FORMS} == {"debezium-avro", "canal-json", "maxwell"}
