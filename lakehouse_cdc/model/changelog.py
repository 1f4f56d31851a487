"""The changelog and its meaning: a small fold from change events to rows.

This is the specification of silver. `fold` takes the change events of bronze in seq order and gives the rows that
there are after the last of them; MERGE, and any other engine, is tested against it. `invalid` is the invariant that
bronze keeps for each key: it begins with r or c, each `before` equals the state before it, and after a d only a c (or
another read) follows. t, x and repeated reads reset it, a d among these: a key that was looked for and not found,
which has no image. A table that is left off keeps its rows; they are no state of
what comes under its name. A key is compared by its stored bytes: under a
case-insensitive collation 'a' -> 'A' is a delete and an insert. A change of the schema migrates the rows that exist
(see `migration`); what it may have done to their values is not held against the images that follow.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from lakehouse_cdc.model.migration import Migration
from lakehouse_cdc.model.seq import Rank, unpack


class Op(str, Enum):
    """What a bronze row says; the value is what is in its `op` column."""

    READ = "r"
    INSERT = "c"
    UPDATE = "u"
    DELETE = "d"
    TRUNCATE = "t"
    SCHEMA = "s"
    END = "x"  # the end of a repeated snapshot


@dataclass(frozen=True)
class Change:
    """One row of bronze, reduced to what the fold needs. Images are None where bronze holds NULL.

    The images of an `s` are its schemas: `before` is None for a table's first, which changes no row; of one that is
    left off, `after` says so and holds none.
    """

    seq: int
    op: Op
    table: str
    key: Hashable = None
    before: Any = None
    after: Any = None

    @property
    def missed(self) -> bool:
        """Whether the key was looked for by itself, and the source has no row of it; when that went is not known."""
        return self.op is Op.DELETE and self.before is None and unpack(self.seq).rank == Rank.READ

    @property
    def leaves(self) -> bool:
        """Whether the table is left off here: dropped, or quarantined."""
        return self.op is Op.SCHEMA and self.before is not None and "columns" not in dict(self.after)

    @property
    def alters(self) -> bool:
        """Whether the table gets another schema."""
        return self.op is Op.SCHEMA and self.before is not None and not self.leaves


Rows = dict[tuple[str, Hashable], tuple[int, Any]]  # (table, key) -> (seq, after image)


def apply(state: Rows, change: Change) -> None:
    """Let one change event act on `state`, in place. Events come in seq order."""
    if change.op is Op.SCHEMA:
        if change.alters:
            _migrate(state, change)
    elif change.op is Op.TRUNCATE:
        for name in [n for n in state if n[0] == change.table]:
            del state[name]
    elif change.op is Op.END:  # carries the seq its pass began at: what was not seen since then is gone
        began = int(change.after)
        for name in [n for n, (seq, _) in state.items() if n[0] == change.table and seq < began]:
            del state[name]
    elif change.op is Op.DELETE:
        state.pop((change.table, change.key), None)
    else:
        state[(change.table, change.key)] = (change.seq, change.after)


def _migrate(state: Rows, change: Change) -> None:
    migration = Migration.of(change.before, change.after)
    mine = {name: state.pop(name) for name in [n for n in state if n[0] == change.table]}
    for (table, key), (seq, held) in mine.items():
        image = migration.image(held)
        state[(table, migration.row_key(key, image))] = (seq, image)


def fold(changes: Iterable[Change]) -> Rows:
    """The rows after all `changes`, whatever order they are given in: (table, key) -> (seq, image)."""
    state: Rows = {}
    for change in sorted(changes, key=lambda c: c.seq):
        apply(state, change)
    return state


def invalid(changes: Iterable[Change]) -> str | None:
    """The first breach of the changelog invariant, in words, or None if there is none."""
    state: Rows = {}
    seen: set[tuple[str, Hashable, int]] = set()
    doubts = _Doubts()
    for change in sorted(changes, key=lambda c: c.seq):
        name = (change.table, change.key)
        where = f"{change.table} key {change.key!r} seq {change.seq}"
        if change.op in (Op.READ, Op.INSERT, Op.UPDATE, Op.DELETE):
            if (*name, change.seq) in seen:
                return f"{where}: emitted twice"
            seen.add((*name, change.seq))
            seq, held = state.get(name, (0, None))
            if change.op in (Op.UPDATE, Op.DELETE) and not change.missed and doubts.differ(change, seq, held):
                return f"{where}: {change.op.value} has before {change.before!r}, but the state is {held!r}"
            if change.op is Op.INSERT and name in state and not doubts.rekeyed(change.table):
                return f"{where}: c, but the row is there: {held!r}"
        doubts.note(change)
        apply(state, change)
    return None


class _Doubts:
    """What the state does not know of rows that exist since before a change of their table's schema."""

    def __init__(self) -> None:
        self._columns: dict[str, list[tuple[int, frozenset[str]]]] = {}  # by the change's seq, under today's names
        self._rekeyed: dict[str, int] = {}  # the seq that a repeated read must have begun at to end it

    def note(self, change: Change) -> None:
        """A change of the schema makes doubts, the end of a read that began after it takes them away."""
        if change.leaves:
            self._rekeyed[change.table] = change.seq
        if change.alters:
            migration = Migration.of(change.before, change.after)
            older = [(seq, migration.renamed(names)) for seq, names in self._columns.get(change.table, [])]
            self._columns[change.table] = [*older, (change.seq, migration.added | migration.retyped)]
            if migration.rekeyed:
                self._rekeyed[change.table] = change.seq
        if change.op is Op.END and int(change.after) >= self._rekeyed.get(change.table, 0):
            self._rekeyed.pop(change.table, None)

    def rekeyed(self, table: str) -> bool:
        """True while rows of the table are not identified by their keys."""
        return table in self._rekeyed

    def differ(self, change: Change, seq: int, held: Any) -> bool:
        """True if `held`, of that seq, is surely not the image before the change."""
        if held == change.before or self.rekeyed(change.table):
            return False
        doubtful = {name for at, names in self._columns.get(change.table, []) if at > seq for name in names}
        if held is None or change.before is None or not doubtful:
            return True
        was, now = dict(held), dict(change.before)
        return {n: v for n, v in was.items() if n not in doubtful} != {
            n: v for n, v in now.items() if n not in doubtful
        }
