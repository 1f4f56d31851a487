"""Ranges of the values of one indexed column: how a long table without a key is read by many tasks.

A range is half open, [lo, hi), over values and never over a number of rows, so all rows of one value are in one range,
however many there are. NULL is below all values, as it is in the index: the range without a lower bound has those rows.
So each row is in just one range, whichever the bounds are, and which one depends on the row alone.

That is a question to the server in the WHERE of a SELECT, and one to us for the images in the binlog. Both must agree,
so only such columns are taken whose order is that of their values alone: integers, decimals, dates and times. Text is
not: its order is the server's, and bytes that are no text are in the image as `?`. Nor are dates that are carried
otherwise, or floating-point numbers.

The index has no part in what is correct. It is what makes a range cheaper to read than the whole table, and where to
cut: each cut is the value that is some index steps past the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse_cdc.model.table_state import Cursor
from lakehouse_cdc.model.variant import decode, encode, moment_text
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.key_range import estimated_rows, place
from lakehouse_cdc.mysql.literals import component, form, literal, ordinal, quoted, received, selected
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import TYPES

_FORMS = ("integer", "decimal", "date", "moment", "time")
_LABELLED = ("enum", "set")  # integers to the server; an image has the labels, as they are in the schema
_MOST_ROWS = 500  # that one condition names
_MOST_CHARACTERS = 64 << 10
_NULL, _NO_NAMES = encode(None)


@dataclass(frozen=True)
class RangeIndex:
    """An index by its name, and its first column."""

    name: str
    column: str


def comparable(schema: TableSchema) -> tuple[Column, ...]:
    """The captured columns whose values are compared here as the server does it."""
    return tuple(c for c in schema.captured if _is_comparable(c))


def _is_comparable(column: Column) -> bool:
    declared = TYPES.get(column.type)
    if column.carried or column.mask or column.type in _LABELLED or declared is None:
        return False
    return declared.key in _FORMS


def range_index(session: Session, schema: TableSchema) -> RangeIndex | None:
    """The index by which the table is read in ranges: the one with the most values, as the server estimates it."""
    columns = {c.name for c in comparable(schema)}
    rows = session.query(
        "SELECT INDEX_NAME, COLUMN_NAME, CARDINALITY FROM INFORMATION_SCHEMA.STATISTICS WHERE TABLE_SCHEMA = %s"
        " AND TABLE_NAME = %s AND SEQ_IN_INDEX = 1 AND SUB_PART IS NULL AND INDEX_TYPE = 'BTREE'",
        (schema.database, schema.table),
    )
    usable = [(-int(values or 0), str(name), str(column)) for name, column, values in rows if column in columns]
    return RangeIndex(*min(usable)[1:]) if usable else None


class ValueSpace:
    """The values of the index's column in rows of `schema`."""

    def __init__(self, schema: TableSchema, index: RangeIndex) -> None:
        [self.column] = [c for c in schema.captured if c.name == index.column]
        self._name = quoted(index.column)
        self.by_index = f"{place(schema)} FORCE INDEX ({quoted(index.name)})"

    def where(self, lo: Cursor | None, hi: Cursor | None) -> str:
        """The condition lo <= value < hi, where NULL is below all; "" where both are None (unbounded)."""
        conditions = []
        if lo is not None:
            conditions.append(f"{self._name} >= {self._literal(lo)}")
        if hi is not None:
            conditions.append(f"{self._name} < {self._literal(hi)}")
        if lo is None and hi is not None:
            return f"({conditions[0]} OR {self._name} IS NULL)"
        return " AND ".join(conditions)

    def holds(self, row: Mapping[str, bytes], lo: Cursor | None, hi: Cursor | None) -> bool:
        """Whether an image is in the range, of which the fields are given (see `model.variant`)."""
        value = _component(self.column, row[self.column.name])
        if value is None:
            return lo is None
        at = ordinal(self.column, value)
        low, high = (None if bound is None else ordinal(self.column, bound[0]) for bound in (lo, hi))
        return (low is None or low <= at) and (high is None or at < high)

    def cuts(self, session: Session, rows: int, most: int, enough: Callable[[], bool]) -> list[Cursor]:
        """Bounds of ranges of at least `rows` rows, in rising order: about `most` ranges at most, until `enough`."""
        rows = max(rows, -(-estimated_rows(session, self._name, self.by_index) // most), 1)
        cuts: list[Cursor] = []
        while len(cuts) < 2 * most and not enough():
            cut = self._next(session, cuts[-1] if cuts else None, rows)
            if cut is None:
                break
            cuts.append(cut)
        return cuts

    def _next(self, session: Session, lo: Cursor | None, rows: int) -> Cursor | None:
        """The value `rows` steps from `lo` on; where that is no other value, the next one. None: there is none."""
        cut = self._at(session, self.where(lo, None), rows)
        if cut == (lo or [None]):
            above = f"{self._name} IS NOT NULL" if lo is None else f"{self._name} > {self._literal(lo)}"
            return self._at(session, above, 0)
        return cut

    def _at(self, session: Session, where: str, skip: int) -> Cursor | None:
        rows = session.query(
            f"SELECT {selected(self.column)} FROM {self.by_index}"
            + (f" WHERE {where}" if where else "")
            + f" ORDER BY {self._name} LIMIT 1 OFFSET {skip:d}"
        )
        return [None if value is None else received(self.column, value) for (value,) in rows][:1] or None

    def _literal(self, cursor: Cursor) -> str:
        [value] = cursor
        return literal(self.column, value)


def alike(schema: TableSchema, rows: Sequence[Mapping[str, bytes]]) -> str:
    """A condition that holds for all rows with images like these, and perhaps for others; "" where it holds for all.

    The images are given by their fields.
    """
    columns = comparable(schema)
    if not columns or len(rows) > _MOST_ROWS:
        return ""
    condition = " OR ".join(sorted({f"({' AND '.join(_equal(columns, row))})" for row in rows}))
    return f"({condition})" if len(condition) <= _MOST_CHARACTERS else ""


def _equal(columns: Sequence[Column], row: Mapping[str, bytes]) -> Iterator[str]:
    for column in columns:
        value, name = _component(column, row[column.name]), quoted(column.name)
        yield f"{name} IS NULL" if value is None else f"{name} = {literal(column, value)}"


def _component(column: Column, field: bytes) -> Any:
    """The component for a field of an image, None for NULL."""
    if form(column) in ("date", "moment") and field != _NULL:
        text = moment_text(field)
        return text[: 20 + column.fraction] if column.fraction else text[:19]
    value = decode(field, _NO_NAMES)
    return None if value is None else component(column, value)
