"""The meaning of SCD type 2: every version that a row has had, as a small fold over the changelog.

A version begins with a change that gives a key another state, and ends with the next one that does, or that takes the
row away; the row as it is now has a version without an end. Versions of a key never overlap, and between two there is
a gap where the row was gone. A change of columns that are not tracked, and one that changes nothing (a row read again
as it was), belong to the current version: it takes over their image, and remembers the seq.

Soft deletes are less than that: of each row what is current, or what was known of it last and since when it is gone.

What a repeated read finds is known from there on, not from when it happened: such a version, or end, has the seq of
the reading, whose rank says so.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lakehouse_cdc.model.changelog import Change, Op


@dataclass(frozen=True)
class Version:
    """A row from the change at `start` to that at `end` (None: still so); `image` is as of `seq`, the last it took."""

    start: int
    end: int | None
    seq: int
    image: Any


Name = tuple[str, Hashable]  # (table, key)
History = dict[Name, list[Version]]  # its versions in order


def _whole(image: Any) -> Any:
    return image


def histories(
    changes: Iterable[Change], tracked: Callable[[Any], Any] = _whole, before: History | None = None
) -> History:
    """Every version after all `changes`, whatever order they are given in.

    `tracked` gives the part of an image of which a change begins a version. Changes of a schema are passed over: no
    row changes by them. `before` are the versions that there were; of those that had ended none needs to be among them.
    """
    versions_of: History = {name: list(versions) for name, versions in (before or {}).items()}
    for change in sorted(changes, key=lambda c: c.seq):
        if change.op is Op.TRUNCATE:
            _end_older(versions_of, change, change.seq)
        elif change.op is Op.END:
            _end_older(versions_of, change, int(change.after))
        elif change.op is Op.DELETE:
            _end(versions_of.get((change.table, change.key), []), change.seq)
        elif change.op is not Op.SCHEMA:
            _take(versions_of.setdefault((change.table, change.key), []), change, tracked)
    return versions_of


@dataclass(frozen=True)
class Kept:
    """A row as its last change, at `seq`, left it, or a delete found it; gone since that at `gone`, or still there."""

    seq: int
    gone: int | None
    image: Any


def kept(changes: Iterable[Change], before: Mapping[Name, Kept] | None = None) -> dict[Name, Kept]:
    """What soft deletes keep of each (table, key) after all `changes`, whatever order they are given in.

    `before` is what they kept until then.
    """
    rows = dict(before or {})
    for change in sorted(changes, key=lambda c: c.seq):
        if change.op in (Op.TRUNCATE, Op.END):
            than = change.seq if change.op is Op.TRUNCATE else int(change.after)
            for name, row in rows.items():
                if name[0] == change.table and row.gone is None and row.seq < than:
                    rows[name] = replace(row, gone=change.seq)
        elif change.missed:
            last = rows.get((change.table, change.key))
            if last is not None and last.gone is None:
                rows[change.table, change.key] = Kept(change.seq, change.seq, last.image)
        elif change.op is Op.DELETE:
            rows[change.table, change.key] = Kept(change.seq, change.seq, change.before)
        elif change.op is not Op.SCHEMA:
            rows[change.table, change.key] = Kept(change.seq, None, change.after)
    return rows


def _take(versions: list[Version], change: Change, tracked: Callable[[Any], Any]) -> None:
    current = versions[-1] if versions and versions[-1].end is None else None
    if current is not None and tracked(current.image) == tracked(change.after):
        versions[-1] = replace(current, seq=change.seq, image=change.after)
        return
    _end(versions, change.seq)
    versions.append(Version(change.seq, None, change.seq, change.after))


def _end(versions: list[Version], seq: int) -> None:
    if versions and versions[-1].end is None:
        versions[-1] = replace(versions[-1], end=seq)


def _end_older(history: History, change: Change, than: int) -> None:
    for (table, _), versions in history.items():
        if table == change.table and versions[-1].seq < than:
            _end(versions, change.seq)
