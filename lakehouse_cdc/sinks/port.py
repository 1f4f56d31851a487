"""The port through which committed batches of bronze go onward.

Purpose: bronze is written once and exactly; whatever is made from it (silver's tables, a topic, a count) is a sink, and
is independent of the source and of the other sinks. Each has a stream and a checkpoint of its own.

Invariant: a sink that keeps the contract of `Sink` has, after batch n, the effect of every row of bronze up to the end
of that batch exactly once, whatever crashed in between.

Why it holds: bronze is append-only and a batch is a range of its commits, which the checkpoint has before the sink sees
it. So a repeated batch has the same rows, and the sink knows it by `CommittedBatch.identity`.

Guards: `tests/sinks/test_contract.py` runs the same tests over every sink.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from pyspark.sql import DataFrame, SparkSession

from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Layout

Result = TypeVar("Result", covariant=True)


@dataclass(frozen=True)
class CommittedBatch:
    """A range of bronze's commits. `note` says which batch of which stream it is, and where the source was at its end.

    `sources` are the notes of the commits in the range, newest first; at least that of the last one before it.
    """

    versions: Versions
    note: CommitNote
    sources: tuple[CommitNote, ...]

    @property
    def identity(self) -> tuple[str, int]:
        """The same for a batch that is repeated, and for no other one: the stream's id and the batch's number."""
        return self.note.query, self.note.batch

    def rows(self, session: SparkSession, layout: Layout) -> DataFrame:
        """Its rows, in the columns of `model.bronze_row`, in no order: sort by `seq`."""
        return self.versions.rows(session, layout.changes)


class Sink(Protocol[Result]):
    """Takes committed batches of bronze. The stream calls it; it starts nothing by itself.

    The stream keeps these promises:

    1. Batches come one at a time, in the order of bronze's commits, without a gap: each begins after the last commit of
       the one before. A batch holds whole commits, so a transaction of the source is never split.
    2. A batch is repeated until `apply` has returned once. A repeated batch has the same `identity` and the same rows.
    3. All changes of one key are in the order of `seq`. A snapshot's `r` rows are changes like all others; `s`, `t` and
       `x` rows say what `model.bronze_row` says.

    A sink keeps these:

    4. When `apply` returns, the batch's effect is durable.
    5. A batch that is repeated has no further effect: neither after `apply` has returned, nor after it failed midway.
    6. A batch without rows is accepted.
    7. Nothing is written to bronze or to another sink's tables.
    8. An exception stops the stream: TransientError where a repetition may succeed, else DefiniteError.
    """

    def apply(self, batch: CommittedBatch) -> Result:
        """Take the batch; what is returned is passed to the stream's `on_batch`."""
