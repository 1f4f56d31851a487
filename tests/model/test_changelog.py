"""The fold over a repeated read, and that bronze of one is a valid changelog."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.model.changelog import Change, Op, fold, invalid
from lakehouse_cdc.model.seq import Rank, Seq

TABLE, KEYS = "shop.t", range(6)


class Table:
    """A table of which some changes are logged and others are not, and what is emitted of it."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.rows, self.emitted, self.pos = rng, dict[int, int](), list[Change](), 10

    def seq(self, rank: Rank) -> int:
        return Seq(1, 1, self.pos, rank, 0).pack()

    def change(self, *, logged: bool) -> None:
        """Insert, update or delete a row at the next position."""
        self.pos += 1
        key, after = self.rng.choice(KEYS), self.rng.choice([None, self.pos])
        before = self.rows.pop(key, None)
        if after is not None:
            self.rows[key] = after
        if logged and (before, after) != (None, None):
            op = Op.INSERT if before is None else Op.DELETE if after is None else Op.UPDATE
            self.emitted.append(Change(self.seq(Rank.EVENT), op, TABLE, key, before, after))

    def read(self) -> None:
        """A repeated read, a key at a time, while changes of all keys are logged."""
        since = self.seq(Rank.READ)
        for key in KEYS:
            if key in self.rows:
                self.emitted.append(Change(self.seq(Rank.READ), Op.READ, TABLE, key, None, self.rows[key]))
            for _ in range(self.rng.randrange(3)):
                self.change(logged=True)
        self.pos += 1
        self.emitted.append(Change(self.seq(Rank.END), Op.END, TABLE, after=since))


@given(st.randoms(use_true_random=False))
def test_a_repeated_read_makes_up_for_what_was_not_logged(rng: random.Random) -> None:
    table = Table(rng)
    for _ in range(rng.randrange(12)):
        table.change(logged=True)
    assert invalid(table.emitted) is None
    for _ in range(rng.randrange(12)):
        table.change(logged=False)
    table.pos += 1
    table.read()
    for _ in range(rng.randrange(6)):
        table.change(logged=True)
    shuffled = rng.sample(table.emitted, len(table.emitted))
    assert {key: image for (_, key), (_, image) in fold(shuffled).items()} == table.rows
