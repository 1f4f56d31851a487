"""How much of bronze a silver table holds: as the table itself says, and as the batches of this process add to it.

Three things are known, and none of them goes back: the last version of bronze of which the table holds everything, the
newest batch of which it may hold something, and the seq up to which it holds every change. What is applied to a table
that depends on the order (versions, copies) goes by the second, what is already counted by the third.
"""

from __future__ import annotations

from dataclasses import replace

from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.silver.tables.properties import Held


class Progress:
    """Of one silver table. `after` is a version of bronze, `through` a seq; None and 0 where nothing is known."""

    def __init__(self) -> None:
        self.after: int | None = None
        self.through = 0
        self._newest: CommitNote | None = None
        self.carried = False  # whether the statement of the newest commit carried its note (see `model.carried_note`)

    @property
    def begun(self) -> bool:
        """Whether a batch of bronze is known to have reached the table."""
        return self._newest is not None

    def begin(self, held: Held | None, after: int | None) -> int | None:
        """Take over what the table says, where a batch of what follows version `after` of bronze is to be applied.

        Returns the version up to which the table holds everything; None if it is to be built from the whole of bronze.
        """
        if held is None or held.building:
            after = None
        elif held.quarantine is not None:
            after = held.quarantine.after
        self.after = after
        self._newest, self.through = (held.last, held.through) if held is not None else (None, 0)
        self.carried = held is not None and held.carried
        return after

    def ended(self, version: int, note: CommitNote, seq: int = 0) -> None:
        """The table holds everything up to that version of bronze, and all up to `seq`, by the batch of that note."""
        self.after, self._newest, self.through = version, note, max(self.through, seq)

    def reached(self, seq: int) -> None:
        """The table holds all up to `seq`."""
        self.through = max(self.through, seq)

    def is_next(self, after: int | None, note: CommitNote, *, known: bool) -> bool:
        """Whether the batch is newer than all that the table holds, or is the one that it was given last.

        `known`: of the latter, who applies it knows which commits of it are in. It is not where a classic session takes
        over from a remote one in the middle of a batch, or the other way round.
        """
        if self._newest is None:
            return True
        same = (note.query, note.batch) == (self._newest.query, self._newest.batch)
        return (same and known) or (after is not None and after >= (self._newest.bronze_version or 0))

    def in_order(self, note: CommitNote) -> tuple[CommitNote, int]:
        """What a batch's commits say to a table that depends on the order, and the last version of bronze they cover.

        That is up to where the table holds bronze already, where it holds more than the batch: it never goes back.
        """
        last = note.bronze_version or 0
        if self._newest is None or last >= (newest := self._newest.bronze_version or 0):
            return note, last
        return replace(note, source_point=self._newest.source_point, bronze_version=newest), newest

    def holding(self, held: Held, note: CommitNote, seq: int = 0) -> CommitNote:
        """What a commit says after which the table holds all up to `seq`, or what it held before if that is more."""
        self.reached(seq)
        return self.noting(held, note, seq)

    def noting(self, held: Held, note: CommitNote, seq: int) -> CommitNote:
        """The same of a commit that is yet to be made, by somebody else."""
        frozen = None if held.frozen is None else held.frozen.text(held.schema_seq)
        return replace(note, through=max(self.through, seq), frozen=frozen)
