"""The order and the ranges of a key, as the server sees them.

A chunk is a half-open range [lo, hi) of keys, and a cursor is the list of a key's components (see `literals`). Chunks
are disjoint and cover the table because every bound, whatever it is, is used for the one chunk's end and the next
one's begin, and because one and the same comparison decides: the server's, with the column's type and collation, both
in the WHERE of the chunk and in the question whether a key of the binlog lies in it. Integers, decimals, dates and
binary strings are ordered here too, since their order is theirs alone; text never is: 'a' < 'B' < 'É' = 'é' depends on
the collation, and whether 'a' = 'a ' on its padding.

Composite keys are compared as `a > x OR (a = x AND b > y)`: MySQL reads exactly that range of the index, where it
scans the whole table for `(a, b) > (x, y)` (range optimization of row constructors covers only IN and equality).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.table_state import Cursor
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.literals import (
    ORDERED_BY_SERVER,
    component,
    form,
    literal,
    ordinal,
    quoted,
    received,
    selected,
)
from lakehouse_cdc.schema.table import TableSchema

MOST_GAPS = 4  # keys per row up to which integer keys are split by arithmetic; see `even`
_EXPLAINED_ROWS = {12: 9, 10: 8}  # where `rows` is in a line of EXPLAIN: of MySQL, of MariaDB
_KEYS_AT_ONCE = 1000
_CHARACTERS_AT_ONCE = 256 << 10  # of one statement: a quarter of the least max_allowed_packet in use


def place(schema: TableSchema) -> str:
    """`database`.`table`, quoted."""
    return f"{quoted(schema.database)}.{quoted(schema.table)}"


def select_list(schema: TableSchema) -> str:
    """The captured columns in the table's order, quoted."""
    return ", ".join(quoted(c.name) for c in schema.captured)


def estimated_rows(session: Session, column: str, table: str) -> int:
    """About how many rows the table has, as the optimizer sees its index now: not to be relied on for correctness.

    `column` of it is quoted, `table` is what follows FROM. INFORMATION_SCHEMA.TABLES is no source for it: from 8.0 on
    it may repeat for a day what it said before, such as 0 for a table that has been filled since
    (information_schema_stats_expiry).
    """
    row = session.one(f"EXPLAIN FORMAT=TRADITIONAL SELECT {column} FROM {table}")
    if len(row) not in _EXPLAINED_ROWS:
        raise codes.SERVER_ANSWER_UNEXPECTED.error(f"an EXPLAIN of {len(row)} columns is not known", where=table)
    return int(row[_EXPLAINED_ROWS[len(row)]] or 0)


class KeySpace:
    """The keys of one table. Raises DefiniteError for a table without a key, or a type that cannot be in one."""

    def __init__(self, schema: TableSchema) -> None:
        if not schema.range_key:
            raise codes.PRIMARY_KEY_MISSING.error(
                "the table has no key by which it is read in ranges", where=schema.name
            )
        self._schema = schema
        self._key = schema.key_columns
        forms = [form(c) for c in self._key]
        self._local = not any(kind in ORDERED_BY_SERVER for kind in forms)
        self._arithmetic = forms == ["integer"]
        self._names = [quoted(c.name) for c in self._key]
        self._by_key = f"{place(schema)} FORCE INDEX ({quoted(schema.key_index)})"

    @property
    def table(self) -> str:
        """`database`.`table`, quoted."""
        return place(self._schema)

    @property
    def by_key(self) -> str:
        """The table, read by the index of its key: what follows FROM."""
        return self._by_key

    def select_list(self) -> str:
        """See `select_list`."""
        return select_list(self._schema)

    def order_by(self) -> str:
        """The key's columns, quoted: what follows ORDER BY."""
        return ", ".join(self._names)

    def where(self, lo: Cursor | None, hi: Cursor | None) -> str:
        """The condition lo <= key < hi, or "" where both are None (unbounded)."""
        return self._inside(self._names, lo, hi)

    def cursor(self, key: Mapping[str, Any]) -> Cursor:
        """The cursor of a decoded key VARIANT."""
        return [component(c, key[c.name]) for c in self._key]

    # ------------------------------------------------------------------ which keys are in a range

    def below(self, session: Session, keys: Sequence[Cursor], bound: Cursor) -> list[bool]:
        """For each key whether key < bound; nothing is below the empty cursor. The server is asked about text."""
        return self.contains(session, keys, None, bound) if bound else [False] * len(keys)

    def contains(self, session: Session, keys: Sequence[Cursor], lo: Cursor | None, hi: Cursor | None) -> list[bool]:
        """For each key whether lo <= key < hi, as the server's WHERE has it."""
        if lo is None and hi is None:
            return [True] * len(keys)
        if self._local:
            low, high = (None if c is None else self._ordinals(c) for c in (lo, hi))
            ordinals = map(self._ordinals, keys)
            return [(low is None or low <= k) and (high is None or k < high) for k in ordinals]
        answers: list[bool] = []
        for conditions in _batches(self._inside(self._literals(k), lo, hi) for k in keys):
            # a condition is 1 or 0 (nothing is NULL in a key): one string answers for all
            text = str(session.scalar(f"SELECT CONCAT({', '.join(conditions)}, '')"))
            if len(text) != len(conditions) or text.strip("01"):
                raise codes.SERVER_ANSWER_UNEXPECTED.error("the server could not compare keys", where=self._schema.name)
            answers += [answer == "1" for answer in text]
        return answers

    def _inside(self, terms: Sequence[str], lo: Cursor | None, hi: Cursor | None) -> str:
        conditions = []
        if lo is not None:
            conditions.append(_compared(terms, ">", self._literals(lo), or_equal=True))
        if hi is not None:
            conditions.append(_compared(terms, "<", self._literals(hi), or_equal=False))
        return " AND ".join(conditions)

    def _literals(self, cursor: Cursor) -> list[str]:
        return [literal(c, v) for c, v in zip(self._key, self._whole(cursor), strict=True)]

    def _ordinals(self, cursor: Cursor) -> list[Any]:
        return [ordinal(c, v) for c, v in zip(self._key, self._whole(cursor), strict=True)]

    def _whole(self, cursor: Cursor) -> Cursor:
        if len(cursor) != len(self._key):
            raise codes.CURSOR_UNFIT.error(
                f"a cursor of {len(cursor)} components does not fit the key ({', '.join(self._schema.key)})",
                where=self._schema.name,
            )  # fmt: skip
        return cursor

    def among(self, keys: Sequence[Cursor]) -> Iterator[str]:
        """Conditions that together hold for rows of these keys, and of others that the server takes for equal."""
        for conditions in _batches(
            " AND ".join(f"{name} = {value}" for name, value in zip(self._names, self._literals(key), strict=True))
            for key in keys
        ):
            yield " OR ".join(f"({condition})" for condition in conditions)

    # ------------------------------------------------------------------ where to cut

    def cut(self, session: Session, lo: Cursor | None, rows: int) -> Cursor | None:
        """The end of the chunk that begins at `lo` and has about `rows` rows; None where it holds all that are left.

        By arithmetic where the key is one integer and about even (at most MOST_GAPS * rows rows then), else by index
        steps (exactly `rows` rows).
        """
        if self._arithmetic:
            extent = self.extent(session)
            if extent is None:
                return None
            (lowest,), (highest,) = extent
            distance = even(lowest, highest, self.estimate(session), rows)
            if distance is not None:
                return self._cut_by_distance(session, lo, highest, distance)
        return self.step(session, lo, rows)

    def _cut_by_distance(self, session: Session, lo: Cursor | None, highest: int, distance: int) -> Cursor | None:
        first = self.step(session, lo, 0)  # not lo: a chunk that begins in a gap would be empty
        if first is None or first[0] + distance > highest:
            return None
        return [first[0] + distance]

    def step(self, session: Session, lo: Cursor | None, rows: int) -> Cursor | None:
        """The key that is `rows` index steps past the first key at or above `lo`; None where fewer are left."""
        return self._one(session, self.where(lo, None), "", rows)

    def extent(self, session: Session) -> tuple[Cursor, Cursor] | None:
        """The least and the greatest key; None for an empty table."""
        lowest, highest = self._one(session, "", "", 0), self._one(session, "", " DESC", 0)
        return None if lowest is None or highest is None else (lowest, highest)

    def estimate(self, session: Session) -> int:
        """See `estimated_rows`."""
        return estimated_rows(session, self._names[0], self.by_key)

    def _one(self, session: Session, where: str, direction: str, skip: int) -> Cursor | None:
        """The key after `skip` others, in the index's order (forced: a smaller index would be sorted as a whole)."""
        rows = session.query(
            f"SELECT {', '.join(selected(c) for c in self._key)} FROM {self.by_key}"
            + (f" WHERE {where}" if where else "")
            + f" ORDER BY {', '.join(name + direction for name in self._names)} LIMIT 1 OFFSET {skip:d}"
        )
        return [received(c, v) for c, v in zip(self._key, rows[0], strict=True)] if rows else None


def even(lowest: int, highest: int, rows: int, chunk_rows: int) -> int | None:
    """The distance between the bounds of chunks of about `chunk_rows` rows, or None where the keys are too sparse.

    `rows` is an estimate. Integer keys are unique, so a chunk never has more rows than its distance: with at most
    MOST_GAPS keys per row it has at most MOST_GAPS * chunk_rows rows, however wrong the estimate and however uneven
    the keys are.
    """
    gaps = (highest - lowest + 1) / max(rows, 1)
    if gaps > MOST_GAPS:
        return None
    return max(int(chunk_rows * max(gaps, 1.0)), 1)


def _compared(left: Sequence[str], operator: str, right: Sequence[str], *, or_equal: bool) -> str:
    """The OR form of a comparison of two keys, component by component."""
    condition = f"{left[-1]} {operator}{'=' if or_equal else ''} {right[-1]}"
    for a, b in reversed(list(zip(left[:-1], right[:-1], strict=True))):
        condition = f"({a} {operator} {b} OR ({a} = {b} AND {condition}))"
    return condition


def _batches(conditions: Iterator[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for condition in conditions:
        if batch and (len(batch) == _KEYS_AT_ONCE or size + len(condition) > _CHARACTERS_AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(condition)
        size += len(condition)
    if batch:
        yield batch
