"""Changes of binary JSON by themselves: documents taken apart and put together, and bytes that no server writes."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import numpy as np
import pymysql
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.images import layout
from lakehouse_cdc.mysql.binlog.json.binary import Node, Opened, Value, opened, parsed, written
from lakehouse_cdc.mysql.binlog.json.diff import INSERT, REMOVE, REPLACE, Cell, Diff, changed, diffs
from lakehouse_cdc.mysql.binlog.json.partial_rows import whole_rows
from lakehouse_cdc.mysql.binlog.tablemap import TableMap
from tests.support.binlog_log import Log
from tests.support.images.guarded import guarded_copy
from tests.support.images.json_bytes import JsonTable, Printed, convert
from tests.support.images.json_values import EXPRESSIONS, VALUES
from tests.support.images.tables import SESSION
from tests.support.payloads import length
from tests.support.rounds import rounds


@pytest.fixture
def table(log: Log, database: str) -> JsonTable:
    session: pymysql.Connection[Any] = log.session(autocommit=True)
    with session.cursor() as cursor:
        cursor.execute(SESSION)
    return JsonTable(session, database)


def apart(node: Node) -> Node:
    """All objects and arrays opened."""
    found = opened(node, "") if isinstance(node, Value) else node
    return node if found is None else Opened(found.keys, [apart(value) for value in found.values])


def together(document: bytes) -> bytes:
    kind, data = written(apart(parsed(document, "")))
    return bytes((kind,)) + data


def agree(rows: list[Printed]) -> None:
    """MySQL writes the same bytes, but for the bytes of its own that an inlined number does not use."""
    for document, text in rows:
        assert convert(together(document)) == text
        assert len(together(document)) == len(document)


def test_every_type_of_value(table: JsonTable) -> None:
    agree(table.inserted(EXPRESSIONS))


def test_large_and_small_forms(table: JsonTable) -> None:
    small = {"a": [1, "b", 70000], "c": {"d": 1.5}, "": None}
    values: list[Any] = [
        *({"x": "y" * n, "small": small} for n in (65_000, 65_400, 65_500, 65_550, 70_000)),
        *([0] * n for n in (21_843, 21_844, 21_845, 65_536)),
        *({f"{i}": -i for i in range(n)} for n in (6_000, 7_000, 9_000)),
        *([small] * 3000, {"é" * 30_000: small}, list(range(-40_000, -20_000))),
    ]
    rows = table.inserted(["%s"] * len(values), [json.dumps(value) for value in values])
    agree(rows)
    assert {row.document[0] for row in rows} == {0, 1, 2, 3}


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(values=st.lists(VALUES, min_size=10, max_size=30))
def test_random_documents(table: JsonTable, values: list[Any]) -> None:
    agree(table.inserted(["%s"] * len(values), [json.dumps(value) for value in values]))


ONE, TWO = Value(5, b"\1\0"), Value(5, b"\2\0")


def document(values: list[Value], keys: list[bytes] | None = None) -> bytes:
    kind, data = written(Opened(keys, [*values]))
    return bytes((kind,)) + data


def diff(operation: int, path: str, value: bytes | None = b"\5\7\0") -> bytes:
    text = path.encode()
    tail = b"" if value is None or operation == REMOVE else length(len(value)) + value
    return bytes((operation,)) + length(len(text)) + text + tail


def test_paths() -> None:
    def path(text: str) -> tuple[Any, ...]:
        [found] = diffs(diff(REPLACE, text), "")
        return found.path

    assert path("$.a[0].bc[last][last-12][34]") == (
        b"a",
        *(Cell(0, False), b"bc", Cell(0, True), Cell(12, True)),
        Cell(34, False),
    )
    assert path('$.$_é."a b".""."q\\"\\\\\\u0001.[0]"') == ("$_é".encode(), b"a b", b"", b'q"\\\1.[0]')
    assert path("$.\u00a0") == ("\u00a0".encode(),)  # which MySQL does not quote
    for text in (
        "$",
        "",
        "a",
        "$a",
        "$.",
        "$[",
        "$[]",
        "$[-1]",
        "$[last",
        "$[last-]",
        "$[*]",
        "$.*",
        "$**.a",
        '$."a',
        "$.a b[x]",
    ):
        with pytest.raises(DefiniteError, match="path that is not known"):
            path(text)
    for raw in (b'$."\\q"', b"$.\xff", b'$."a\n"'):
        with pytest.raises(DefiniteError, match="path that is not known"):
            diffs(bytes((REMOVE,)) + length(len(raw)) + raw, "")


@pytest.mark.parametrize(
    ("operation", "path"),
    [
        *((REPLACE, "$.c"), (REPLACE, "$[0]"), (REPLACE, "$.a.b"), (REPLACE, "$.a[0]"), (REPLACE, "$.l[2]")),
        *((REPLACE, "$.l[last-2]"), (REPLACE, "$.l.a"), (INSERT, "$.a"), (INSERT, "$[0]"), (INSERT, "$.l.a")),
        *((INSERT, "$.a[0]"), (INSERT, "$.c.d"), (REMOVE, "$.c"), (REMOVE, "$.l[2]"), (REMOVE, "$.l[last-2]")),
    ],
)
def test_a_change_that_does_not_fit(operation: int, path: str) -> None:
    inner = document([ONE, TWO])
    whole = document([ONE, Value(inner[0], inner[1:])], [b"a", b"l"])
    with pytest.raises(DefiniteError, match="does not fit the document"):
        changed(whole, diffs(diff(operation, path), ""), "")
    with pytest.raises(DefiniteError, match="does not fit the document"):
        changed(b"\5\1\0", diffs(diff(operation, path), ""), "")


def test_operations() -> None:
    array = document([ONE, TWO])
    seven = Value(5, b"\7\0")
    cases: list[tuple[bytes, list[Value]]] = [
        (diff(REPLACE, "$[1]"), [ONE, seven]),
        (diff(REPLACE, "$[last]"), [ONE, seven]),
        (diff(INSERT, "$[1]"), [ONE, seven, TWO]),
        (diff(INSERT, "$[9]"), [ONE, TWO, seven]),
        (diff(INSERT, "$[last]"), [ONE, seven, TWO]),
        (diff(INSERT, "$[last-9]"), [seven, ONE, TWO]),
        (diff(REMOVE, "$[0]"), [TWO]),
        (diff(REMOVE, "$[last-1]") + diff(REMOVE, "$[last]") + diff(INSERT, "$[last]"), [seven]),
    ]
    for changes, result in cases:
        assert changed(array, diffs(changes, ""), "") == document(result)
    members = changed(document([ONE], [b"bb"]), diffs(diff(INSERT, "$.a") + diff(INSERT, "$.ba"), ""), "")
    assert convert(members) == b'{"a": 7, "ba": 7, "bb": 1}'
    assert changed(array, [], "") == array


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(DefiniteError, match="operation that is not known: 3"):
        diffs(diff(3, "$.a"), "here")
    for data in (b"\0", b"\0\x03$.a", b"\0\x03$.", diff(REPLACE, "$.a", b"\x0d\0\0"), diff(REPLACE, "$.a", b"\5\0")):
        with pytest.raises(DefiniteError, match="malformed"):
            diffs(data, "here")


def test_elements_that_share_bytes_are_refused() -> None:
    """What is taken apart never becomes larger."""
    text = b"\xf0\x2e" + b"x" * 6000
    shared = struct.pack("<BHH", 2, 1000, 4 + 3000 + len(text)) + struct.pack("<BH", 12, 3004) * 1000 + text
    loop = struct.pack("<BHHBH", 2, 1, 7, 2, 0)
    keys = struct.pack("<BHH", 0, 100, 4 + 700 + 500) + struct.pack("<HH", 704, 500) * 100
    for damaged in (shared, loop, keys + struct.pack("<BH", 4, 0) * 100 + b"k" * 500):
        with pytest.raises(DefiniteError, match="JSON document in the binlog is malformed"):
            changed(damaged, [Diff(REMOVE, (Cell(0, False),), None)], "here")


TABLE = TableMap(
    "d.t", ((layout.LONG, b""), (layout.JSON, b"\4"), (layout.VARCHAR, b"\x09\0"), (layout.JSON, b"\4")),
    *((True,) * 4, (False,) * 4, (None,) * 4, ("a", "b", "c", "d"), (), ((),) * 4),
)  # fmt: skip


def image(first: bytes, second: bytes | None) -> bytes:
    return bytes((0 if second is not None else 8,)) + b"".join(
        (struct.pack("<I", 1), struct.pack("<I", len(first)) + first, b"\1t", *(
            (struct.pack("<I", len(second)), second) if second is not None else ()
        ))
    )  # fmt: skip


HEAD = b"\4\xff\xff"
OLD, NEW = document([ONE, TWO]), document([TWO])
CHANGE = diff(REMOVE, "$[0]")


@pytest.mark.parametrize(
    ("between", "after", "whole"),
    [
        (b"\0", image(NEW, OLD), image(NEW, OLD)),
        (b"\1\0", image(NEW, None), image(NEW, None)),
        (b"\1\1", image(CHANGE, NEW), image(NEW, NEW)),
        (b"\1\2", image(NEW, CHANGE), image(NEW, NEW)),
        (b"\1\3", image(CHANGE, CHANGE), image(NEW, NEW)),
        (b"\1\3", image(b"", None), image(OLD, None)),
    ],
)
def test_rows_made_whole(between: bytes, after: bytes, whole: bytes) -> None:
    before = image(OLD, OLD)
    content = np.frombuffer(HEAD + 2 * (before + between + after), np.uint8)
    assert whole_rows(guarded_copy(content), TABLE, "here") == HEAD + 2 * (before + whole)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (HEAD + image(OLD, OLD) + b"\2" + image(NEW, NEW), "options that are not known"),
        (HEAD + image(OLD, None) + b"\1\2" + image(NEW, CHANGE), "a document that is NULL"),
        (b"\4\xff\xfe" + image(OLD, OLD), "does not hold all columns"),
        (b"\5\xff\xff" + image(OLD, OLD), "malformed"),
        (b"\4\xff", "malformed"),
        (HEAD + image(OLD, OLD), "ends inside of an update"),
        (HEAD + image(OLD, OLD) + b"\1", "ends inside of an update"),
        (HEAD + image(OLD, OLD) + b"\1\3" + image(CHANGE, CHANGE)[:-1], "ends inside of an update"),
    ],
)
def test_rows_that_are_refused(content: bytes, what: str) -> None:
    with pytest.raises(DefiniteError, match=what):
        whole_rows(guarded_copy(np.frombuffer(content, np.uint8)), TABLE, "here")


def test_damage() -> None:
    """An error, or rows that are not much larger than what they were made of."""
    dice = random.Random(1)
    inner = document([ONE, Value(12, b"\5hello")], [b"k", b"key"])
    old = document([Value(inner[0], inner[1:]), TWO, Value(12, b"\3abc")], [b"a", b"b", b"cc"])
    changes = diff(REPLACE, "$.a.k", inner) + diff(INSERT, "$.new") + diff(REMOVE, "$.cc")
    content = HEAD + image(old, old) + b"\1\3" + image(changes, changes)
    for _ in range(rounds(1_000)):
        damaged = bytearray(content[: dice.choice((len(content), dice.randrange(len(content))))])
        for _ in range(dice.randrange(4) if damaged else 0):
            at = dice.randrange(len(damaged))
            damaged[at] = dice.choice((0, 1, 2, 0x7F, 0x80, 0xFF, damaged[at] ^ 1 << dice.randrange(8)))
        try:
            found = whole_rows(guarded_copy(np.frombuffer(bytes(damaged), np.uint8)), TABLE, "here")
        except DefiniteError as error:
            assert "here" in error.where  # noqa: PT017
        else:
            assert len(found) < 4 * len(content)
