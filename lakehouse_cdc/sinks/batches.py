"""Which commits of bronze a micro-batch of a sink holds, as its checkpoint says."""

from __future__ import annotations

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.table_layout import Layout


def versions_of(checkpoint: Checkpoint, batch: int) -> Versions:
    """The commits of bronze that a micro-batch holds."""
    return Versions.between(checkpoint.offset(batch - 1) if batch else None, checkpoint.offset(batch))


def no_note(layout: Layout, version: int, checkpoint: Checkpoint | None) -> DefiniteError:
    """Why bronze up to a version has no position of the source: Delta's log no longer has its commits.

    A batch that ends there was planned, and would be repeated as it is; so the stream has to begin again.
    """
    begin_again = "" if checkpoint is None else f"move {checkpoint.location} away, and "
    return codes.BRONZE_POSITION_MISSING.error(
        f"no commit of bronze up to version {version} says where the source was",
        where=str(layout.changes),
        hint=f"{begin_again}run when a captured table has changed: the next commit says it",
    )
