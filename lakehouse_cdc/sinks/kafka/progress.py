"""How far a sink has got, as its ledger says, and what of a batch is still to be sent. Pure.

The ledger names commits of bronze, and a number of rows, with the order in which these were counted. A batch of Spark's
is a range of commits, too, so the two are compared whatever checkpoint the batch comes from.

Invariant: the parts of a batch are exactly the rows of its commits that the ledger does not have, preceded by the rest
of a part that was begun. Guard: tests/sinks/kafka/test_progress.py.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from lakehouse_cdc.lake.versions import Versions


@dataclass(frozen=True)
class Progress:
    """Sent: of the table `bronze` (Delta's id) the first `rows` rows of the commits in (after, last], all if `done`.

    `by_files`: in which of the two orders that there are (see `bronze_rows`); earlier releases knew the other one.
    """

    bronze: str
    after: int | None
    last: int
    rows: int
    done: bool
    by_files: bool = False

    def to_json(self) -> bytes:
        """The value of a record of the ledger."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, value: bytes) -> Progress:
        """The inverse. Raises ValueError or TypeError for anything else."""
        return cls(**json.loads(value))


@dataclass(frozen=True)
class Part:
    """The rows of `versions` without the first `skip` of them, in the order that `by_files` says; None: in either."""

    versions: Versions
    skip: int = 0
    by_files: bool | None = None


def parts(progress: Progress | None, bronze: str, batch: Versions) -> list[Part]:
    """What is to be sent for a batch of the table `bronze`, in order."""
    if progress is None or progress.bronze != bronze:
        return [Part(batch)]
    begun = [] if progress.done else [Part(Versions(progress.after, progress.last), progress.rows, progress.by_files)]
    if progress.last >= batch.last:
        return begun
    after = progress.last if batch.after is None else max(progress.last, batch.after)
    return [*begun, Part(Versions(after, batch.last))]


def is_lost(progress: Progress | None, bronze: str, batch: Versions) -> bool:
    """Whether batches before this one were sent, and the ledger does not have them."""
    if batch.after is None:
        return False
    return progress is None or progress.bronze != bronze or progress.last < batch.after
