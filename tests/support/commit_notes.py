"""The note of a commit, as tests of this folder write it."""

from __future__ import annotations

from lakehouse_cdc.model.commit_note import CommitNote, SourcePoint


def note(batch: int) -> CommitNote:
    """That of a batch of one query."""
    return CommitNote("tests", "a-query", batch, SourcePoint(1, "u", "binlog.000001", batch))
