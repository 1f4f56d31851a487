"""Canal-JSON, read: a message has the rows of one row event, and names their types as MySQL does.

There is no position in it, so its order is that of the topic's partition, and a message that Canal sends twice is two
changes. A deletion has the deleted row in `data`; of an update `old` has the values before of columns that changed, and
perhaps of others. Labels of ENUM and SET may come as numbers, as Canal writes them; a label that reads like another
one's number is refused. A statement says nothing of rows, but TRUNCATE does, which names no types: it is read where
the table is known, or its columns are declared.

Sources: see `lakehouse_cdc.messages.canal`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    changes_of,
    fitting,
    optional,
    parsed,
    part,
    row_of,
    table_of,
    text,
)
from lakehouse_cdc.messages.texts import source_type
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.table_name import join
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import SPATIAL

_OPS = {"INSERT": Op.INSERT, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE}
_STATEMENTS = ("CREATE", "ALTER", "ERASE", "RENAME", "QUERY", "CINDEX", "DINDEX")
_MOST_KNOWN = 1000  # schemas that are remembered


def reader(declared: Declared) -> Reader:
    """Reads values; the key's bytes say nothing that the value does not."""
    known: dict[Any, Row] = {}
    last: dict[str, TableSchema] = {}

    def read(_: bytes | None, value: bytes | None) -> list[ReadChange]:
        if not value:
            return []
        held = parsed(value, "value")
        kind = part(held, "type", str)
        name = join(part(held, "database", str), part(held, "table", str))
        commit_us = part(held, "es", int) * 1000
        gtid = optional(held, "gtid", str) or None

        def at(_: Op) -> tuple[int, Place | None, str | None]:
            return commit_us, None, gtid

        if kind == "TRUNCATE":
            schema = declared.known(name) or last.get(name) or _row(declared, name, held, None).schema
            return [ReadChange(Op.TRUNCATE, schema, None, None, None, *at(Op.TRUNCATE), {})]
        if kind in _STATEMENTS or held.get("isDdl") is True:
            return []
        if (op := _OPS.get(kind)) is None:
            raise Unreadable(Reason.UNKNOWN_OP, f"type is {kind[:60]!r}")
        types = held.get("mysqlType")
        by = (name, _by(types), _by(held.get("pkNames")))
        if by not in known:
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known[by] = _row(declared, name, held, types)
        changes = _changes(op, known[by], held, at)
        last[name] = known[by].schema
        return changes

    return read


def _by(held: Any) -> Any:
    return tuple(map(str, held.items() if isinstance(held, dict) else held if isinstance(held, list) else ()))


def _row(declared: Declared, name: str, held: Mapping[str, Any], types: Any) -> Row:
    columns = declared.columns(name)
    if columns is None:
        if not isinstance(types, dict) or not all(isinstance(one, str) for one in types.values()):
            what = f"mysqlType names no types, and tables.{name}.columns is not given"
            raise Unreadable(Reason.UNKNOWN_TABLE, what)
        columns = tuple(declared.column(one, kind) for one, kind in types.items())
    said = held.get("pkNames")
    key = tuple(map(str, said)) if isinstance(said, list) else ()
    schema = table_of(declared, held["database"], held["table"], columns, key)
    return Row(schema, {column.name: fitting(column, _value(column)) for column in columns})


def _value(column: Column) -> Value:
    kind = source_type(column)
    if kind == "json":
        return text
    if kind == "enum" and column.values:
        return lambda held: _label(column, text(held))
    if kind == "set" and column.values:
        return lambda held: _labels(column, text(held))
    if kind in SPATIAL:
        return _bytes
    value = value_of(column, _bytes)
    return text if value is None else value


def _bytes(held: Any) -> bytes:
    return text(held).encode("latin-1")


def _label(column: Column, held: str) -> str:
    number = int(held) if held.isascii() and held.isdecimal() and len(held) < 6 else None
    by_number = None
    if number is not None and number <= len(column.values):
        by_number = column.values[number - 1] if number else ""
    if held in column.values or not held:
        if by_number is not None and by_number != held:
            raise ValueError("a label, and the number of another one")
        return held
    if by_number is None:
        raise ValueError(f"no label of {column.declared[:60]}")
    return by_number


def _labels(column: Column, held: str) -> str:
    names = held.split(",") if held else []
    if all(one in column.values for one in names):
        if held.isdecimal():
            raise ValueError("a label, and the number of others")
        return held
    if not (held.isascii() and held.isdecimal()) or int(held) >= 1 << len(column.values):
        raise ValueError(f"no labels of {column.declared[:60]}")
    return ",".join(one for i, one in enumerate(column.values) if int(held) >> i & 1)


def _changes(op: Op, row: Row, held: Mapping[str, Any], at: Any) -> list[ReadChange]:
    data, old = part(held, "data", list), held.get("old")
    olds = old if isinstance(old, list) and len(old) == len(data) else [None] * len(data)
    if op is Op.UPDATE and old is not None and olds is not old:
        raise Unreadable(Reason.NOT_THE_FORMAT, "old has not as many rows as data")
    changes: list[ReadChange] = []
    for now, was in zip(data, olds, strict=True):
        whole = op is not Op.DELETE or not isinstance(now, dict) or len(now) > len(row.schema.key)
        image = row_of(row.values, now, whole=whole)
        before = None
        if op is Op.DELETE:
            before = image if image.keys() == row.values.keys() else None
        elif op is Op.UPDATE and was is not None:
            before = {**image, **row_of(row.values, was, whole=False)}
        changes += changes_of(row.schema, op, before, None if op is Op.DELETE else image, at, key_row=image)
    return changes
