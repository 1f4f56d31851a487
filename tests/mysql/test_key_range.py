"""Ranges of keys against the real server: what KeySpace says of a key is what the server's WHERE says of the row."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import count, pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.mysql.catalog import read_tables
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session, connect
from lakehouse_cdc.mysql.key_range import MOST_GAPS, KeySpace, even
from lakehouse_cdc.mysql.literals import literal, quoted
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.testing import MySqlServer

_numbers = count()
_TEXTS = [
    "",
    "a",
    "A",
    "a ",
    "aGG",
    "GbG",
    "Z",
    "z",
    "é",
    "É",
    "e",
    "ß",
    "ss",
    "a\t",
    "a\x00",
    "ae",
    "æ",
    "\U0001f600",
    "zz",
]
_ASCII = [t for t in _TEXTS if t.isascii()]
_COLLATIONS = [  # PAD SPACE and NO PAD; by case, by accent, by bytes; in several character sets
    "utf8mb4_0900_ai_ci", "utf8mb4_0900_as_cs", "utf8mb4_0900_bin", "utf8mb4_bin", "utf8mb4_general_ci",
    "utf8mb4_unicode_520_ci", "utf8mb4_de_pb_0900_as_cs", "utf8mb3_general_ci", "utf8mb3_bin",
    "latin1_swedish_ci", "latin1_general_cs", "latin1_bin", "latin1_german2_ci", "ascii_general_ci",
]  # fmt: skip


@pytest.fixture(scope="module")
def session(mysql: MySqlServer) -> Iterator[Session]:
    with connect(ConnectionOptions.from_url(mysql.url)) as session:
        session.query("CREATE DATABASE test_keys")
        yield session
        session.query("DROP DATABASE test_keys")


def _table(session: Session, columns: str, key: str) -> TableSchema:
    name = f"t{next(_numbers)}"
    session.query(f"CREATE TABLE test_keys.{name} ({columns}, payload INT, PRIMARY KEY ({key}))")
    return read_tables(session, Selection([f"test_keys.{name}"]))[f"test_keys.{name}"]


def _insert(session: Session, schema: TableSchema, keys: list[list[Any]]) -> None:
    """Insert keys (components, as cursors have them); the server decides which of them are the same."""
    for at in range(0, len(keys), 5000):
        rows = [[literal(c, v) for c, v in zip(schema.key_columns, key, strict=True)] for key in keys[at : at + 5000]]
        values = ", ".join(f"({', '.join(row)}, 0)" for row in rows)
        names = ", ".join(quoted(c) for c in (*schema.key, "payload"))
        session.query(f"INSERT IGNORE INTO {KeySpace(schema).table} ({names}) VALUES {values}")


def _keys(session: Session, schema: TableSchema, where: str = "") -> list[list[Any]]:
    """The keys that the server finds, in its order, as cursors."""
    space = KeySpace(schema)
    rows = session.query(
        f"SELECT {', '.join(_selected(c) for c in schema.key_columns)} FROM {space.table}"
        + (f" WHERE {where}" if where else "")
        + f" ORDER BY {space.order_by()}"
    )
    return [[_component(c, v) for c, v in zip(schema.key_columns, row, strict=True)] for row in rows]


def _selected(column: Column) -> str:
    return f"HEX({quoted(column.name)})" if column.type.endswith("binary") else quoted(column.name)


def _component(column: Column, value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value)
    if column.type in ("datetime", "timestamp"):
        text = str(value)
        whole = text if "." in text else f"{text}.{'0' * 6}"
        return whole[: 20 + column.fraction] if column.fraction else whole[:19]
    return value if isinstance(value, int | str) else str(value)


def _chunks(session: Session, space: KeySpace, rows: int) -> list[tuple[Any, Any]]:
    bounds: list[Any] = [None]
    while (cut := space.cut(session, bounds[-1], rows)) is not None:
        bounds.append(cut)
        assert len(bounds) < 5000
    return list(pairwise([*bounds, None]))


# ---------------------------------------------------------------- the property


def _texts(collation: str) -> st.SearchStrategy[str]:
    if collation.startswith("ascii"):
        return st.sampled_from(_ASCII)
    known = [t for t in _TEXTS if collation.startswith("utf8mb4") or ord(max(t, default="a")) < 256]
    return st.sampled_from(known) | st.text(st.sampled_from("aAbBéÉ \t~"), max_size=4)


@st.composite
def _components(draw: st.DrawFn) -> tuple[str, st.SearchStrategy[Any]]:
    kind = draw(st.sampled_from(["int", "ubig", "decimal", "date", "datetime", "timestamp", "text", "binary"]))
    if kind == "int":
        return "INT", st.integers(-3, 3) | st.sampled_from([-(2**31), 2**31 - 1])
    if kind == "ubig":
        return "BIGINT UNSIGNED", st.integers(0, 2) | st.sampled_from([2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1])
    if kind == "decimal":
        return "DECIMAL(20,2)", st.integers(-300, 300).map(lambda n: f"{Decimal(n).scaleb(-2):.2f}")
    if kind == "date":
        return "DATE", st.sampled_from(["1000-01-01", "1999-12-31", "2024-02-29", "9999-12-31"])
    if kind == "datetime":
        return "DATETIME(3)", st.sampled_from(
            ["1000-01-01 00:00:00.000", "2024-02-29 12:00:00.001", "9999-12-31 23:59:59.999"]
        )
    if kind == "timestamp":
        return "TIMESTAMP", st.sampled_from(["1970-01-01 00:00:01", "2024-10-27 01:30:00", "2038-01-19 03:14:07"])
    if kind == "text":
        collation = draw(st.sampled_from(_COLLATIONS))
        type_ = draw(st.sampled_from(["VARCHAR(20)", "CHAR(20)"]))
        texts = _texts(collation)
        if type_ == "CHAR(20)":  # holds no trailing spaces
            texts = texts.map(lambda t: t.rstrip(" "))
        return f"{type_} CHARACTER SET {collation.split('_')[0]} COLLATE {collation}", texts
    if draw(st.booleans()):
        return "BINARY(2)", st.binary(min_size=2, max_size=2).map(lambda b: b.hex().upper())
    return "VARBINARY(4)", st.sampled_from(["", "00", "0000", "7F", "80", "FF", "FF00", "8000"])


@st.composite
def _worlds(draw: st.DrawFn) -> tuple[list[str], list[list[Any]], list[list[Any]], int]:
    """Column types, keys of rows, other keys, rows per chunk. The first column of several has few values."""
    parts = draw(st.lists(_components(), min_size=1, max_size=4))
    values = [strategy for _, strategy in parts]
    if len(parts) > 1:
        few = draw(st.lists(values[0], min_size=1, max_size=2))
        values[0] = st.sampled_from(few)
    keys = st.tuples(*values).map(list)
    return (
        [t for t, _ in parts],
        draw(st.lists(keys, max_size=40)),
        draw(st.lists(keys, max_size=12)),
        draw(st.integers(1, 7)),
    )


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(world=_worlds())
def test_chunks_are_disjoint_and_cover_and_below_is_what_the_server_says(
    session: Session, world: tuple[list[str], list[list[Any]], list[list[Any]], int]
) -> None:
    types, keys, others, rows = world
    columns = ", ".join(f"k{i} {t} NOT NULL" for i, t in enumerate(types))
    schema = _table(session, columns, ", ".join(f"k{i}" for i in range(len(types))))
    space = KeySpace(schema)
    _insert(session, schema, keys)
    everything = _keys(session, schema)

    chunks = [_keys(session, schema, space.where(lo, hi)) for lo, hi in _chunks(session, space, rows)]
    assert [key for chunk in chunks for key in chunk] == everything  # in order, each once
    assert not everything or all(chunks)

    for bound in (keys + others)[:12]:
        below = _keys(session, schema, space.where(None, bound))
        assert space.below(session, everything, bound) == [key in below for key in everything]
        within = _keys(session, schema, space.where(bound, others[0] if others else None))
        inside = space.contains(session, everything, bound, others[0] if others else None)
        assert inside == [key in within for key in everything]
    session.query(f"DROP TABLE {space.table}")


# ---------------------------------------------------------------- single faults, by name


@pytest.mark.parametrize("collation", _COLLATIONS)
def test_text_keys_follow_the_collation(session: Session, collation: str) -> None:
    schema = _table(session, f"k VARCHAR(20) CHARACTER SET {collation.split('_')[0]} COLLATE {collation}", "k")
    space = KeySpace(schema)
    texts = [[t] for t in ("aGG", "GbG", "Z", "a", "e", "z", *(() if collation.startswith("ascii") else ("é", "É")))]
    _insert(session, schema, [*texts, ["a "]])
    everything = _keys(session, schema)
    cuts = [lo for lo, _ in _chunks(session, space, 1)][1:]
    assert cuts == everything[1:]
    for text in [*texts, ["a "], ["a  "]]:
        expected = [k[0] for k in _keys(session, schema, space.where(None, text))]
        assert [
            k[0] for k, yes in zip(everything, space.below(session, everything, text), strict=True) if yes
        ] == expected


def test_trailing_spaces_count_only_without_padding(session: Session) -> None:
    for collation, equal in (("utf8mb4_general_ci", True), ("utf8mb4_0900_ai_ci", False), ("utf8mb4_bin", True)):
        schema = _table(session, f"k VARCHAR(9) COLLATE {collation}", "k")
        assert KeySpace(schema).below(session, [["a"]], ["a "]) == [not equal]


def test_binary_keys_are_unsigned_bytes(session: Session) -> None:
    schema = _table(session, "k BINARY(16)", "k")
    keys = [[f"{first}{'00' * 14}{last}"] for first in ("00", "7F", "80", "FF") for last in ("00", "7F", "80", "FF")]
    _insert(session, schema, keys)
    space = KeySpace(schema)
    assert _keys(session, schema) == keys
    assert [lo for lo, _ in _chunks(session, space, 1)][1:] == keys[1:]
    for i, bound in enumerate(keys):
        assert space.below(session, keys, bound) == [j < i for j in range(len(keys))]


def test_bigint_unsigned_beyond_two_to_the_63(session: Session) -> None:
    schema = _table(session, "k BIGINT UNSIGNED", "k")
    keys = [[0], [2**63 - 1], [2**63], [2**63 + 1], [2**64 - 2], [2**64 - 1]]
    _insert(session, schema, keys)
    space = KeySpace(schema)
    assert [lo for lo, _ in _chunks(session, space, 1)][1:] == keys[1:]
    for i, bound in enumerate(keys):
        assert _keys(session, schema, space.where(None, bound)) == keys[:i]


def test_negative_keys_to_the_edge(session: Session) -> None:
    schema = _table(session, "k BIGINT", "k")
    keys = [[-(2**63)], [-(2**63) + 1], [-1], [0], [2**63 - 1]]
    _insert(session, schema, keys)
    space = KeySpace(schema)
    for i, bound in enumerate(keys):
        assert _keys(session, schema, space.where(None, bound)) == keys[:i]
        assert _keys(session, schema, space.where(bound, None)) == keys[i:]


def test_names_are_quoted(session: Session) -> None:
    schema = _table(session, "`a``b c` INT, `select` INT", "`select`, `a``b c`")
    _insert(session, schema, [[1, 1], [1, 2], [2, 1]])
    space = KeySpace(schema)
    assert _keys(session, schema, space.where([1, 2], [2, 1])) == [[1, 2]]
    assert space.select_list() == "`a``b c`, `select`, `payload`"
    assert [lo for lo, _ in _chunks(session, space, 1)][1:] == [[1, 2], [2, 1]]


# ---------------------------------------------------------------- the index is used


def _reads(session: Session, sql: str) -> int:
    """How many rows and index entries the server touched for a statement."""
    session.query("FLUSH STATUS")
    session.query(sql)
    return sum(int(n) for name, n in session.query("SHOW SESSION STATUS LIKE 'Handler_read%%'"))


def test_a_range_reads_its_rows_only(session: Session) -> None:
    text = "VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_swedish_ci"
    schema = _table(session, f"a INT, b INT, c {text}, d INT", "a, b, c, d")
    keys = [[n % 3, n // 3 % 50, f"k{n // 150 % 20}", n // 3000] for n in range(12000)]
    _insert(session, schema, keys)
    session.query(f"ANALYZE TABLE {KeySpace(schema).table}")
    space = KeySpace(schema)
    lo, hi = [1, 20, "k10", 3], [1, 22, "k3", 2]
    rows = len(_keys(session, schema, space.where(lo, hi)))
    assert 0 < rows < 400
    read = _reads(session, f"SELECT {space.select_list()} FROM {space.table} WHERE {space.where(lo, hi)}")
    assert read <= rows + 10
    session.query("FLUSH STATUS")
    assert space.step(session, lo, 100) is not None
    stepped = sum(int(n) for _, n in session.query("SHOW SESSION STATUS LIKE 'Handler_read%%'"))
    assert stepped <= 110


@pytest.mark.parametrize("collation", ["utf8mb4_0900_ai_ci", "latin1_german2_ci", "utf8mb3_general_ci", "utf8mb4_bin"])
def test_a_range_of_text_reads_its_rows_only(session: Session, collation: str) -> None:
    schema = _table(session, f"k VARCHAR(20) CHARACTER SET {collation.split('_')[0]} COLLATE {collation}", "k")
    _insert(session, schema, [[f"é{n:05}"] for n in range(3000)])
    space = KeySpace(schema)
    where = space.where(["é00100"], ["é00150"])
    assert _reads(session, f"SELECT * FROM {space.table} WHERE {where}") <= 60


# ---------------------------------------------------------------- where to cut


def test_even_integers_are_split_by_arithmetic(session: Session) -> None:
    schema = _table(session, "k INT", "k")
    _insert(session, schema, [[n] for n in range(-500, 500)])
    session.query(f"ANALYZE TABLE {KeySpace(schema).table}")
    space = KeySpace(schema)
    chunks = _chunks(session, space, 100)
    assert 3 <= len(chunks) <= 12
    sizes = [len(_keys(session, schema, space.where(lo, hi))) for lo, hi in chunks]
    assert sum(sizes) == 1000
    assert 0 < min(sizes) <= max(sizes) <= MOST_GAPS * 100


def test_arithmetic_never_gives_an_empty_chunk_in_a_gap(session: Session) -> None:
    schema = _table(session, "k INT", "k")
    _insert(session, schema, [[n] for n in [*range(600), *range(1500, 2000)]])
    session.query(f"ANALYZE TABLE {KeySpace(schema).table}")
    space = KeySpace(schema)
    sizes = [len(_keys(session, schema, space.where(lo, hi))) for lo, hi in _chunks(session, space, 50)]
    assert sum(sizes) == 1100
    assert min(sizes) > 0


def test_sparse_integers_are_split_by_index_steps(session: Session) -> None:
    schema = _table(session, "k BIGINT UNSIGNED", "k")
    keys = [[n] for n in [*range(100), 2**40, 2**63, 2**64 - 1]]
    _insert(session, schema, keys)
    session.query(f"ANALYZE TABLE {KeySpace(schema).table}")
    assert [lo for lo, _ in _chunks(session, KeySpace(schema), 10)][1:] == keys[10::10]


@given(st.integers(-(2**63), 2**64), st.integers(0, 2**64), st.integers(0, 10**12), st.integers(1, 10**6))
def test_a_distance_is_never_zero_nor_far_beyond_the_chunk(lowest: int, span: int, rows: int, chunk: int) -> None:
    distance = even(lowest, lowest + span, rows, chunk)
    assert distance is None or chunk <= distance <= MOST_GAPS * chunk


def test_an_empty_table_is_one_chunk(session: Session) -> None:
    for columns, key in (("k INT", "k"), ("k VARCHAR(9)", "k"), ("k INT, l INT", "k, l")):
        space = KeySpace(_table(session, columns, key))
        assert space.cut(session, None, 10) is None
        assert space.extent(session) is None
        assert space.where(None, None) == ""


# ---------------------------------------------------------------- cursors


def test_nothing_is_below_the_empty_cursor(session: Session) -> None:
    space = KeySpace(_table(session, "k INT", "k"))
    assert space.below(session, [[1], [2]], []) == [False, False]


def test_many_long_keys_are_asked_about_in_several_statements(session: Session) -> None:
    schema = _table(session, "k VARCHAR(700)", "k")
    keys = [[f"{n:04}" * 170] for n in range(2500)]
    assert KeySpace(schema).below(session, keys, keys[1200]) == [n < 1200 for n in range(2500)]


@pytest.mark.parametrize(
    ("columns", "cursor"),
    [
        ("k INT", ["1"]), ("k INT", [True]), ("k INT", [1, 2]), ("k DECIMAL(5,2)", ["1 OR 1"]), ("k DATE", ["0"]),
        ("k DATETIME", ["2024-01-01' OR '"]), ("k BINARY(2)", ["GG"]), ("k BINARY(2)", ["0"]), ("k VARCHAR(9)", [5]),
    ],
)  # fmt: skip
def test_a_strange_cursor_is_refused(session: Session, columns: str, cursor: list[Any]) -> None:
    space = KeySpace(_table(session, columns, "k"))
    with pytest.raises(DefiniteError, match="does not fit the key"):
        space.where(cursor, None)
