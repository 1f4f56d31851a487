"""Random tables and transactions: the binlog's changes, folded, are the rows that SELECT gives, byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import count
from typing import Any

import pymysql
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.model.changelog import Change, Op, fold, invalid
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.schema.table import Column, TableSchema
from tests.support.images.tables import changes, create, expected, insert, select

LATIN1 = "".join(bytes([code]).decode("cp1252", "ignore") or chr(code) for code in range(256))
BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
BLOBS = {"tinyblob": 255, "blob": 400, "mediumblob": 400, "longblob": 400}
NUMBERS = count()


def alphabet(charset: str) -> st.SearchStrategy[str]:
    if charset == "latin1":
        return st.sampled_from(LATIN1)
    return st.characters(
        max_codepoint={"ascii": 0x7F, "utf8mb3": 0xFFFF}.get(charset, 0x10FFFF), exclude_categories=["Cs"]
    )


@st.composite
def integer_columns(draw: st.DrawFn) -> tuple[Column, st.SearchStrategy[Any]]:
    name, unsigned = draw(st.sampled_from(sorted(BITS))), draw(st.booleans())
    low, high = (0, 2 ** BITS[name] - 1) if unsigned else (-(2 ** (BITS[name] - 1)), 2 ** (BITS[name] - 1) - 1)
    return Column("", name, unsigned=unsigned), st.integers(low, high)


@st.composite
def decimal_columns(draw: st.DrawFn) -> tuple[Column, st.SearchStrategy[Any]]:
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, min(precision, 30)))
    numbers = st.integers(-(10**precision) + 1, 10**precision - 1)
    return Column("", "decimal", precision=precision, scale=scale), numbers.map(
        lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale))
    )


@st.composite
def text_columns(draw: st.DrawFn) -> tuple[Column, st.SearchStrategy[Any]]:
    charset = draw(st.sampled_from(["utf8mb4", "utf8mb3", "latin1", "ascii"]))
    name = draw(st.sampled_from(["char", "varchar", "tinytext", "text", "mediumtext", "longtext"]))
    length = draw(st.integers(1, 255 if name == "char" else 400)) if name.endswith("char") else None
    values = st.text(alphabet(charset), max_size=min(length or 60, 80))
    return Column("", name, length=length, charset=charset), values


@st.composite
def binary_columns(draw: st.DrawFn) -> tuple[Column, st.SearchStrategy[Any]]:
    name = draw(st.sampled_from(["binary", "varbinary", *BLOBS]))
    length = None if name in BLOBS else draw(st.integers(1, 255 if name == "binary" else 300))
    return Column("", name, length=length), st.binary(max_size=length or BLOBS[name])


@st.composite
def time_columns(draw: st.DrawFn) -> tuple[Column, st.SearchStrategy[Any]]:
    name, digits = draw(st.sampled_from(["date", "datetime", "timestamp"])), draw(st.integers(0, 6))
    if name == "date":
        return Column("", name), st.dates(date(1, 1, 1))
    last = datetime(2038, 1, 19, 3, 14, 7) if name == "timestamp" else datetime(9999, 12, 31, 23, 59, 59)
    first = datetime(1970, 1, 1, 0, 0, 1) if name == "timestamp" else datetime(1, 1, 1)
    step = 10 ** (6 - digits)
    moments = st.datetimes(first, last).map(lambda m: m.replace(microsecond=m.microsecond // step * step))
    return Column("", name, fraction=digits), moments


FLOATS = st.one_of(
    st.just((Column("", "float"), st.floats(width=32, allow_nan=False, allow_infinity=False))),
    st.just((Column("", "double"), st.floats(allow_nan=False, allow_infinity=False))),
)
COLUMNS = st.one_of(integer_columns(), decimal_columns(), text_columns(), binary_columns(), time_columns(), FLOATS)
NAMES = st.text(st.characters(categories=["L", "N"], max_codepoint=0xFFFF), min_size=1, max_size=20)


@st.composite
def tables(draw: st.DrawFn) -> tuple[TableSchema, list[list[Any]]]:
    """A table with a key of one or two columns, some columns excluded, and its rows."""
    made = draw(st.lists(COLUMNS, min_size=1, max_size=14))
    names = draw(st.lists(NAMES, min_size=len(made), max_size=len(made), unique_by=lambda n: n.casefold()))
    excluded = draw(st.sets(st.integers(0, len(made) - 1), max_size=3))
    columns = [
        Column(**{**vars(column), "name": f"c{name}", "captured": i not in excluded})
        for i, ((column, _), name) in enumerate(zip(made, names, strict=True))
    ]
    place = draw(st.integers(0, len(columns)))
    columns[place:place] = [Column("id", "int", nullable=False), Column("a", "varbinary", nullable=False, length=9)]
    key = draw(st.sampled_from([("id",), ("id", "a"), ("a", "id")]))
    values = [st.none() | strategy for _, strategy in made]
    values[place:place] = [st.nothing(), st.binary(max_size=9)]
    rows = [
        [i if column.name == "id" else draw(value) for column, value in zip(columns, values, strict=True)]
        for i in range(draw(st.integers(1, 12)))
    ]
    return TableSchema("", f"t{next(NUMBERS)}", tuple(columns), key), rows


def change(session: pymysql.Connection[Any], schema: TableSchema, rows: Sequence[Sequence[Any]]) -> None:
    """Exchange values between rows, move keys, delete a row and put it back, roll something back."""
    name = f"`{schema.database}`.`{schema.table}`"
    values = ", ".join(f"`{column.name}` = %s" for column in schema.columns if column.name != "id")
    with session.cursor() as cursor:
        cursor.execute("BEGIN")
        for i, row in enumerate(rows):
            other = [v for v, column in zip(rows[i - 1], schema.columns, strict=True) if column.name != "id"]
            cursor.execute(f"UPDATE {name} SET {values} WHERE id = %s", [*other, i])
            if i % 3 == 0:
                cursor.execute(f"UPDATE {name} SET id = id + 1000 WHERE id = %s", [i])
            elif i % 3 == 1:
                cursor.execute(f"DELETE FROM {name} WHERE id = %s", [i])
                insert(session, schema, [row])
        cursor.execute("COMMIT")
        cursor.execute("BEGIN")
        cursor.execute(f"DELETE FROM {name}")
        cursor.execute("ROLLBACK")
        cursor.execute(f"DELETE FROM {name} WHERE id % 5 = 4")


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(table=tables())
def test_changes_fold_to_the_rows_of_a_select(
    session: pymysql.Connection[Any], database: str, table: tuple[TableSchema, list[list[Any]]]
) -> None:
    schema, rows = TableSchema(database, table[0].table, table[0].columns, table[0].key), table[1]
    start = create(session, schema)
    insert(session, schema, rows)
    inserted = select(session, schema)
    names = ProgramSet.of([schema]).metadata[0]
    for row, (_, image) in zip(rows, inserted, strict=True):
        wanted = {c.name: expected(c, v) for c, v in zip(schema.columns, row, strict=True) if c.captured}
        assert decode(image or b"", names) == wanted
    change(session, schema, rows)
    log = changes(session, start, schema)
    history = [
        Change(i, Op(chr(log.op[i])), schema.name, log.key[i], log.before[i], log.after[i]) for i in range(log.n)
    ]
    assert invalid(history) is None
    folded = sorted((key, image) for (_, key), (_, image) in fold(history).items())
    assert folded == sorted(select(session, schema), key=lambda row: row[0] or b"")
    with session.cursor() as cursor:
        cursor.execute(f"DROP TABLE `{database}`.`{schema.table}`")
