"""Debezium's messages of its MySQL connector, read: JSON with schemas, or without them by columns that are declared.

Messages in Avro are read likewise once they are documents of that JSON (`avro_reader`).

`source` says where a change is: the binlog file, the position of the row's event, and the number of the row in it. Of a
snapshot's row it is the position that all of the snapshot is at. A change of a key comes as a `d` and a `c`; both have
one position. What has no `op` says nothing of a row: a heartbeat, the beginning and the end of a transaction, and the
statements of the connector's topic of schema changes.

Sources: see `lakehouse_cdc.messages.debezium`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse_cdc.messages.debezium.columns import form_of
from lakehouse_cdc.messages.debezium.values import column_of, value_of
from lakehouse_cdc.messages.reading import (
    Declared,
    Place,
    ReadChange,
    Reader,
    Reason,
    Row,
    Unreadable,
    fitting,
    key_of,
    optional,
    parsed,
    part,
    place_at,
    row_of,
    table_of,
)
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.table_name import join
from lakehouse_cdc.schema.table import TableSchema

_OPS = {"r": Op.READ, "c": Op.INSERT, "u": Op.UPDATE, "d": Op.DELETE, "t": Op.TRUNCATE}
_NOTHING = ({"ddl"}, {"status", "id"}, {"ts_ms"})  # members of messages that say nothing of a row
_MOST_KNOWN = 1000  # schemas that are remembered
_PLAIN_DEFAULTS = ("int16", "int32", "int64", "string")


@dataclass(frozen=True)
class Document:
    """A key or a value: the schema of Connect's, as JSON has it, or None; what it describes; and what is the same only
    for documents of one schema.
    """

    schema: Any
    held: Any
    told_by: Any


def reader(declared: Declared) -> Reader:
    """Reads keys and values in JSON, and remembers the rows that their schemas describe."""
    return reading(declared, _json)


def reading(declared: Declared, document: Callable[[bytes, str], Document]) -> Reader:
    """The same of what `document` makes of bytes, which are a "key" or a "value"; it raises Unreadable."""
    return _Debezium(declared, document).read


class _Debezium:
    def __init__(self, declared: Declared, document: Callable[[bytes, str], Document]) -> None:
        self._declared, self._document = declared, document
        self._known: dict[tuple[Any, ...], Row] = {}
        self._last: dict[str, TableSchema] = {}

    def read(self, key: bytes | None, value: bytes | None) -> list[ReadChange]:
        if not value:
            return []
        document = self._document(value, "value")
        identity = Document(None, None, None) if key is None else self._document(key, "key")
        held, key_held = document.held, identity.held
        if not isinstance(held, dict):
            raise Unreadable(Reason.NOT_THE_FORMAT, "the value is no object")
        if "op" not in held:
            if ("source" not in held or "ddl" in held) and any(names <= held.keys() for names in _NOTHING):
                return []
            raise Unreadable(Reason.NOT_THE_FORMAT, "op is missing")
        op = _OPS.get(held["op"]) if isinstance(held["op"], str) else None
        if op is None:
            raise Unreadable(Reason.UNKNOWN_OP, f"op is {str(held['op'])[:60]!r}")
        source = part(held, "source", dict)
        name = join(part(source, "db", str), part(source, "table", str))
        if op is Op.TRUNCATE and (table := self._declared.known(name) or self._last.get(name)) is not None:
            return [_truncation(table, source)]
        row = self._row(name, source, (document.told_by, identity.told_by), document.schema, key_held)
        change = _change(op, row, key_held, held, source)
        self._last[name] = change.schema
        return [change]

    def _row(self, name: str, source: Mapping[str, Any], told_by: tuple[Any, ...], schema: Any, key_held: Any) -> Row:
        names = tuple(key_held) if isinstance(key_held, dict) else None
        known = (name, names, *told_by)
        if known not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[known] = self._made(name, source, schema, names)
        return self._known[known]

    def _made(self, name: str, source: Mapping[str, Any], schema: Any, key: tuple[str, ...] | None) -> Row:
        fields = _by_declaration(self._declared, name) if schema is None else _by_schema(schema)
        columns = tuple(column for column, _ in fields)
        table = table_of(self._declared, source["db"], source["table"], columns, key or ())
        return Row(
            table,
            {column.name: fitting(column, value_of(column, field)) for column, field in fields},
            _filled(field for _, field in fields),
        )


def _json(data: bytes, what: str) -> Document:
    schema, held = _parts(parsed(data, what))
    return Document(schema, held, _told_by(data, schema))


def _parts(document: Any) -> tuple[Any, Any]:
    """The schema, None where there is none, and the payload."""
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        return document["schema"], document["payload"]
    return None, document


def _told_by(data: bytes, schema: Any) -> Any:
    """What is the same only for messages of the same schema: the bytes up to the payload, where the schema is first.

    The last place that reads like the payload's beginning is not before it, so all of the schema is in front of that.
    """
    if schema is None:
        return None
    at = data.rfind(b',"payload":') if data.startswith(b'{"schema":') else -1
    if at >= 0:
        return data[:at]
    return json.dumps(schema, default=str)


def _by_schema(schema: Any) -> list[tuple[Any, Any]]:
    """The columns, each with its field, of an envelope's schema."""
    for one in part(schema, "fields", list):
        if isinstance(one, dict) and one.get("field") == "after":
            fields = part(one, "fields", list)
            break
    else:
        raise Unreadable(Reason.NOT_THE_FORMAT, "the schema has no field after")
    if not all(isinstance(field, dict) for field in fields):
        raise Unreadable(Reason.NOT_THE_FORMAT, "a field of the schema is no object")
    return [(column_of(field), field) for field in fields]


def _by_declaration(declared: Declared, name: str) -> list[tuple[Any, Any]]:
    columns = declared.columns(name)
    if columns is None:
        raise Unreadable(Reason.UNKNOWN_TABLE, f"the message has no schema, and tables.{name}.columns is not given")
    return [(column, form_of(column, exact=False).schema(column.nullable)) for column in columns]


def _filled(fields: Any) -> dict[str, str | None]:
    """The defaults that a server fills a new column with; None for one that is not plain."""
    return {
        field["field"]: None if field.get("name") or field.get("type") not in _PLAIN_DEFAULTS else str(field["default"])
        for field in fields
        if field.get("default") is not None
    }


def _change(op: Op, row: Row, key_held: Any, held: Mapping[str, Any], source: Mapping[str, Any]) -> ReadChange:
    schema = row.schema
    before, after = (None if held.get(side) is None else row_of(row.values, held[side]) for side in ("before", "after"))
    if op in (Op.READ, Op.INSERT, Op.UPDATE) and after is None:
        raise Unreadable(Reason.NOT_THE_FORMAT, f"op is {op.value}, and after is null")
    key = None
    if op is not Op.TRUNCATE:
        image = after if op is not Op.DELETE else before
        said = row_of(row.values, key_held, whole=False) if isinstance(key_held, dict) else None
        if image is None and said is None:
            raise Unreadable(Reason.NO_KEY, f"op is {op.value}, and there is neither a row nor a key")
        key = key_of(schema, said or {} if image is None else image)
        if said is not None and not schema.key_given and said != key:
            raise Unreadable(Reason.NO_KEY, "the message's key is another one than the row's")
    images = (before if op in (Op.UPDATE, Op.DELETE) else None, None if op is Op.DELETE else after)
    return ReadChange(
        op, schema, key, *((None, None) if op is Op.TRUNCATE else images), _commit_us(source), _place(op, source),
        optional(source, "gtid", str), row.filled,
    )  # fmt: skip


def _truncation(schema: TableSchema, source: Mapping[str, Any]) -> ReadChange:
    """It has no key, which alone says what the table's key is."""
    op = Op.TRUNCATE
    at = _commit_us(source), _place(op, source), optional(source, "gtid", str)
    return ReadChange(op, schema, None, None, None, *at, {})


def _commit_us(source: Mapping[str, Any]) -> int:
    if source.get("ts_us") is not None:
        return int(part(source, "ts_us", int))
    return int(part(source, "ts_ms", int)) * 1000


def _place(op: Op, source: Mapping[str, Any]) -> Place:
    file, pos, row = (part(source, name, kind, Reason.NO_POSITION) for name, kind in _PLACE)
    return place_at(file, pos, row, op, server=optional(source, "server_id", int) or 0)


_PLACE = (("file", str), ("pos", int), ("row", int))
