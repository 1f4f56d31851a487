"""The files of bronze, written again without what is hidden: every other value of every row is what it was."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_cdc.bronze.redaction import Rewriter
from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.lake.direct.change_files import written
from lakehouse_cdc.model.bronze_arrow import ARROW
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.schema.column_choice import Choice
from lakehouse_cdc.schema.masks import fingerprint
from lakehouse_cdc.schema.redaction import Redaction
from lakehouse_cdc.schema.table import Column, TableSchema
from tests.support.bronze_writer import variant_column

SALT = "a salt that nobody knows"
AT = datetime(2024, 2, 29, 23, 59, 59, 999_001, timezone.utc)
FIRST = TableSchema(
    "shop", "t", (Column("id", "int"), Column("mail", "varchar", charset="utf8mb4"), Column("v", "double")), ("id",)
)
NOTE = Column("note", "varchar", charset="utf8mb4")
SECOND = TableSchema(
    "shop", "t", (FIRST.columns[0], Column("email", "varchar", charset="utf8mb4"), FIRST.columns[2], NOTE), ("id",)
)
NOW = TableSchema(
    "shop",
    "t",
    (
        SECOND.columns[0],
        Column("email", "varchar", charset="utf8mb4", mask="keep:1:0"),
        SECOND.columns[2],
        Column("note", "varchar", charset="utf8mb4", captured=False),
    ),
    ("id",),
)
RENAMED = SchemaChange(
    "ALTER TABLE t RENAME COLUMN mail TO email, ADD COLUMN note TEXT DEFAULT 'clear'", FIRST, SECOND,
    {"id": "id", "email": "mail", "v": "v"}, kept=True, filled={"note": "clear"},
)  # fmt: skip
HIDDEN = SchemaChange.by_names(None, SECOND, NOW)
DROPPED = SchemaChange.leaving("DROP TABLE t", NOW)
SCHEMAS = [
    (1, {**FIRST.to_dict(), "statement": None}),
    (10, RENAMED.images()[1]),
    (20, HIDDEN.images()[1]),
    (30, None),
]


def image(**values: Any) -> dict[str, Any]:
    return values


ROWS: list[tuple[int, str, TableSchema, Any, Any, Any]] = [
    (1, "s", FIRST, None, None, SCHEMAS[0][1]),
    (2, "r", FIRST, {"id": 1}, None, image(id=1, mail="clear 1", v=0.1)),
    (3, "u", FIRST, {"id": 1}, image(id=1, mail="clear 1", v=0.1), image(id=1, mail="cleared", v=-0.0)),
    (10, "s", SECOND, None, *RENAMED.images()),
    (11, "d", SECOND, {"id": 1}, image(id=1, email="cleared", v=None, note="clear"), None),
    (12, "t", SECOND, None, None, None),
    (20, "s", NOW, None, *HIDDEN.images()),
    (21, "r", NOW, {"id": 2}, None, image(id=2, email="c*", v=1.0)),
    (22, "x", NOW, None, Decimal(20), Decimal(21)),
    (30, "s", NOW, None, *DROPPED.images()),
]


def batch(rows: list[tuple[int, str, TableSchema, Any, Any, Any]]) -> pa.RecordBatch:
    seqs, ops, schemas, keys, befores, afters = zip(*rows, strict=True)
    n = len(rows)
    where = {"server_uuid": "u", "file": "binlog.000001", "pos": 2**40, "gtid": None}
    columns = [
        pa.array(list(map(Decimal, seqs)), pa.decimal128(38, 0)),
        pa.array(ops),
        pa.array(["shop.t"] * n),
        *(variant_column([*images]) for images in (keys, befores, afters)),
        pa.array([AT] * n, pa.timestamp("us", "UTC")),
        pa.array([where] * n, ARROW.field("position").type),
        pa.array([schema.id for schema in schemas]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW)


def redaction() -> Redaction:
    return Redaction.of("shop.t", SCHEMAS, Choice())


def write(folder: Path, rows: Any) -> Path:
    """The file of rows."""
    [line] = [line for lines in written(rows, str(folder)) for line in lines.to_pylist()]
    return folder / unquote(line["path"])


@pytest.fixture
def rewritten(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """The rows of a file, redacted once and twice, which is the same."""

    def made(rows: Any) -> list[dict[str, Any]]:
        path = write(tmp_path, [rows])
        rewriter = Rewriter(redaction(), "")
        assert rewriter.may_change(str(path))
        assert rewriter.changes(str(path))
        path = write(tmp_path, rewriter.rows(str(path)))
        assert not rewriter.changes(str(path))
        assert b"clear" not in path.read_bytes()
        return [plain(row) for row in pq.read_table(path, partitioning=None).to_pylist()]

    return made


def plain(row: dict[str, Any]) -> dict[str, Any]:
    for name in ("key", "before", "after"):
        row[name] = row[name] and decode(row[name]["value"], row[name]["metadata"])
    return row


def test_all_else_is_as_it_was(rewritten: Callable[..., list[dict[str, Any]]]) -> None:
    eras = redaction().eras
    found = rewritten(batch(ROWS))
    was = [plain(row) for row in batch(ROWS).drop_columns(["source_table"]).to_pylist()]
    for name in ("seq", "op", "key", "commit_ts", "position"):
        assert [row[name] for row in found] == [row[name] for row in was], name
    assert [row["schema_id"] for row in found] == [
        *[eras[0].new.id] * 3, *[eras[1].new.id] * 3, *[NOW.id] * 4
    ]  # fmt: skip
    assert [(row["before"], row["after"]) for row in found if row["op"] not in "s"] == [
        (None, image(id=1, mail="c******", v=0.1)),
        (image(id=1, mail="c******", v=0.1), image(id=1, mail="c******", v=-0.0)),
        (image(id=1, email="c******", v=None), None),
        (None, None),
        (None, image(id=2, email="c*", v=1.0)),
        (Decimal(20), Decimal(21)),
    ]
    assert str(found[2]["after"]["v"]) == "-0.0"


def test_changes_of_the_schema_are_those_of_hidden_columns(rewritten: Callable[..., list[dict[str, Any]]]) -> None:
    first, renamed, hidden, dropped = [row for row in rewritten(batch(ROWS)) if row["op"] == "s"]
    eras = redaction().eras
    assert TableSchema.from_dict(first["after"]) == eras[0].new
    change = SchemaChange.from_images(renamed["before"], renamed["after"])
    assert (change.before, change.after, change.origin, change.kept) == (
        eras[0].new, eras[1].new, RENAMED.origin, True
    )  # fmt: skip
    assert change.filled == {}
    assert change.statement == "ALTER TABLE t RENAME COLUMN mail TO email, ADD COLUMN note TEXT DEFAULT '...'"
    assert SchemaChange.from_images(hidden["before"], hidden["after"]).before == eras[1].new
    assert SchemaChange.from_images(dropped["before"], dropped["after"]) == DROPPED


def test_the_table_of_schemas_says_the_same(rewritten: Callable[..., list[dict[str, Any]]]) -> None:
    rewriter, schema_rows = Rewriter(redaction(), ""), [row for row in rewritten(batch(ROWS)) if row["op"] == "s"]
    kept = [("shop.t", 1, FIRST), ("shop.t", 10, SECOND), ("shop.t", 20, NOW), ("shop.t", 30, NOW)]
    for (table, seq, schema), (_, after), row in zip(kept, SCHEMAS, schema_rows, strict=True):
        text = None if after is None else json.dumps(after)
        statement = (DROPPED.images()[1] if after is None else after)["statement"]
        entry = {"source_table": table, "schema_id": schema.id, "seq": Decimal(seq), "position": None}
        made = rewriter.registered({**entry, "statement": statement, "schema": text})
        assert made["schema_id"] == row["schema_id"]
        assert made["statement"] == row["after"]["statement"]
        assert made["schema"] is None if after is None else json.loads(made["schema"]) == row["after"]
        assert rewriter.registered(made) == made


def test_a_constant_is_masked_once() -> None:
    """Of what all rows held in a column that is masked by now, which was known as a text."""
    before, after = FIRST, replace(FIRST, columns=(*FIRST.columns, NOTE))
    added = SchemaChange(
        "ALTER ...", before, after, {c.name: c.name for c in before.columns}, kept=True, filled={"note": "clear"}
    )
    now = replace(after, columns=(*FIRST.columns, replace(NOTE, mask=f"hash:{fingerprint(SALT)}")))
    schemas = [(1, {**before.to_dict(), "statement": None}), (10, added.images()[1])]
    redaction = Redaction.of("shop.t", [*schemas, (20, SchemaChange.by_names(None, after, now).images()[1])], Choice())
    entry = {"source_table": "shop.t", "schema_id": after.id, "seq": Decimal(10), "statement": "ALTER ..."}
    once = Rewriter(redaction, SALT).registered({**entry, "schema": json.dumps(added.images()[1])})
    assert json.loads(once["schema"])["filled"] == {
        "note": hmac.new(SALT.encode(), b"clear", hashlib.sha256).hexdigest()
    }
    assert Rewriter(redaction, SALT).registered(once) == once


def test_files_in_which_nothing_changes_are_left(tmp_path: Path) -> None:
    path = write(tmp_path, [batch(ROWS[7:8])])
    rewriter = Rewriter(redaction(), "")
    assert not rewriter.may_change(str(path))
    assert not rewriter.changes(str(path))
    path = write(tmp_path, [batch(ROWS[7:])])
    assert rewriter.may_change(str(path))
    assert not rewriter.changes(str(path))


def test_rows_under_a_schema_that_nobody_knows_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, [batch([(5, "c", TableSchema("shop", "t", (), ()), None, None, None)])])
    with pytest.raises(DefiniteError) as refused:
        Rewriter(redaction(), "").changes(str(path))
    assert refused.value.code is codes.SCHEMA_RECORD_DAMAGED
