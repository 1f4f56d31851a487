"""The core algorithm as a random model: as-of reads beside a log whose transactions become visible late.

    python -m lakehouse_cdc.spec.interleaving [--runs N] [--without GUARD]

Purpose: to find out which rules the algorithm cannot do without. The model has a source (a log of transactions, and a
SELECT that sees only the visible ones), a driver (W, the floor F and the cursor of each batch) and tasks (the as-of
reads of chunks, and the events of the log). While a task works, other transactions are committed and become visible.

Invariant, checked after each batch:

1. the fold of all emitted rows is the source's state at W, for the keys below the cursor;
2. a replay of the batch emits the same rows, whatever was committed in the meantime;
3. each key's rows are a valid changelog: the first is a read or an insert, and each `before` is the state before it.

`model.as_of_rule` says why it holds. Each guard here can be taken out, and then a run fails:
`tests/spec/test_interleaving.py`.

What the model leaves out: DDL, XA, gaps, repeated passes, tables without a key, more than one table. Failover and
quarantine are in `spec.failover`.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, get_args

Guard = Literal["floor", "rollback", "cursor"]
"""Rules that can be left out.

- `floor`: the window begins at a position whose transactions are all visible, not at W.
- `rollback`: a key whose first event in the window is after W gets that event's before image.
- `cursor`: an event is emitted only if its key was read by an earlier batch.
"""

KEYS = range(8)
BATCHES = 6

Key = int
Value = int  # a number that no two writes share
Write = tuple[Key, Value | None, Value | None]  # key, before, after; None: no row
Row = tuple[int, Literal["event", "read"], Key, Value | None, Value | None]  # position, kind, key, before, after


@dataclass
class Source:
    """A log of transactions. All of it can be read from the log, only the first `visible` ones by a SELECT."""

    random: random.Random
    log: list[list[Write]] = field(default_factory=list)
    visible: int = 0
    _rows: dict[Key, Value] = field(default_factory=dict)
    _writes: int = 0

    def commit(self) -> None:
        """Append a transaction of one to three inserts, updates, deletes or changes of a key."""
        transaction: list[Write] = []
        for _ in range(self.random.choice([1, 1, 2, 3])):
            transaction += self._write(self.random.choice(KEYS))
        if transaction:
            self.log.append(transaction)

    def _write(self, key: Key) -> list[Write]:
        before, action = self._rows.get(key), self.random.randrange(4)
        self._writes += 1
        if action == 0 and before is not None:
            del self._rows[key]
            return [(key, before, None)]
        if action == 1 and before is not None:
            other = self.random.choice(KEYS)
            if other in self._rows:
                return []
            del self._rows[key]
            self._rows[other] = self._writes
            return [(key, before, None), (other, None, self._writes)]
        self._rows[key] = self._writes
        return [(key, before, self._writes)]

    def pass_time(self) -> None:
        """Let up to three transactions be committed or become visible."""
        for _ in range(self.random.randrange(4)):
            if self.random.random() < 0.6:
                self.commit()
            elif self.visible < len(self.log):
                self.visible += 1

    def state(self, position: int) -> dict[Key, Value]:
        """The rows after the first `position` transactions."""
        rows: dict[Key, Value] = {}
        for _, key, _, after in self.events(0, position):
            if after is None:
                rows.pop(key, None)
            else:
                rows[key] = after
        return rows

    def events(self, start: int, end: int) -> Iterator[tuple[int, Key, Value | None, Value | None]]:
        """The writes of the transactions in (start, end], each with its position."""
        for at in range(start, end):
            for key, before, after in self.log[at]:
                yield at + 1, key, before, after


@dataclass(frozen=True)
class Batch:
    """What a batch emits is a function of this, and of the log."""

    start: int
    end: int  # W
    floor: int  # F
    cursor_before: Key
    cursor: Key


def as_of(source: Source, low: Key, high: Key, batch: Batch, without: Guard | None) -> dict[Key, Value]:
    """The rows of the keys in [low, high) as they were at W."""
    source.pass_time()
    rows = {key: value for key, value in source.state(source.visible).items() if low <= key < high}
    source.pass_time()
    high_watermark = len(source.log)
    forward: dict[Key, Value | None] = {}
    back: dict[Key, Value | None] = {}
    floor = batch.end if without == "floor" else batch.floor
    for position, key, before, after in source.events(floor, high_watermark):
        if low <= key < high:
            if position <= batch.end:
                forward[key] = after
            elif key not in forward and without != "rollback":
                back.setdefault(key, before)
    for key, value in {**back, **forward}.items():
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value
    return rows


def emitted(source: Source, batch: Batch, without: Guard | None) -> list[Row]:
    """What an execution of the batch emits. How its keys are cut into chunks is left to chance, as in a replay."""
    rows: list[Row] = []
    for position, key, before, after in source.events(batch.start, batch.end):
        if key < batch.cursor_before or without == "cursor":
            rows.append((position, "event", key, before, after))
    between = [source.random.randint(batch.cursor_before, batch.cursor) for _ in range(2)]
    for low, high in pairwise(sorted({batch.cursor_before, batch.cursor, *between})):
        chunk = as_of(source, low, high, batch, without)
        rows += [(batch.end, "read", key, None, value) for key, value in sorted(chunk.items())]
    return rows


def run(seed: int, without: Guard | None = None) -> str | None:
    """One random run of some batches. The first breach of the invariant in words, or None."""
    rng = random.Random(seed)
    source = Source(rng)
    for _ in range(rng.randrange(BATCHES)):
        source.commit()
    source.visible = len(source.log)
    position, cursor = len(source.log), 0
    state: dict[Key, Value] = {}
    for _ in range(BATCHES):
        source.pass_time()
        end = len(source.log)
        floor = min(rng.randint(0, source.visible), end)
        batch = Batch(position, end, floor, cursor, min(max(KEYS) + 1, cursor + rng.randrange(4)))
        rows = emitted(source, batch, without)
        if rows != emitted(source, batch, without):
            return f"seed {seed}: a replay of {batch} differs"
        for row in rows:
            if (breach := _apply(state, row)) is not None:
                return f"seed {seed}: {breach}"
        position, cursor = batch.end, batch.cursor
        expected = {key: value for key, value in source.state(position).items() if key < cursor}
        if state != expected:
            return f"seed {seed}: at {position} the fold is {state}, the source {expected}"
    return None


def _apply(state: dict[Key, Value], row: Row) -> str | None:
    _, kind, key, before, after = row
    if kind == "event" and state.get(key) != before:
        return f"key {key} has before {before}, but the state is {state.get(key)}"
    if kind == "read" and key in state:
        return f"key {key} is read twice"
    if after is None:
        state.pop(key, None)
    else:
        state[key] = after
    return None


def command_line(run: Callable[[int, Any], str | None], guards: Sequence[str], what: str) -> int:
    """The command line of a model; exit code 1 if a run fails."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--without", choices=guards, help="leave out a rule")
    arguments = parser.parse_args()
    for seed in range(arguments.runs):
        if (breach := run(seed, arguments.without)) is not None:
            sys.stdout.write(f"{breach}\n")
            return 1
    sys.stdout.write(f"{arguments.runs} runs, no breach\n")
    return 0


if __name__ == "__main__":
    sys.exit(command_line(run, get_args(Guard), "Random runs of the core algorithm."))
