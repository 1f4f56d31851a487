"""Partial JSON updates of a real server: what we put together is what the server's own SELECT says."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import numpy as np
import pymysql
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.images.rows.decode import count_rows, decode_rows
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.mysql.binlog.json import partial_rows
from lakehouse_cdc.mysql.binlog.json.diff import INSERT, REMOVE, REPLACE, Diff, changed
from lakehouse_cdc.mysql.binlog.scan import Scan
from lakehouse_cdc.mysql.binlog.scanner import BinlogScanner
from lakehouse_cdc.schema.table import Column, TableSchema
from tests.support.binlog_log import Buffer, Log, joined, merged, scan_all, starts
from tests.support.images.json_values import VALUES

PARTIAL, PLAIN = (f"SET SESSION binlog_row_value_options = '{value}'" for value in ("PARTIAL_JSON", ""))
COLUMNS = (
    *(Column("id", "int", nullable=False), Column("n", "int"), Column("a", "json")),
    *(Column("s", "varchar", length=9, charset="utf8mb4"), Column("b", "json"), Column("c", "json")),
)
TEXT = {"a": "x" * 90, "b": [1, 2, {"c": None, "d e": "y" * 40}, [True, 1.5]], "é": {}, "": "z"}


@pytest.fixture
def client(log: Log, database: str) -> pymysql.Connection[Any]:
    """A session that writes partial updates to `database`.t."""
    found = log.session(autocommit=True, charset="utf8mb4", database=database)
    with found.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT, a JSON, s VARCHAR(9), b JSON, c JSON)")
        cursor.execute(PARTIAL)
    return found


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often each operation was applied."""
    found: Counter[int] = Counter()

    def counted(document: bytes, changes: list[Diff], where: str) -> bytes:
        found.update(diff.operation for diff in changes)
        return changed(document, changes, where)

    monkeypatch.setattr(partial_rows, "changed", counted)
    return found


def run(client: pymysql.Connection[Any], sql: str, arguments: Any = None) -> list[tuple[Any, ...]]:
    with client.cursor() as cursor:
        cursor.execute(sql, arguments)
        return list(cursor.fetchall())


def rows(client: pymysql.Connection[Any]) -> list[tuple[Any, ...]]:
    return run(client, "SELECT id, n, a, s, b, c FROM t ORDER BY id")


def updated(scan: Scan, database: str) -> list[tuple[Any, ...]]:
    """The images after of all updates."""
    if not len(scan.rows):
        return []
    programs = ProgramSet.of([TableSchema(database, "t", COLUMNS, ("id",))], [table.types for table in scan.tables])
    images = decode_rows(scan.buffer, scan.rows, programs)
    assert int(count_rows(scan.buffer, scan.rows, programs).sum()) == images.n
    found = [decode(images.after[i] or b"", programs.metadata[0]) for i in range(images.n) if images.op[i] == ord("u")]
    return [tuple(image[c.name] for c in COLUMNS) for image in found]


def paths(value: Any, path: str = "$") -> list[str]:
    """The places in a document."""
    if isinstance(value, dict):
        inner = [(f"{path}.{json.dumps(key, ensure_ascii=False)}", v) for key, v in value.items()]
    elif isinstance(value, list):
        inner = [(f"{path}[{i}]", v) for i, v in enumerate(value)]
        inner += [(f"{path}[last{f'-{i}' if i else ''}]", v) for i, v in enumerate(reversed(value))]
    else:
        inner = []
    return [place for p, v in inner for place in (p, *paths(v, p))]


SUFFIXES = ("", "", "", ".new", "[0]", "[7]", "[last]", '."q\\"\\\\r\\n"', '."日本 😀"')
NEW = ["$.n", "$.m", "$[99]"]
PARTIALLY = ("SET", "SET", "REPLACE", "REMOVE")
WHOLLY = ("INSERT", "ARRAY_INSERT", "ARRAY_APPEND")


def change(dice: random.Random, column: str, places: list[str], values: list[Any]) -> tuple[str, list[Any]]:
    """An expression over a JSON column, by functions that become partial updates and others."""
    expression, arguments = column, list[Any]()
    functions = PARTIALLY if dice.random() < 0.8 else PARTIALLY + WHOLLY
    for _ in range(dice.choice((1, 1, 2, 3))):
        function = dice.choice(functions)
        expression = f"JSON_{function}({expression}"
        for _ in range(dice.choice((1, 1, 2))):
            place = dice.choice(dice.choice((places or NEW, places or NEW, NEW))) + dice.choice(SUFFIXES)
            arguments.append(f"{place}[0]" if function == "ARRAY_INSERT" and not place.endswith("]") else place)
            expression += ", %s"
            if function != "REMOVE":
                value, more = dice.choice(
                    (
                        *(
                            ("CAST(%s AS JSON)", [json.dumps(dice.choice(values))]),
                            ("%s", [dice.choice(("é", 5, None))]),
                        ),
                        *(("b", []), ("n / 7", []), ("NOW(6)", []), ("x'00ff'", []), ("n > 3", [])),
                    )
                )
                expression += f", {value}"
                arguments += more
        expression += ")"
    return expression, arguments


LARGE = {"long": "x" * 70_000, "list": list(range(30_000, 50_000)), "small": [1, {"k": "v"}, 70_000]}
# a partial update is logged only where it is shorter than the document
PADDED = st.tuples(VALUES, st.sampled_from([{"pad": "x" * 300}, ["y" * 300]])).map(
    lambda v: {**v[1], "v": v[0]} if isinstance(v[1], dict) else [v[0], *v[1]]
)
DOCUMENTS = st.one_of(PADDED, PADDED, VALUES, st.just(TEXT), st.just(LARGE), st.none())


def play(client: pymysql.Connection[Any], documents: Any, values: list[Any], dice: random.Random) -> list[Any]:
    """Fill the table and update all of it again and again; what it holds after each update."""
    run(client, "DELETE FROM t")
    for i, row in enumerate(documents):
        texts = [None if value is None and i % 2 else json.dumps(value) for value in row]
        run(client, "INSERT INTO t VALUES (%s, 0, %s, 's', %s, %s)", [i, *texts])
    places = {name: [p for row in documents for p in paths(row[i])][:300] for i, name in enumerate("abc")}
    expected = []
    for _ in range(12):
        sets, arguments = ["n = n + 1"], list[Any]()
        for column in dice.sample("abc", dice.randrange(4)):
            expression, more = change(dice, column, places[column], values)
            sets.append(f"{column} = {expression}")
            arguments += more
        try:
            run(client, f"UPDATE t SET {', '.join(sets)}", arguments)
        except pymysql.err.OperationalError as error:
            assert error.args[0] == 3165, error  # noqa: PT017  # JSON_ARRAY_INSERT into no array
            continue
        expected += rows(client)
    return expected


@pytest.mark.long
def test_the_rows_are_those_of_the_server(
    log: Log, client: pymysql.Connection[Any], database: str, applied: Counter[int]
) -> None:
    updates: list[int] = []

    @settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        documents=st.lists(st.tuples(DOCUMENTS, DOCUMENTS, DOCUMENTS), min_size=1, max_size=4),
        values=st.lists(VALUES, min_size=3, max_size=10),
        seed=st.integers(0, 2**32),
        compressed=st.booleans(),
    )
    def agree(documents: Any, values: list[Any], seed: int, compressed: bool) -> None:
        run(client, f"SET SESSION binlog_transaction_compression = {int(compressed)}")
        run(client, "DELETE FROM t")
        start = log.end
        expected = play(client, documents, values, random.Random(seed))
        whole = joined(log.buffers(start))
        assert updated(BinlogScanner(start, lambda _: True).feed(whole), database) == expected
        updates.append(len(expected))

    agree()
    assert sum(updates) > 100
    assert min(applied[operation] for operation in (REPLACE, INSERT, REMOVE)) >= 5


def partial_events(buffer: Buffer) -> int:
    return sum(int(buffer[at + 4]) == 39 for at in starts(buffer))


CHANGES = [
    "JSON_SET(a, '$.a', 'short')",
    "JSON_SET(a, '$.b[last]', 9, '$.b[last-2].c', 'changed twice', '$.b[last-2].c', CAST('[1, {}]' AS JSON))",
    "JSON_SET(a, '$.b[100]', 'behind the end', '$.b[101]', NULL)",
    "JSON_REMOVE(a, '$.b[0]', '$.b[last]', '$.nothing', '$.é')",
    "JSON_SET(a, '$.b[1][0][0]', 'wrapped')",
    "JSON_SET(a, '$.a[5]', 'now an array')",
    """JSON_SET(a, '$."d e"', 1, '$.é', 2, '$.$_1', 4, '$."1a"', 5, '$."x.y[0]"', 6)""",
    """JSON_SET(a, '$."q\\\\"\\\\\\\\\\\\n\\\\u0001"', 3)""",
    "JSON_REPLACE(a, '$.\"\"', 1.50, '$.$_1', -0.0, '$.\"x.y[0]\"', 18446744073709551615, '$.é', TIME'-01:02:03.5')",
    "JSON_REPLACE(a, '$.nothing', 1)",
    "JSON_SET(JSON_REMOVE(a, '$.a'), '$.a', REPEAT('long', 40000))",
    "JSON_SET(a, '$.z', 70000, '$.y', -70000, '$.x', 1 << 40, '$.w', 1.5e0, '$.v', TRUE)",
    "JSON_REMOVE(a, '$.a')",
    "JSON_REMOVE(a, '$.b', '$.\"d e\"', '$.\"\"', '$.é', '$.x', '$.y', '$.z')",
]


def test_every_form_of_a_change(
    log: Log, client: pymysql.Connection[Any], database: str, applied: Counter[int]
) -> None:
    """One document through all of them, from the small form to the large one and back."""
    run(client, "INSERT INTO t VALUES (1, 0, %s, 's', NULL, '[]')", [json.dumps(TEXT)])
    start, expected, most = log.end, [], 0
    for n, expression in enumerate(CHANGES):
        run(client, f"UPDATE t SET n = n + 1, a = {expression}")
        expected += rows(client)
        most = max(most, len(expected[-1][2]))
        assert expected[-1][1] == n + 1
    buffer = joined(log.buffers(start))
    assert partial_events(buffer) == len(CHANGES)
    scan = BinlogScanner(start, lambda _: True).feed(buffer)
    assert updated(scan, database) == expected
    assert most > 1 << 16 > len(expected[-1][2])
    assert min(applied[operation] for operation in (REPLACE, INSERT, REMOVE)) >= 5
    assert [place.pos for place in scan.boundaries()] == scan.transactions.end.tolist()


def test_nulls_whole_documents_and_tables_without_any(log: Log, client: pymysql.Connection[Any], database: str) -> None:
    run(client, "INSERT INTO t VALUES (1, 0, NULL, 's', 'null', NULL), (2, 0, %s, NULL, '1', NULL)", [json.dumps(TEXT)])
    run(client, "CREATE TABLE plain (i INT PRIMARY KEY, v INT)")
    run(client, "INSERT INTO plain VALUES (1, 1), (2, 2)")
    start, expected = log.end, []
    for sets in (
        *("n = 1", "a = JSON_SET(a, '$.a', 1), n = 2", "b = JSON_SET(a, '$.a', 1), n = 3", "a = NULL, n = 4"),
        *("a = JSON_SET(a, '$.a', 1), n = 5", "a = b, b = NULL, c = '{}', n = 6", "c = JSON_SET(c, '$.a', n), n = 7"),
    ):
        run(client, f"UPDATE t SET {sets}")
        expected += rows(client)
    run(client, "UPDATE plain SET v = i + 10")
    buffer = joined(log.buffers(start))
    assert partial_events(buffer) == 8
    scan = BinlogScanner(start, lambda name: name.endswith(".t")).feed(buffer)
    assert updated(scan, database) == expected
    scan = BinlogScanner(start, lambda name: name.endswith(".plain")).feed(buffer)
    schema = TableSchema(database, "plain", (COLUMNS[0], Column("v", "int")), ("id",))
    images = decode_rows(scan.buffer, scan.rows, ProgramSet.of([schema]))
    names = ProgramSet.of([schema]).metadata[0]
    assert [decode(images.after[i] or b"", names) for i in range(2)] == [{"id": 1, "v": 11}, {"id": 2, "v": 12}]
    assert not len(BinlogScanner(start, lambda _: False).feed(buffer).rows)


def test_buffers_may_be_cut_between_any_two_events(log: Log, client: pymysql.Connection[Any], database: str) -> None:
    """Updates of many events, among plain ones, compressed transactions and whole updates of the same table."""
    number = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)"
    start = log.end
    run(client, f"INSERT INTO t {number} SELECT i, 0, %s, 's', '[]', NULL FROM n", [json.dumps(TEXT)])
    for compressed in (0, 1, 0, 1):
        run(client, f"SET SESSION binlog_transaction_compression = {compressed}")
        run(client, "BEGIN")
        run(client, "UPDATE t SET a = JSON_SET(a, '$.a', n), n = n + 1")
        run(client, "DELETE FROM t LIMIT 1")
        run(client, "UPDATE t SET a = JSON_SET(a, '$.new', n), n = n + 1")
        run(client, "COMMIT")
        run(client, PLAIN)
        run(client, "UPDATE t SET a = JSON_SET(a, '$.new', id), n = n + 1 WHERE id > 250")
        run(client, PARTIAL)
    whole = joined(log.buffers(start))
    assert partial_events(whole) > 20
    one = BinlogScanner(start, lambda _: True).feed(whole)
    pieces = scan_all(BinlogScanner(start, lambda _: True), np.split(whole, starts(whole)[1:]))
    assert merged(pieces) == merged([one])
    assert [row for scan in pieces for row in updated(scan, database)] == updated(one, database)
    expected = rows(client)
    assert {row[0]: row for row in updated(one, database) if row[0] > 250} == {r[0]: r for r in expected if r[0] > 250}


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_images_that_lack_columns_are_refused(
    log: Log, client: pymysql.Connection[Any], database: str, image: str
) -> None:
    """Of NOBLOB, too: JSON columns are in its images, but no other BLOB or TEXT that was not changed."""
    run(client, "CREATE TABLE u (id INT PRIMARY KEY, j JSON, x TEXT)")
    run(client, "INSERT INTO u VALUES (1, %s, 'x')", [json.dumps(TEXT)])
    start = log.end
    run(client, f"SET SESSION binlog_row_image = {image}")
    run(client, "UPDATE u SET j = JSON_SET(j, '$.a', 1)")
    buffer = joined(log.buffers(start))
    assert partial_events(buffer) == 1
    with pytest.raises(DefiniteError, match=rf"{database}\.u in the binlog does not hold all.*binlog_row_image = FULL"):
        BinlogScanner(start, lambda _: True).feed(buffer)
    assert BinlogScanner(start, lambda _: False).feed(buffer).boundary == log.end


def test_another_document_before_is_an_error(log: Log, client: pymysql.Connection[Any], database: str) -> None:
    run(client, "INSERT INTO t VALUES (1, 0, %s, 's', NULL, '[]')", [json.dumps({"name": "x" * 90, "other": 1})])
    start = log.end
    run(client, "UPDATE t SET a = JSON_REPLACE(a, '$.name', 1)")
    data = joined(log.buffers(start)).tobytes()
    assert data.count(b"name") == 2
    damaged = np.frombuffer(bytearray(data.replace(b"name", b"nome", 1)), np.uint8)
    with pytest.raises(DefiniteError, match="does not fit the document") as caught:
        BinlogScanner(start, lambda _: True).feed(damaged)
    assert "event type 39" in caught.value.where
