"""Generated histories of a table: snapshot rows, inserts, updates, deletes, key re-inserts, truncations, re-reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any, TypedDict

from lakehouse_cdc.model.changelog import Change, Op, Rows, apply
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.schema.table import Column, TableSchema


class _Text(TypedDict):
    length: int
    charset: str
    collation: str


TEXT: _Text = {"length": 40, "charset": "utf8mb4", "collation": "utf8mb4_0900_ai_ci"}
KINDS = 7
_KEYS: list[tuple[list[Column], list[tuple[Any, ...]]]] = [
    ([Column("id", "int", False)], [(i,) for i in (-3, *range(20), 2_000_000_000)]),
    ([Column("big id", "bigint", False, unsigned=True)], [(Decimal(i),) for i in (0, 2**63 - 1, 2**63, 2**64 - 1)]),
    ([Column("ke.y", "varchar", False, **TEXT)], [(k,) for k in ("a", "A", "a ", "ä", "", "𝄞")]),
    ([Column("k`ey", "binary", False, length=2)], [(k,) for k in (b"\x00\x00", b"\x7f\x00", b"\x80\xff", b"\xff\xff")]),
    (
        [Column("order", "int", False), Column("line, no", "smallint", False)],
        [(i, j) for i in (1, 2, 3) for j in (1, 2, 3, 4)],
    ),
    (
        [Column("day", "date", False), Column("amount", "decimal", False, precision=10, scale=2)],
        [(date(2020, 1, d), Decimal(a)) for d in (1, 2) for a in ("1.10", "-1.10", "0.00")],
    ),
    ([Column("at", "datetime", False, fraction=6)], [(datetime(2020, 1, 1, 0, 0, s, 1),) for s in range(5)]),
]
# what a column may hold besides NULL: the ends of its range and something in between
_VALUES: list[tuple[Column, tuple[Any, ...]]] = [
    (Column("tiny", "tinyint"), (-128, 0, 127)),
    (Column("n", "bigint"), (-(2**63), 2**63 - 1, 5)),
    (Column("price", "decimal", precision=38, scale=6), tuple(map(Decimal, ("9" * 32 + ".999999", "-0.000001", "1")))),
    (Column("text", "text", **TEXT), ("", "null", "naïve 𝄞", "x" * 100)),
    (Column("ü. `x`", "blob"), (b"", b"\x00\xff")),
    (Column("d", "double"), (0.1, -1e308, 5e-324)),
    (Column("moment", "datetime"), (datetime(1000, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))),
]


def table_schema(name: str, kind: int) -> TableSchema:
    """One of a few tables with different keys; the name of the table differs from those of its kind."""
    keys = _KEYS[kind % len(_KEYS)][0]
    values = [column for column, _ in _VALUES]
    hidden = Column("secret", "varchar", captured=False, **TEXT)
    columns = (*values[:2], *reversed(keys), *values[2:], hidden)
    return TableSchema("shop", name, columns, tuple(k.name for k in keys))


class History:
    """A valid changelog of one table, in order, grown change by change; it begins with an s and some rows read."""

    def __init__(self, rng: Random, schema: TableSchema, keys: Sequence[Any]) -> None:
        self._rng, self._schema, self._keys = rng, schema, keys
        self._state: Rows = {}
        self.changes: list[Change] = []
        self._add(Op.SCHEMA, 1, Rank.SCHEMA, after=schema)
        for key in rng.sample(keys, rng.randint(0, len(keys))):
            self._add(Op.READ, 1, Rank.READ, key, after=self._image(key))

    def grow(self, pos: int) -> None:
        """Something happens at `pos`."""
        what = self._rng.random()
        if what < 0.03:
            self._add(Op.TRUNCATE, pos, Rank.SCHEMA)
        elif what < 0.06:
            self._read_again(pos)
        elif what < 0.12:
            self._look_for_some(pos)
        else:
            self._change(pos)

    def _change(self, pos: int) -> None:
        key = self._rng.choice(self._keys)
        before = self._held(key)
        if before is None:
            self._add(Op.INSERT, pos, Rank.EVENT, key, None, self._image(key))
        elif self._rng.random() < 0.4:
            self._add(Op.DELETE, pos, Rank.EVENT, key, before, None)
        else:
            self._add(Op.UPDATE, pos, Rank.EVENT, key, before, self._image(key))

    def _read_again(self, pos: int) -> None:
        """Each row that stands but one, which vanished without a word; then the end of the pass."""
        lost = self._rng.choice([None, *self._keys])
        for key in self._keys:
            if key != lost and self._held(key) is not None:
                self._add(Op.READ, pos, Rank.READ, key, after=self._held(key))
        self._add(Op.END, pos, Rank.END, after=Seq(1, 1, pos, Rank.EVENT, 0).pack())

    def _look_for_some(self, pos: int) -> None:
        """A few keys by themselves, there or not; one that vanished without a word is among them."""
        lost = self._rng.choice([None, *self._keys])
        for key in self._rng.sample(self._keys, self._rng.randint(1, 3)):
            found = None if key == lost else self._held(key)
            self._add(Op.DELETE if found is None else Op.READ, pos, Rank.READ, key, after=found)

    def _add(self, op: Op, pos: int, rank: Rank, key: Any = None, before: Any = None, after: Any = None) -> None:
        change = Change(Seq(1, 1, pos, rank, 0).pack(), op, self._schema.name, key, before, after)
        self.changes.append(change)
        apply(self._state, change)

    def _held(self, key: Any) -> Any:
        found = self._state.get((self._schema.name, key))
        return found[1] if found else None

    def _image(self, key: Any) -> dict[str, Any]:
        values = {column.name: self._rng.choice([None, *some]) for column, some in _VALUES}
        return {**values, **dict(zip(self._schema.key, key, strict=True))}


def generated(rng: Random, kind: int, length: int, database: str = "shop") -> tuple[TableSchema, list[Change]]:
    """A table with that kind of key, and `length` moments of its history."""
    schema = replace(table_schema(f"t{kind}", kind), database=database)
    grown = History(rng, schema, _KEYS[kind % len(_KEYS)][1])
    for pos in range(2, 2 + length):
        grown.grow(pos)
    return schema, grown.changes
