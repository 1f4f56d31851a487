"""Tables without a key: their rows are a multiset, and so is what is rolled back.

The as-of rule (see `model.as_of_rule`) looks at what the log says of a *key*, and needs not know what the SELECT
happened to see. Without a key nothing says which of the rows that are alike an event concerns, so here the SELECT has
to be one of which that is known: for each transaction that touches rows of one image, whether the view holds it (see
`source.settling.consistent_view`, which proves that before the SELECT).

A transaction turns the multiset M of a table's rows into M - before images + after images, as sums of signed counts:
no event says more than that one row of these bytes went and one of those came. So the rows at W are the rows of a view
minus every after image and plus every before image of what it holds of the log after W, and plus and minus those of
what it lacks of the log up to W. Sums do not depend on the order, nor on whether a count is below zero on the way; but
the result is a multiset of rows that existed, so a count below zero in it proves that the view, the log and the schema
do not belong together. Each image has a sum of its own, so each may be that of another view.

Excluded columns do not matter: leaving columns out maps each row to a row, and so each multiset to one, and sums to
sums. Two rows that differ in these columns alone become two alike, and an update of these alone is -1 and +1 of one.

Bronze of such a table folds likewise: r, c and an update's `after` count +1, d and an update's `before` -1. What begins
again: all r of one seq are *all* rows at that position, so older rows count no more; so they do after t, and after
x, which carries the seq of the read that it ends (a read of an empty table has no r).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any, TypeVar

from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.migration import Migration

Image = TypeVar("Image", bound=Hashable)


def rollback(events: Iterable[tuple[Image | None, Image | None]]) -> Counter[Image]:
    """What has to be added to the rows after `events` (before, after; None: no row) to have those in front of them.

    Images that cancel out are not in it.
    """
    counts: Counter[Image] = Counter()
    for before, after in events:
        if before is not None:
            counts[before] += 1
        if after is not None:
            counts[after] -= 1
    return Counter({image: n for image, n in counts.items() if n})


def remaining(changes: Iterable[Change]) -> Counter[Any]:
    """The rows of one table without a key after all `changes` of it, in any order: image -> how many.

    A count below zero is a breach of the invariant of bronze.
    """
    counts: Counter[Any] = Counter()
    read = 0  # the seq of the last read that began again
    ordered = sorted(changes, key=lambda c: c.seq)
    for change in ordered:
        if change.op is Op.TRUNCATE:
            counts.clear()
        elif change.op is Op.END:
            if int(change.after) != read:  # of an empty table
                counts = remaining(c for c in ordered if int(change.after) <= c.seq < change.seq)
        elif change.op is Op.SCHEMA:
            if change.alters:
                counts = _migrated(counts, Migration.of(change.before, change.after))
        else:
            if change.op is Op.READ and change.seq != read:
                counts.clear()
                read = change.seq
            _count(counts, change)
    return Counter({image: n for image, n in counts.items() if n})


def _count(counts: Counter[Any], change: Change) -> None:
    if change.before is not None:
        counts[change.before] -= 1
    if change.after is not None:
        counts[change.after] += 1


def _migrated(counts: Counter[Any], migration: Migration) -> Counter[Any]:
    migrated: Counter[Any] = Counter()
    for image, n in counts.items():
        migrated[migration.image(image)] += n
    return migrated
