"""Messages of each format that is read: the rows of bronze are those that were written, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from lakehouse_cdc.messages.change import RowChange
from lakehouse_cdc.messages.formats import ReadFormat
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.sinks.kafka.registry import Registry
from lakehouse_cdc.topics.declared import Declarations
from lakehouse_cdc.topics.order import Order
from lakehouse_cdc.topics.parsing import LATE, NEW
from tests.messages.test_round_trip import written
from tests.support.avro_messages import SCHEMAS
from tests.support.row_images import UTF8, plain
from tests.support.schema_registry import running
from tests.topics.test_parsing import PARSING, lines

VALUES: dict[str, tuple[Column, Any]] = {
    "id": (Column("id", "int", False), 1),
    "big": (Column("big", "bigint", unsigned=True), Decimal(2**63 - 1)),
    "money": (Column("money", "decimal", precision=12, scale=3), Decimal("-7.125")),
    "name": (Column("name", "varchar", length=20, **UTF8), "ü 😀"),
    "raw": (Column("raw", "varbinary", length=9), b"\x00\xff"),
    "day": (Column("day", "date"), date(2024, 2, 29)),
    "span": (Column("span", "time", fraction=2), "-12:34:56.78"),
    "moment": (Column("moment", "datetime", fraction=3), datetime(2024, 2, 29, 12, 34, 56, 789_000)),
    "instant": (Column("instant", "timestamp", fraction=6), datetime(2024, 2, 29, 12, 34, 56, 7, timezone.utc)),
    "doc": (Column("doc", "json"), '{"a": [1, null]}'),
    "flag": (Column("flag", "bit", length=1), True),
    "number": (Column("number", "double"), 0.1),
}
SCHEMA = TableSchema("shop", "t", tuple(column for column, _ in VALUES.values()), ("id",))
ROW = {name: value for name, (_, value) in VALUES.items()}


def change(op: Op, id: int, ordinal: int, rank: Rank = Rank.EVENT, **values: Any) -> RowChange:
    now = {**ROW, "id": id, **values}
    before = ROW | {"id": id} if op in (Op.UPDATE, Op.DELETE) else None
    seq = Seq(1, 1, 500, rank, ordinal).pack()
    after = None if op is Op.DELETE else now
    return RowChange(seq, op, {"id": id}, before, after, 1_700_000_000_000_000, "bin.000001", 500, None)


CHANGES = [
    change(Op.INSERT, 1, 0), change(Op.UPDATE, 1, 1, name=None, big=Decimal(7)), change(Op.INSERT, 2, 2),
    change(Op.DELETE, 2, 3), change(Op.READ, 3, 0, Rank.READ),
]  # fmt: skip


def image(variant: dict[str, bytes] | None) -> Any:
    return None if variant is None else plain(decode(variant["value"], variant["metadata"]))


@pytest.fixture
def registry() -> Iterator[Registry]:
    """It has the schemas that messages in Avro are written by here."""
    with running() as started:
        started.schemas = SCHEMAS
        yield Registry(started.url, None, "", None, 5.0)


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "exact"),
    [*product(("debezium-json", "canal-json", "maxwell"), (True, False)), ("debezium-avro", True)],
)
def test_rows_are_what_was_written(name: ReadFormat, exact: bool, registry: Registry) -> None:
    schemas = exact and name.startswith("debezium")
    types = {} if schemas or name == "canal-json" else {"shop.t": {c.name: c.declared for c in SCHEMA.columns}}
    if name == "maxwell" and exact:
        types["shop.t"]["doc"] = "longtext"  # the sink writes a document's text then, which is a document, too
    order: Order = "arrival" if name == "canal-json" else "position"
    declarations = Declarations(types, {"shop.t": ("id",)})
    parsing = replace(
        PARSING, format=name, order=order, declarations=declarations, max_message_bytes=20_000, registry=registry
    )
    messages = [
        (message.key, message.value)
        for one in CHANGES
        for message in written(name, one, SCHEMA, exact=exact, schemas=schemas)
    ]
    rows = [line for line in lines(parsing, messages) if line["kind"] != "schema"]
    wanted = [
        ("c" if of.op is Op.READ and not name.startswith("debezium") else of.op.value, of.key, of.before, of.after)
        for of in CHANGES
    ]
    found = [(row["op"], *(image(row[column]) for column in ("key", "before", "after"))) for row in rows]
    assert found == [(op, *map(plain, images)) for op, *images in wanted]
    assert [row["state"] for row in rows] == [NEW] * len(CHANGES)
    seqs = [row["seq"] for row in rows]
    assert seqs == sorted({*seqs})
    if order == "position":  # repeats are known by their place
        again = [line for line in lines(parsing, [*messages, *messages]) if line["kind"] == "row"]
        assert [row["seq"] for row in again[len(CHANGES) :]] == seqs
        assert {row["state"] for row in again[len(CHANGES) :]} == {LATE}
