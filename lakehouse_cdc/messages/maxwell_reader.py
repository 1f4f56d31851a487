"""Maxwell's JSON, read by columns that are declared, for it names no types.

`position` is there where Maxwell is asked for it (`output_binlog_position`), and `xoffset` numbers the rows of a
transaction, but for its last one, which has `commit` instead (`output_commit_info`). Without a position the order is
that of the topic's partition. `old` has the columns that changed, NULL among their values. A SET is a list, bytes are
in base64, and a JSON column is the document itself: its text is written as the server prints one, and JSON's null is
NULL, which nothing distinguishes from it. Messages of a bootstrap's rows are inserts, and those of statements say
nothing of rows.

Sources: see `lakehouse_cdc.messages.maxwell`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from lakehouse_cdc.messages.change import RANKED
from lakehouse_cdc.messages.printed import value_of
from lakehouse_cdc.messages.reading import (
    Declared,
    Place,
    ReadChange,
    Reader,
    Reason,
    Row,
    Unreadable,
    Value,
    base64_bytes,
    changes_of,
    fitting,
    optional,
    parsed,
    part,
    place_at,
    row_of,
    table_of,
    text,
)
from lakehouse_cdc.messages.texts import source_type
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.table_name import join
from lakehouse_cdc.schema.table import Column
from lakehouse_cdc.schema.type_registry import SPATIAL

_OPS = {"insert": Op.INSERT, "bootstrap-insert": Op.INSERT, "update": Op.UPDATE, "delete": Op.DELETE}
_NOTHING = (
    "bootstrap-start", "bootstrap-complete", "table-create", "table-alter", "table-drop", "database-create",
    "database-alter", "database-drop", "heartbeat",
)  # fmt: skip
_LAST = RANKED - 1  # the number of a transaction's last row, which has none


def reader(declared: Declared) -> Reader:
    """Reads values, and from keys the names of the key's columns."""
    known: dict[Any, Row] = {}

    def read(key: bytes | None, value: bytes | None) -> list[ReadChange]:
        if not value:
            return []
        held = parsed(value, "value")
        kind = part(held, "type", str)
        if kind in _NOTHING:
            return []
        if (op := _OPS.get(kind)) is None:
            raise Unreadable(Reason.UNKNOWN_OP, f"type is {kind[:60]!r}")
        name = join(part(held, "database", str), part(held, "table", str))
        by = (name, key_names := _key_names(key))
        if by not in known:
            known[by] = _row(declared, name, held, key_names)
        row = known[by]
        commit_us, gtid = part(held, "ts", int) * 1_000_000, optional(held, "gtid", str) or None
        image = row_of(row.values, part(held, "data", dict), whole=op is not Op.DELETE)
        before = image if op is Op.DELETE and image.keys() == row.values.keys() else None
        if op is Op.UPDATE:
            before = {**image, **row_of(row.values, part(held, "old", dict), whole=False)}

        def at(of: Op) -> tuple[int, Place | None, str | None]:
            return commit_us, _place(held, of), gtid

        return changes_of(row.schema, op, before, None if op is Op.DELETE else image, at, key_row=image)

    return read


def _key_names(key: bytes | None) -> tuple[str, ...]:
    held = None if key is None else parsed(key, "key")
    return tuple(one[3:] for one in held if one.startswith("pk.")) if isinstance(held, dict) else ()


def _row(declared: Declared, name: str, held: Mapping[str, Any], key: tuple[str, ...]) -> Row:
    columns = declared.columns(name)
    if columns is None:
        raise Unreadable(Reason.UNKNOWN_TABLE, f"Maxwell names no types, and tables.{name}.columns is not given")
    schema = table_of(declared, held["database"], held["table"], columns, key)
    return Row(schema, {column.name: fitting(column, _value(column)) for column in columns})


def _value(column: Column) -> Value:
    kind = source_type(column)
    if kind == "json":
        return _document
    if kind == "set":
        return _labels
    if kind in SPATIAL:
        return base64_bytes
    value = value_of(column, base64_bytes)
    return text if value is None else value


def _labels(held: Any) -> str:
    if isinstance(held, list):
        return ",".join(map(text, held))
    return text(held)


def _document(held: Any) -> str:
    """As the server prints one."""
    if isinstance(held, dict):
        members = (f"{json.dumps(name, ensure_ascii=False)}: {_document(one)}" for name, one in held.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(held, list):
        return f"[{', '.join(map(_document, held))}]"
    return str(held) if isinstance(held, Decimal) else json.dumps(held, ensure_ascii=False)


def _place(held: Mapping[str, Any], op: Op) -> Place | None:
    position = optional(held, "position", str)
    if position is None:
        return None
    file, _, pos = position.rpartition(":")
    offset = _LAST if "xoffset" not in held else part(held, "xoffset", int)
    if not pos.isdecimal():
        raise Unreadable(Reason.NO_POSITION, f"position is {position[:60]!r}")
    return place_at(file, int(pos), offset, op, server=optional(held, "server_id", int) or 0)
