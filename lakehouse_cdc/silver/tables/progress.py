"""How far silver is: what its checkpoint says, and the notes of bronze's commits."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.model.commit_note import SourcePoint
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.sinks.batches import no_note, versions_of

if TYPE_CHECKING:
    from lakehouse_cdc.lake.commit_log import Commit
    from lakehouse_cdc.lake.readers.port import TableReader


@dataclass(frozen=True)
class Applied:
    """Where silver is after its last complete batch: the source at `source_point`, bronze at `bronze_version`.

    `bronze_batch` is the batch of bronze's stream that ends there; its checkpoint holds the source's whole offset.
    """

    batch: int
    bronze_version: int
    bronze_batch: int
    source_point: SourcePoint


def require_applied(reader: TableReader, layout: Layout, checkpoint: str) -> Applied:
    """Where silver is. Raises DefiniteError before its first complete batch."""
    if (done := applied(reader, layout, checkpoint)) is None:
        raise codes.BRONZE_EMPTY.error("silver has not been written yet", where=str(layout.changes), hint="run first")
    return done


def applied(reader: TableReader, layout: Layout, checkpoint: str) -> Applied | None:
    """Where silver is, None before its first complete batch.

    Commits of bronze that hold no rows start no batch of silver; they move its position all the same.
    """
    place = Checkpoint(checkpoint)
    batch = place.last_commit()
    if batch is None:
        return None
    last = versions_of(place, batch).last
    later: list[Commit] = []
    for commit in reader.commits(layout.changes):
        if commit.version > last:
            later.insert(0, commit)
        elif commit.note is not None:
            break
    else:
        raise no_note(layout, last, place)
    note = commit.note
    for commit in takewhile(lambda c: c.note is None or c.rows == 0, later):
        last, note = commit.version, commit.note or note
    return Applied(batch, last, note.batch, note.source_point)
