"""Generated histories of a table whose schema changes: rows between the changes, and reads behind them where due.

The truth is kept beside the changes: what a change does to the values (a default, another type) is drawn at random,
since only a read of the table can tell silver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.migration import Migration
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.schema.table import TableSchema
from tests.support.silver.alterations import KINDS, ODD_NAMES, PLAIN_NAMES, POOLS, Alteration, made, moment

Key = tuple[Any, ...]


@dataclass
class Doubt:
    """What silver does not know from the change at `seq` on: columns, under the names of that change, or all rows."""

    seq: int
    columns: frozenset[str]
    rekeyed: bool


class AlteredHistory:
    """A valid changelog of one table, which ends when everything that had to be read again was."""

    def __init__(
        self,
        rng: Random,
        name: str,
        kinds: Sequence[Callable[[Random, Alteration], None]] = KINDS,
        pool: Sequence[str] = (),
        *,
        plain: bool = False,
    ) -> None:
        """`plain`: no name needs column mapping."""
        self._rng, self._pos, self._kinds = rng, 1, kinds
        self._names = PLAIN_NAMES if plain else ODD_NAMES
        keys = rng.choice([["id"], ["k1", "k2"], ["text"]] if plain else [["id"], ["k`1", "k2"], ["te.xt"]])
        types = {"te.xt": "text", "text": "text"}
        key = [replace(made(k, types.get(k, "int")), nullable=False) for k in keys]
        others = [made(n, k) for n, k in zip(("a", "b", "n"), [*pool] * 3 or rng.sample(sorted(POOLS), 3), strict=True)]
        hidden = replace(made("secret", "int"), captured=False)
        self.schema = TableSchema("shop", name, (others[0], *key, *others[1:], hidden), tuple(keys))
        self.first = self.schema
        self.truth: dict[Key, dict[str, Any]] = {}
        self.changes: list[Change] = []
        self.doubts: list[Doubt] = []
        self._to_read: list[Key] | None = None
        self._began = 0
        self._add(Op.SCHEMA, Rank.SCHEMA, after=self.schema)
        for _ in range(rng.randint(0, 6)):
            one = self._key()
            if one not in self.truth:
                self.truth[one] = self._image(one)
                self._add(Op.READ, Rank.READ, one, after=self.truth[one])

    def grow(self, moments: int) -> None:
        """Let things happen, and end with whatever read is due."""
        for _ in range(moments):
            self._pos += 1
            what = self._rng.random()
            if what < 0.22:
                self._alter()
            elif what < 0.24:
                self._add(Op.TRUNCATE, Rank.SCHEMA)
                self.truth.clear()
            elif self._to_read is not None and what < 0.5:
                self._read_on()
            else:
                self._change()
        while self._to_read is not None:
            self._pos += 1
            self._read_on()

    # ------------------------------------------------------------------ rows

    def _key(self) -> Key:
        """Small, so that keys come again."""
        pools = {"int": range(8), "bigint": range(8), "text": ("a", "A", "a ", "5", "ä"), "tinyint": range(8)}
        return tuple(self._rng.choice(pools[c.type]) for c in self.schema.key_columns)

    def _image(self, key: Key) -> dict[str, Any]:
        values = {c.name: self._rng.choice([None, *POOLS[c.type]]) for c in self.schema.captured}
        return {**values, **dict(zip(self.schema.key, key, strict=True))}

    def _change(self) -> None:
        key = self._rng.choice([self._key(), *self.truth])
        before = self.truth.get(key)
        if before is not None and self._rng.random() < 0.35:
            del self.truth[key]
            self._add(Op.DELETE, Rank.EVENT, key, before, None)
        else:
            self.truth[key] = self._image(key)
            self._add(Op.INSERT if before is None else Op.UPDATE, Rank.EVENT, key, before, self.truth[key])

    def _read_on(self) -> None:
        """Some more keys; then the end of the pass. What was written meanwhile has told of itself."""
        assert self._to_read is not None
        some, self._to_read = self._to_read[:3], self._to_read[3:]
        for key in some:
            if key in self.truth:
                self._add(Op.READ, Rank.READ, key, after=self.truth[key])
        if not self._to_read:
            self._add(Op.END, Rank.END, after=self._began)
            self._to_read = None

    def _read_again(self) -> None:
        self._pos += 1
        self._began = Seq(1, 1, self._pos, Rank.EVENT, 0).pack()
        self._to_read = self._rng.sample([*self.truth], len(self.truth))

    def _add(self, op: Op, rank: Rank, key: Any = None, before: Any = None, after: Any = None) -> None:
        self.changes.append(Change(Seq(1, 1, self._pos, rank, 0).pack(), op, self.schema.name, key, before, after))

    # ------------------------------------------------------------------ schemas

    def _alter(self) -> None:
        old = self.schema
        made_of = Alteration([(c, c.name) for c in old.columns], [*old.key], free_names=self._names)
        for _ in range(self._rng.choice([1, 1, 2, 3])):
            self._rng.choice(self._kinds)(self._rng, made_of)
        new = replace(old, columns=tuple(c for c, _ in made_of.columns), key=tuple(made_of.key))
        if new.id == old.id:
            return
        origin = {c.name: source for c, source in made_of.columns if source is not None}
        was = {c.name: c for c in old.columns}
        for column, source in made_of.columns:
            if source is not None and replace(was[source], name=column.name) == column and not made_of.rekeyed:
                made_of.values.pop(column.name, None)  # what becomes as it was keeps its values
                made_of.doubtful.discard(column.name)
        rows, new_types = {}, {c.name: c.type for c in new.columns}
        for n, held in enumerate(self.truth.values()):
            image = {c.name: held.get(source) if source else None for c, source in made_of.columns if c.captured}
            image |= {name: draw(n, image[name]) for name, draw in made_of.values.items() if name in image}
            image = {name: moment(value) if new_types[name] == "datetime" else value for name, value in image.items()}
            rows[tuple(image[name] for name in new.key)] = image
        assert len(rows) == len(self.truth)
        after = {**new.to_dict(), "statement": "ALTER TABLE ...", "origin": origin, "filled": made_of.filled()}
        self._add(Op.SCHEMA, Rank.SCHEMA, before=old.to_dict(), after=after)
        self.schema, self.truth = new, rows
        doubtful = frozenset(made_of.doubtful) & {c.name for c in new.captured}
        self.doubts.append(Doubt(self.changes[-1].seq, doubtful, made_of.rekeyed))
        if doubtful or made_of.rekeyed or self._to_read is not None:
            self._read_again()  # one that was under way begins anew


def uncertain(changes: list[Change], doubts: list[Doubt]) -> tuple[int, Callable[[int], set[str]]]:
    """The seq up to which rows cannot be told by their keys, and what columns are not known of a row of that seq."""
    by_seq, rekeyed = {d.seq: d for d in doubts}, 0
    found: list[tuple[int, frozenset[str]]] = []
    for change in sorted(changes, key=lambda c: c.seq):
        if change.op is Op.SCHEMA and change.before is not None:
            migration, doubt = Migration.of(change.before, change.after), by_seq[change.seq]
            found = [(seq, migration.renamed(names)) for seq, names in found]
            found.append((change.seq, doubt.columns))
            rekeyed = change.seq if doubt.rekeyed else rekeyed
        elif change.op is Op.END and int(change.after) >= rekeyed:
            rekeyed = 0
    return rekeyed, lambda seq: {name for at, names in found if at > seq for name in names}
