"""The as-of read of a table without a primary key: all its rows, as a multiset, exactly as they were at W.

They are read in parts, each of which is a view of which it is known what it holds of the kinds of row that count there
(see `views_of_rows`). Each is rolled back by itself: every such read gives the multiset at W, whatever views it was
made of, and in however many ranges of values (see `mysql.value_range`) the table was read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_cdc.errors import codes
from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.model.multiset import rollback
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.key_range import select_list
from lakehouse_cdc.mysql.wire.select import select_images
from lakehouse_cdc.source.bronze_rows import Pair
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.reading.spool import Spool
from lakehouse_cdc.source.reading.views_of_rows import Part, parts_of
from lakehouse_cdc.source.splits import SnapshotSplit
from lakehouse_cdc.source.test_hooks import Step, reached

_EVENT_ROWS = 10_000  # rows in a piece that is made of the window's images


def read_whole(split: SnapshotSplit, session: Session, options: SourceOptions, server_id: int) -> Iterator[Pair] | None:
    """The rows at W, or None where DDL of the table is after W; `session` is to ask the server.

    Raises DefiniteError where view and log contradict each other, TransientError where no view can be proven.
    """

    def select(data: Session, rows: str, opened: Callable[[], None]) -> Spool:
        sql = f"SELECT {select_list(split.schema)} FROM {rows}"
        selected = Spool()
        programs = ProgramSet.of([split.schema], salt=options.mask_salt)
        for image in select_images(data.connection, sql, split.schema, programs=programs, opened=opened):
            selected.add((image.key.to_arrow(), image.after.to_arrow()))
        return selected

    parts = parts_of(split, session, options, server_id, select)
    reached(Step.AFTER_SELECT, split.schema.name)
    return None if parts is None else (pair for part in parts for pair in _rolled_back(split, part))


def _rolled_back(split: SnapshotSplit, part: Part[Spool]) -> Iterator[Pair]:
    """The rows at W that count in a part: those of the view, without what came after W, and with what went there."""
    counts = rollback(part.events)
    came = Counter({image: -n for image, n in counts.items() if n < 0})
    for pair in part.selected:
        yield _without(_counting(pair, part), came)
    if lacking := came.total():
        raise codes.INVARIANT_BROKEN.error(
            f"{lacking} rows that came after {split.stamp.position} are not among those that were read",
            where=split.schema.name,
            hint="this should be impossible; please report it with the checkpoint's last offset",
        )
    gone = [image for image, n in counts.items() for _ in range(n)]
    for at in range(0, len(gone), _EVENT_ROWS):
        images = gone[at : at + _EVENT_ROWS]
        keys = [part.keys[image] for image in images]
        yield pa.array(keys, pa.binary()), pa.array(images, pa.binary())


def _counting(pair: Pair, part: Part[Spool]) -> Pair:
    """The rows of the kinds that count, which are images."""
    if part.counts_all:
        return pair
    images = part.without if part.only is None else part.only
    key, after = pair
    named = pc.is_in(after, value_set=pa.array(list(images), pa.binary()))
    counts = pc.invert(named) if part.only is None else named
    return key.filter(counts), after.filter(counts)


def _without(pair: Pair, came: Counter[bytes]) -> Pair:
    """The rows without those of `came` that are among them, which are taken out of it."""
    if not came:
        return pair
    key, after = pair
    keep = []
    for image in after.filter(mine := pc.is_in(after, value_set=pa.array(list(came), pa.binary()))).to_pylist():
        keep.append(came[image] <= 0)
        came[image] -= not keep[-1]
    if not keep:
        return pair
    kept = pc.replace_with_mask(pc.invert(mine), mine, pa.array(keep, pa.bool_()))
    return key.filter(kept), after.filter(kept)
