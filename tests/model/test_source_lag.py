"""The lag of a layer: of a busy source, and of one that rests."""

from __future__ import annotations

from lakehouse_cdc.model.commit_note import SourcePoint
from lakehouse_cdc.model.source_lag import Lag, lag

FILES = [("b.000001", 100), ("b.000002", 200)]
HOUR = 3600.0


def point(pos: int = 50, file: str = "b.000001", commit: float = 0, after: float = 0, by: float = 0) -> SourcePoint:
    micros = (int(1e6 * time) for time in (commit, after, by))
    return SourcePoint(1, "uuid", file, pos, "", *micros)


def test_bytes_are_counted_over_files() -> None:
    assert lag(point(), FILES, 10).bytes == 250
    assert lag(point(200, "b.000002"), FILES, 10) == Lag(0, 0.0, 0.0)
    assert lag(point(file="b.000000"), FILES, 10).bytes is None


def test_a_quiet_source_that_writes_again_is_not_hours_behind() -> None:
    quiet = point(commit=HOUR, after=HOUR, by=HOUR)
    assert lag(quiet, FILES, 10 * HOUR).seconds == 9 * HOUR
    assert lag(quiet, FILES, 10 * HOUR, caught_up_at=10 * HOUR - 5) == Lag(250, 5.0, 5.0)


def test_what_the_offset_knows_counts_without_a_note() -> None:
    """All after it was logged after that time."""
    assert lag(point(commit=HOUR, after=2 * HOUR, by=3 * HOUR), FILES, 3 * HOUR) == Lag(250, HOUR, HOUR)


def test_the_last_commit_counts_where_no_moment_is_known() -> None:
    assert lag(point(commit=HOUR), FILES, 2 * HOUR) == Lag(250, HOUR, None)
