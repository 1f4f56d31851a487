"""The port to the place of a pipeline's small files, which is a folder or a prefix of a bucket.

Purpose: what offsets name, what a person asks for and what runs note is written once, and is where the checkpoints are,
on one machine or on none.

What is kept, below `<checkpoints>/<pipeline>`, and what each needs of the place:

| files | written by | read by | needs |
|---|---|---|---|
| `<stream>/metadata`, `offsets/N`, `commits/N` | Spark (`java_store`) or driver | Spark, driver | created once |
| the same: the plan of a batch is removed | driver, no stream running | | deletion |
| `schemas/*`, named by their content (`source.state.state_store`) | planner, driver | planner, driver | whole |
| `schemas/gap-*`, `held-*`, `epoch-*`, `settings-*` (the same) | planner, driver | planner, driver | whole, names |
| `schemas/tables.json`, `begin.json` (`source.state.stream_start`) | driver | driver, planner | replaced as a whole |
| `schemas/offered.json` (`source.spark.legacy_reader`) | planner, driver | planner, driver | replaced as a whole |
| `schemas/signals/*` (`source.requests`) | commands, planner, driver | the same | replaced, names, deletion |
| `last_error.json`, `verified.jsonl`, `caught_up.json` (`ops`) | driver | commands, driver | replaced as a whole |
| `silver_settings`, `silver_comments` (`pipeline.start`) | driver | driver | replaced as a whole |
| `writing`: a lock in a folder; `writing.lease`: a lease in a bucket (`pipeline.run`) | driver | driver | see there |

Tasks read and write none of them. Spark's own log is of a machine, and stays there (see `pipeline.context`).

Invariant: who reads a file gets the whole of what one writer wrote, the last one that has ended, or nothing.

Why that is enough, without a file that is appended to: what offsets name is named by its
content, so to write it again, by whomever, changes nothing. All else is replaced by the one process that may write to
the pipeline's tables; of signals the last word counts, and what is taken up is decided by the offset that names it (see
`source.requests.requests`). What has to be created once, by one of several, are the files of Spark's own checkpoint:
these are Spark's to write, or, where no query of Spark's runs, are created by links, or put on a condition.

Guards: tests/lake/files/test_contract.py asks both the same.
"""

from __future__ import annotations

from typing import Protocol

from lakehouse_cdc.errors import CdcError

FAILURES = (OSError, CdcError)
"""What a place raises where it cannot be read or written: the system's error, or, of a bucket, one of ours."""


class Files(Protocol):
    """Files of text in UTF-8, by their names, which may have slashes.

    A place that is not there yet has no files. Raises one of `FAILURES` where the place cannot be used.
    """

    @property
    def where(self) -> str:
        """The folder's path, or the URL, as people and Spark are given it."""

    @property
    def pause(self) -> float:
        """Seconds between two looks of who waits for a file; 0 where a look costs nothing."""

    def read(self, name: str) -> str | None:
        """All of a file; None where there is none."""

    def write(self, name: str, text: str) -> None:
        """Write a file, durably: who reads gets all of it, or what was there before. A failure leaves nothing."""

    def create(self, name: str, text: str) -> bool:
        """The same of a file that is not there; False where there is one, which stays as it is."""

    def delete(self, name: str) -> None:
        """Delete a file; one that is gone is fine."""

    def exists(self, name: str) -> bool:
        """Whether the file is there."""

    def written_at(self, name: str) -> float:
        """When a file that is there was written, in seconds since 1970 by the clock of the place."""

    def names(self, prefix: str = "") -> list[str]:
        """Of the files right in this place that begin so, in order; not of those that names with slashes are of."""

    def glancing(self) -> Files:
        """The same place for who looks again and again.

        Its names may be those of `pause` seconds ago, if this process has changed nothing there since.
        """

    def within(self, name: str) -> Files:
        """The place of that name in this one."""

    @property
    def is_there(self) -> bool:
        """Whether there is such a folder, or any file below it."""

    def size(self, name: str) -> int | None:
        """Bytes of all files in the place of that name in this one; None where there is no such place."""

    def throw_away(self, name: str) -> None:
        """Delete the place of that name in this one.

        A crash at any moment leaves all of it, or what `empty_trash` deletes and nobody has looked at before that.
        """

    def empty_trash(self) -> None:
        """Delete to the end what `throw_away` has begun to delete here."""

    def refusal(self) -> str:
        """Why nothing can be written here; "" where it can be."""
