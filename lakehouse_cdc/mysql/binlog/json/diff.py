"""Changes of a JSON document: how a partial update is logged, and what the document is after it.

MySQL logs an UPDATE by JSON_SET, JSON_REPLACE or JSON_REMOVE as the changes that it made, one after the other: an
operation (REPLACE, INSERT, REMOVE), a path, and for the first two a value in binary JSON. A path leads through members
and array cells to exactly one place; there are no wildcards, and a cell may be counted from the end. What is inserted
after an array's end goes to its end. A change that has no place in the document means that it was made of another
document: an error, never passed over.

Sources: MySQL source documentation, "Json_diff_vector" and `Json_path_leg`; `apply_json_diffs` in `sql/json_diff.cc`,
whose rules these are.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple, TypeAlias

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.mysql.binlog.cursor import Cursor
from lakehouse_cdc.mysql.binlog.json.binary import Node, Opened, Value, opened, parsed, written

REPLACE, INSERT, REMOVE = range(3)
# an unquoted key is what MySQL takes for an identifier, which may be any white space beyond ASCII
_LEG = re.compile(r'\.("(?:[^"\\]|\\.)*")|\.([^.\["* \t\n\r]+)|\[(\d+)\]|\[last(?:-(\d+))?\]', re.DOTALL)


class Cell(NamedTuple):
    """An array's cell, counted from 0, or from the end."""

    number: int
    from_end: bool


Leg: TypeAlias = "bytes | Cell"  # a member's key, or a cell


class Diff(NamedTuple):
    """One change; `value` is None where the place is removed."""

    operation: int
    path: tuple[Leg, ...]
    value: Value | None


def diffs(data: bytes, where: str) -> list[Diff]:
    """The changes of one document, as a rows event holds them after their length."""
    cursor, changes = Cursor(data, where), []
    while cursor.left:
        operation = cursor.byte()
        if operation not in (REPLACE, INSERT, REMOVE):
            raise codes.BINLOG_EVENT_UNKNOWN.error(
                f"a partial JSON update has an operation that is not known: {operation}", where=where
            )
        path = _path(cursor.take(cursor.length()), where)
        value = parsed(cursor.take(cursor.length()), where) if operation != REMOVE else None
        changes.append(Diff(operation, path, value))
    return changes


def _path(text: bytes, where: str) -> tuple[Leg, ...]:
    try:
        path, at, legs = text.decode(), 1, list[Leg]()
        while leg := _LEG.match(path, at):
            quoted, name, number, from_end = leg.groups()
            if leg[0].startswith("."):
                legs.append((json.loads(quoted) if quoted else name).encode())
            else:
                legs.append(Cell(int(number or from_end or 0), number is None))
            at = leg.end()
        known = at == len(path) and path.startswith("$") and bool(legs)  # the whole document is never a place
    except ValueError:
        known = False
    if not known:
        shown = text.decode("utf-8", "replace")[:200]
        raise codes.BINLOG_EVENT_UNKNOWN.error(
            f"a partial JSON update has a path that is not known: {shown}", where=where
        )
    return tuple(legs)


def changed(document: bytes, changes: list[Diff], where: str) -> bytes:
    """The binary document after the changes. Raises DefiniteError where one does not fit, or bytes do not add up."""
    if not changes:
        return document
    top = Opened(None, [parsed(document, where)])
    for diff in changes:
        container = _inside(top, 0, where)
        for leg in diff.path[:-1]:
            container = _inside(container, _place(container, leg, where), where)
        if diff.operation == INSERT:
            _insert(container, diff, where)
        else:
            place = _place(container, diff.path[-1], where)
            container.values[place : place + 1] = () if diff.value is None else (diff.value,)
            if diff.value is None and container.keys is not None:
                del container.keys[place]
    kind, data = written(top.values[0])
    return bytes((kind,)) + data


def _insert(container: Opened, diff: Diff, where: str) -> None:
    assert diff.value is not None
    leg, keys, values = diff.path[-1], container.keys, container.values
    if keys is not None and isinstance(leg, bytes) and leg not in keys:
        keys.append(leg)
        values.append(diff.value)
    elif keys is None and isinstance(leg, Cell):
        values.insert(max(_index(values, leg), 0), diff.value)
    else:
        raise _misfit(where)


def _inside(container: Opened, place: int, where: str) -> Opened:
    """The object or array in a place, opened."""
    node = container.values[place]
    container_at = opened(node, where) if isinstance(node, Value) else node
    if container_at is None:
        raise _misfit(where)
    container.values[place] = container_at
    return container_at


def _index(values: list[Node], cell: Cell) -> int:
    return len(values) - 1 - cell.number if cell.from_end else cell.number


def _place(container: Opened, leg: Leg, where: str) -> int:
    """Where an element is that must be there."""
    if container.keys is not None and isinstance(leg, bytes) and leg in container.keys:
        return container.keys.index(leg)
    if container.keys is None and isinstance(leg, Cell) and 0 <= _index(container.values, leg) < len(container.values):
        return _index(container.values, leg)
    raise _misfit(where)


def _misfit(where: str) -> DefiniteError:
    return codes.BINLOG_DAMAGED.error(
        "a partial JSON update in the binlog does not fit the document that it changes",
        where=where,
    )
