"""Random changelogs of a table without a key, and what they come to by the model."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any
from unittest.mock import patch

from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.multiset import remaining
from lakehouse_cdc.model.seq import Rank
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.forms.writers import multiset
from tests.support.bronze_writer import Lake
from tests.support.silver.changes import begin, seq
from tests.support.silver.histories import TEXT

Row = dict[str, Any]
COLUMNS = (
    Column("n", "int"), Column("text", "text", **TEXT), Column("bytes", "blob"), Column("d", "double"),
    Column("at", "datetime", fraction=6),
)  # fmt: skip
LOG = TableSchema("shop", "log", COLUMNS, ())
VALUES: dict[str, tuple[Any, ...]] = {
    "n": (None, 1), "text": ("", None, "null"), "bytes": (None, b"", b"\x00"), "d": (0.0, -0.0, None),
    "at": (datetime(2020, 1, 1), datetime(2020, 1, 1, 0, 0, 0, 1)),
}  # fmt: skip


# the same without floating-point numbers, so that deltalake can keep it
EXACT = TableSchema(
    "shop", "log", tuple(Column("d", "decimal", precision=20, scale=10) if c.name == "d" else c for c in COLUMNS), ()
)
_EXACT_VALUES = {**VALUES, "d": (Decimal("0.0000000000"), Decimal("0.0000000001"), None)}


def hashable(image: Row) -> tuple[tuple[str, str], ...]:
    """An image as it is told from others: 0.0 and -0.0 are two. PySpark gives a decimal more places than it has."""
    plain = {name: value.normalize() if isinstance(value, Decimal) else value for name, value in image.items()}
    return tuple(sorted((name, repr(value)) for name, value in plain.items()))


def image_of(row: Any) -> tuple[tuple[str, str], ...]:
    """The image of a row of silver, likewise."""
    return hashable({n: bytes(row[n]) if isinstance(row[n], bytearray) else row[n] for n in VALUES})


LISTS = ((500, 10_000), (0, 10_000), (0, 0))


@contextmanager
def listed(whole: int, in_part: int) -> Iterator[None]:
    """So many digests of a batch are listed whole, so many by their first characters, instead of hundreds."""
    with patch.multiple(multiset, _LISTED=whole, _LISTED_IN_PART=in_part):
        yield


class Writes:
    """A valid changelog of a table without a key, grown by one moment after the other."""

    def __init__(self, rng: random.Random, rows: int, table: TableSchema = LOG) -> None:
        """`rows` of its rows are read at first; the table has the columns of LOG, or is EXACT."""
        self._rng, self._rows, self._name = rng, list[Row](), table.name
        self._values = _EXACT_VALUES if table is EXACT else VALUES
        self.changes = [begin(table)]
        for _ in range(rows):
            self._rows.append(self._image())
            self._add(2, Rank.READ, Op.READ, None, self._rows[-1])

    def grow(self, pos: int) -> None:
        what = self._rng.random()
        if what < 0.04:
            self._rows.clear()
            self._add(pos, Rank.SCHEMA, Op.TRUNCATE)
        elif what < 0.1:
            self._read_again(pos)
        elif what < 0.5 or not self._rows:
            self._rows.append(self._image())
            self._add(pos, Rank.EVENT, Op.INSERT, None, self._rows[-1])
        else:
            gone = self._rows.pop(self._rng.randrange(len(self._rows)))
            if what < 0.75:
                self._add(pos, Rank.EVENT, Op.DELETE, gone, None)
            else:
                self._rows.append(self._rng.choice([gone, self._image()]))
                self._add(pos, Rank.EVENT, Op.UPDATE, gone, self._rows[-1])

    def _read_again(self, pos: int) -> None:
        """All rows at one position, some of which came or went without a word; at times there are none."""
        self._rows = [self._image() for _ in range(self._rng.choice([0, 2, 5]))]
        for row in self._rows:
            self._add(pos, Rank.READ, Op.READ, None, row)
        self.changes.append(Change(seq(pos, Rank.END), Op.END, self._name, after=seq(pos, Rank.READ)))

    def _image(self) -> Row:
        return {name: self._rng.choice(values) for name, values in self._values.items()}

    def _add(self, pos: int, rank: Rank, op: Op, before: Row | None = None, after: Row | None = None) -> None:
        self.changes.append(Change(seq(pos, rank), op, self._name, None, before, after))


def wanted(changes: list[Change]) -> Counter[Any]:
    """The multiset that bronze comes to, by the model."""
    plain = [
        Change(c.seq, c.op, c.table, None, *(hashable(i) if isinstance(i, dict) else i for i in (c.before, c.after)))
        for c in changes
        if c.op is not Op.SCHEMA
    ]
    return remaining(plain)


def check_as_of(lake: Lake, name: str, at: int) -> None:
    """What is answered as of a seq is the multiset that bronze came to there."""
    there = Counter(hashable(image) for _, image in lake.rows_at(name, at))
    assert there == wanted([change for change in lake.written if change.seq <= at and change.table == name])


def inserted(pos: int, n: int, text: str = "") -> Change:
    row = {"n": n, "text": text, "bytes": None, "d": None, "at": None}
    return Change(seq(pos), Op.INSERT, LOG.name, None, None, row)
