"""The changelog and its meaning: a small fold from change events to rows.

This is the specification of silver. `fold` takes the change events of bronze in seq order and gives the rows that
stand after the last of them; MERGE, and any other engine, is tested against it. `invalid` is the invariant that
bronze keeps for each key: it begins with r or c, each `before` equals the state before it, and after a d only a c (or
another read) follows. t, x and repeated reads reset it. A key is compared by its stored bytes: under a
case-insensitive collation 'a' -> 'A' is a delete and an insert.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Op(str, Enum):
    """What a bronze row says; the value is what stands in its `op` column."""

    READ = "r"
    INSERT = "c"
    UPDATE = "u"
    DELETE = "d"
    TRUNCATE = "t"
    SCHEMA = "s"
    END = "x"  # the end of a repeated snapshot


@dataclass(frozen=True)
class Change:
    """One row of bronze, reduced to what the fold needs. Images are None where bronze holds NULL."""

    seq: int
    op: Op
    table: str
    key: Hashable = None
    before: Any = None
    after: Any = None


Rows = dict[tuple[str, Hashable], tuple[int, Any]]  # (table, key) -> (seq, after image)


def apply(state: Rows, change: Change) -> None:
    """Let one change event act on `state`, in place. Events come in seq order."""
    if change.op is Op.SCHEMA:
        return
    if change.op is Op.TRUNCATE:
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
    for change in sorted(changes, key=lambda c: c.seq):
        name = (change.table, change.key)
        where = f"{change.table} key {change.key!r} seq {change.seq}"
        if change.op in (Op.READ, Op.INSERT, Op.UPDATE, Op.DELETE):
            if (*name, change.seq) in seen:
                return f"{where}: emitted twice"
            seen.add((*name, change.seq))
            held = state[name][1] if name in state else None
            if change.op in (Op.UPDATE, Op.DELETE) and held != change.before:
                return f"{where}: {change.op.value} has before {change.before!r}, but the state is {held!r}"
            if change.op is Op.INSERT and name in state:
                return f"{where}: c, but the row is there: {held!r}"
        apply(state, change)
    return None
