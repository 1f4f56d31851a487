"""What tasks make of rows of bronze is what the plain writers make of them, in the same order; the rest is left."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakehouse_cdc.messages.change import RowChange, Settings
from lakehouse_cdc.messages.formats import FORMATS, FormatName, around
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.model.variant import encode
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.sinks.kafka import task_records
from lakehouse_cdc.sinks.kafka.bronze_rows import Records, Row, of_line
from lakehouse_cdc.sinks.kafka.task_records import ROW, Plan
from tests.support.bronze_writer import bronze_rows
from tests.support.row_images import UTF8, random_row

NOW = 1_700_000_000_123_456
OPS = (Op.READ, Op.INSERT, Op.UPDATE, Op.DELETE)
KEYED = TableSchema(
    "shop", "t",
    (Column("id", "int", False), Column("name", "varchar", length=20, **UTF8), Column("doc", "json"),
     Column("price", "decimal", precision=12, scale=3), Column("at", "datetime", fraction=6), Column("day", "date")),
    ("id",),
)  # fmt: skip
KEYLESS = replace(KEYED, table="k", key=())
OTHER = replace(KEYED, table="o", columns=KEYED.columns[:2])  # which the tasks do not know
BY_NAME = {schema.name: schema for schema in (KEYED, KEYLESS, OTHER)}
each_form = pytest.mark.parametrize("name", [name for name in FORMATS if name != "debezium-avro"])


@pytest.fixture(autouse=True)
def one_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_records, "_now_us", lambda: NOW)


def history(chosen: random.Random, rows: int) -> list[Change]:
    """Changes in the order of seq, of a transaction or a snapshot now and then, among s and t rows."""
    changes: list[Change] = []
    for pos in range(2, rows + 2):
        schema = chosen.choice((KEYED, KEYED, KEYED, KEYLESS, OTHER))
        op = chosen.choice(OPS)
        texts = replace(
            schema, columns=tuple(replace(c, type="text", **UTF8) if c.type == "json" else c for c in schema.columns)
        )
        one, two = (random_row(chosen, texts) for _ in range(2))
        if chosen.random() < 0.05:
            op = chosen.choice((Op.TRUNCATE, Op.SCHEMA))
            seq = Seq(1, 1, pos, Rank.SCHEMA, 0).pack()
            changes.append(Change(seq, op, schema.name, after=schema if op is Op.SCHEMA else None))
            continue
        before = one if op is Op.DELETE or (op is Op.UPDATE and chosen.random() < 0.8) else None
        if chosen.random() < 0.03 and schema.key:  # a row that a repair did not find
            op, before = Op.DELETE, None
        held = one if op is Op.DELETE else two
        key = tuple(held[name] for name in schema.key) if schema.key else None
        rank = Rank.READ if op is Op.READ else Rank.EVENT
        seq = Seq(1, 1, pos, rank, chosen.randrange(3)).pack()
        changes.append(Change(seq, op, schema.name, key, before, None if op is Op.DELETE else two))
    return changes


def batch_of(changes: Sequence[Change]) -> pa.RecordBatch:
    """As Spark gives rows to a task."""
    table = bronze_rows(changes, lambda name, _: BY_NAME[name])
    positions = table.column("position").combine_chunks()
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    columns["seq"] = columns["seq"].cast(pa.string())
    columns["commit_us"] = columns["commit_ts"].cast(pa.int64())
    columns |= {name: positions.field(name) for name in ("file", "pos", "gtid")}
    return pa.RecordBatch.from_pydict({name: columns[name] for name in ROW})


def plan_of(name: FormatName, *schemas: TableSchema, **settings: Any) -> Plan:
    how = Settings("shop", "shop.t", version="1", **settings)
    plan = Plan(name, {schema.id: (schema, how) for schema in schemas})
    sent: Plan = pickle.loads(pickle.dumps(plan))
    return sent


def pieces_of(plan: Plan, batches: Sequence[pa.RecordBatch]) -> list[Row | Records]:
    lines = [line for batch in plan.lines(iter(batches)) for line in batch.to_pylist()]
    return [piece for line in lines for piece in of_line(line["rows"], line["records"], line["others"])]


def messages(name: FormatName, plan: Plan, pieces: Sequence[Row | Records]) -> tuple[list[Any], int]:
    """All messages of row changes, as the sink has them, and of how many rows tasks made them."""
    made, by_tasks = list[Any](), 0
    every = {schema.id: schema for schema in BY_NAME.values()}
    how = next(iter(plan.tables.values()))[1]
    writers = {one: FORMATS[name](schema, how) for one, schema in every.items()}
    for piece in pieces:
        if isinstance(piece, Records):
            by_tasks += piece.end - piece.first
            assert {*piece.of} == {*range(piece.first, piece.end)}
            for one, key, value, seq in zip(piece.schema_ids, piece.keys, piece.values, piece.seqs, strict=True):
                of_key, of_value = around(name, every[one], how)
                key, value = (None if x is None else y % x for x, y in ((key, of_key), (value, of_value)))
                made.append((one, key, value, (("seq", seq),)))
        elif piece.op in OPS:
            made += [
                (piece.schema_id, m.key, m.value, m.headers) for m in writers[piece.schema_id](_change(piece), NOW)
            ]
        else:
            made.append((piece.schema_id, piece.op, piece.seq, ()))
    return made, by_tasks


def _change(row: Row) -> RowChange:
    return RowChange(row.seq, row.op, row.key, row.before, row.after, row.commit_us, row.file, row.pos, row.gtid)


@each_form
def test_tasks_write_what_the_plain_writers_do(name: FormatName, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = random.Random(seed)
    for schemas, most in ((False, 8_192), (True, 50)):
        monkeypatch.setattr(task_records, "_MOST_ROWS", most)
        batches = [batch_of(history(chosen, n)) for n in (400, 1, 3)]
        plan = plan_of(name, KEYED, KEYLESS, schemas=schemas, exact=chosen.random() < 0.5)
        nothing = replace(plan, tables={})
        wanted, none = messages(name, plan, pieces_of(nothing, batches))
        made, by_tasks = messages(name, plan, pieces_of(plan, batches))
        assert none == 0
        assert made == wanted
        assert by_tasks > 200


def test_lines_are_small(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """By their rows and by the bytes of their images; a row that is larger has one of its own."""
    changes = [one for one in history(random.Random(seed), 300) if one.op in OPS]
    batch = batch_of(changes)
    monkeypatch.setattr(task_records, "_MOST_BYTES", 500)
    cut = list(task_records._cut(batch))
    assert pa.Table.from_batches(cut).equals(pa.Table.from_batches([batch]))
    for piece in cut:
        sizes = [sum(len(row[name]["value"]) for name in ("before", "after") if row[name]) for row in piece.to_pylist()]
        assert sum(sizes) <= 500 or len(sizes) == 1
    assert len(cut) > 5


def test_images_of_another_form_are_left() -> None:
    """As Spark, or another writer, may have them: the values are the same ones, and so are the messages."""
    changes = [Change(Seq(1, 1, pos, 0, 0).pack(), Op.INSERT, KEYED.name, (pos,), None, _row(pos)) for pos in range(40)]
    batch = batch_of(changes)
    at = batch.schema.get_field_index("after")
    others = [encode(_row(pos)) for pos in range(40)]
    image = pa.StructArray.from_arrays(
        [pa.array([one[i] for one in others], pa.binary()) for i in (0, 1)], fields=list(batch.column(at).type)
    )
    odd = batch.set_column(at, batch.schema.field(at), image)
    plan = plan_of("debezium-json", KEYED)
    made, by_tasks = messages("debezium-json", plan, pieces_of(plan, [batch]))
    of_odd, left = messages("debezium-json", plan, pieces_of(plan, [odd]))
    assert made == of_odd
    assert (by_tasks, left) == (40, 0)


def _row(n: int) -> dict[str, Any]:
    return dict.fromkeys(column.name for column in KEYED.columns) | {"id": n, "name": "x" * n}


def test_a_part_of_records_is_of_those_rows() -> None:
    of = [3, 3, 4, 5, 5, 5, 6]
    texts = [str(n).encode() for n in of]
    whole = Records(3, 7, of, ["s"] * 7, texts, texts, texts)
    assert whole.part(3, 7) is whole
    assert whole.part(4, 6).of == [4, 5, 5, 5]
    assert [whole.seq(row) for row in range(3, 7)] == [3, 4, 5, 6]
    assert np.array_equal(whole.part(6, 7).seqs, [b"6"])
