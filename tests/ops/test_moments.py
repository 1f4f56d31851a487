"""Which seq a moment stands for, and which moments bronze cannot tell."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakehouse_cdc.errors import CdcError, ConfigError, DefiniteError, codes
from lakehouse_cdc.model.clock import Bounds, Mark, Timeline, effective
from lakehouse_cdc.model.commit_note import SourcePoint
from lakehouse_cdc.model.moment import Moment
from lakehouse_cdc.model.seq import Rank, Seq, last_seq_of_position
from lakehouse_cdc.ops.moment_resolution import seq_of
from tests.remedies import remedy

A, B = "6f0b0f2e-0000-4000-8000-000000000001", "6f0b0f2e-0000-4000-8000-000000000002"
BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)


def at(pos: int, ordinal: int = 1) -> int:
    return Seq(1, 7, pos, Rank.EVENT, ordinal).pack()


def bronze(spark: SparkSession, rows: list[tuple[int, str, int]]) -> DataFrame:
    """(position, GTID, seconds) of a row each; two rows of the first transaction."""
    data = [(Decimal(at(pos, n)), BEGIN + timedelta(seconds=seconds), (gtid,))
            for pos, gtid, seconds in rows for n in (1, 2)]  # fmt: skip
    return spark.createDataFrame(data, "seq DECIMAL(38,0), commit_ts TIMESTAMP, position STRUCT<gtid: STRING>")


# of B, 2 came before 5 to 7 of A; 4 and 8 of A changed no captured table
ROWS = [
    (100, f"{A}:2", 1),
    (200, f"{A}:3", 2),
    (250, f"{B}:2", 3),
    (300, f"{A}:5", 3),
    (400, f"{A}:7", 2),
    (500, f"{A}:9", 9),
]
NEWEST = SourcePoint(1, A, "binlog.000007", 600, f"{A}:1-10,{B}:1-2", round((BEGIN.timestamp() + 20) * 1e6))


@pytest.mark.long
@pytest.mark.parametrize(
    ("moment", "pos"),
    [
        (Moment(gtid=f"{A}:3"), 200),
        (Moment(gtid=f"{A}:6"), 300),  # nothing was captured between it and 5
        (Moment(gtid=f"{A}:8"), 400),
        (Moment(gtid=f"{A}:10"), 500),
        (Moment(gtid=f"{B}:2"), 250),
        (Moment(gtid=f"{A}:1-3"), 200),
        (Moment(gtid=f"{A}:1-5,{B}:1-2"), 300),
        (Moment(gtid=f"{A.upper()}:1-4, {B}:2"), 250),
        (Moment(position="binlog.000007:200"), 200),
        (Moment(position="binlog.000007:299"), 299),
        (Moment(timestamp="2026-01-01T00:00:00+00:00"), 99),
        (
            Moment(timestamp="2026-01-01T01:00:02+01:00"),
            249,
        ),  # 400 says an earlier time, but stands last_seq_of_position 250
        (Moment(timestamp=BEGIN + timedelta(seconds=3)), 499),
        (Moment(timestamp=BEGIN + timedelta(seconds=9)), 600),
    ],
)
def test_a_moment_is_behind_just_those_transactions(spark: SparkSession, moment: Moment, pos: int) -> None:
    seq = seq_of(moment, bronze(spark, ROWS), NEWEST)
    assert [p for p, _, _ in ROWS if at(p, 2) <= seq] == [p for p, _, _ in ROWS if p <= pos]
    assert [p for p, _, _ in ROWS if at(p, 1) <= seq] == [p for p, _, _ in ROWS if p <= pos], "half a transaction"
    if moment.position is not None:
        assert seq == last_seq_of_position(at(pos))


@pytest.mark.parametrize(
    ("moment", "error", "words"),
    [
        (Moment(gtid=f"{A}:4"), DefiniteError, "cannot tell"),  # before or last_seq_of_position 2 of B?
        (Moment(gtid=f"{A}:1-5"), DefiniteError, "no such state"),  # without 2 of B the source never had 5 of A
        (Moment(gtid=f"{A}:11"), DefiniteError, "has not reached"),
        (Moment(gtid=" "), ConfigError, "empty"),
        (Moment(gtid="A:5"), DefiniteError, "not a GTID set"),
        (Moment(position="binlog.000007:601"), DefiniteError, "has not reached"),
        (Moment(position="binlog.000008:4"), DefiniteError, "has not reached"),
        (Moment(position="other.000007:4"), DefiniteError, "different logs"),
        (Moment(position="600"), ConfigError, "no position"),
        (Moment(timestamp="2026-01-01T00:00:20+00:00"), DefiniteError, "has not reached"),
        (Moment(timestamp="2026-01-01T00:00:02"), ConfigError, "any zone"),
        (Moment(timestamp="noon"), ConfigError, "no time"),
    ],
)
def test_a_moment_that_is_none_is_refused(
    spark: SparkSession, moment: Moment, error: type[CdcError], words: str
) -> None:
    with pytest.raises(error, match=words):
        seq_of(moment, bronze(spark, ROWS), NEWEST)


@remedy(codes.GTID_SET_INVALID, codes.POSITIONS_INCOMPARABLE)
def test_a_moment_is_written_as_the_hint_says(spark: SparkSession) -> None:
    with pytest.raises(DefiniteError) as caught:
        seq_of(Moment(gtid="5"), bronze(spark, ROWS), NEWEST)
    assert caught.value.code is codes.GTID_SET_INVALID
    assert "uuid:first-last (MySQL) or domain-server-sequence (MariaDB)" in caught.value.hint
    assert seq_of(Moment(gtid=f"{A}:5-5,{A}:1-4,{B}:1-2"), bronze(spark, ROWS), NEWEST) >= at(300, 2)
    of_mariadb = replace(NEWEST, gtid="0-1-10")
    assert seq_of(Moment(gtid="0-1-5"), bronze(spark, [(300, "0-1-5", 3)]), of_mariadb) >= at(300, 2)
    with pytest.raises(DefiniteError) as caught:
        seq_of(Moment(position="other.000007:300"), bronze(spark, ROWS), NEWEST)
    assert caught.value.code is codes.POSITIONS_INCOMPARABLE
    assert "a position of the present log" in caught.value.hint
    assert seq_of(Moment(position="binlog.000007:300"), bronze(spark, ROWS), NEWEST) == last_seq_of_position(at(300))


MARKS = [  # (position, after, by) at the ends of batches, one of them of an earlier release
    (150, 0, 2), (250, 2, 4), (300, 0, 0), (420, 4, 7),
]  # fmt: skip
STAMPED = [(100, "", 1), (160, "", 2_000), (200, "", 3), (260, "", 5), (300, "", 900), (350, "", -10_000), (400, "", 6),
           (410, "", 8), (500, "", 12)]  # fmt: skip


def micros(seconds: float) -> int:
    return round((BEGIN.timestamp() + seconds) * 1e6)


def known_marks() -> list[Mark]:
    found = [(p, Bounds(micros(after), micros(by)) if by else Bounds()) for p, after, by in MARKS]
    return [Mark(last_seq_of_position(at(p)), bounds) for p, bounds in found]


@pytest.mark.parametrize("seconds", [0.5, 1, 2.5, 3, 4.5, 5, 6.5, 7.9, 11, 12])
def test_a_time_goes_by_effective_commit_times(spark: SparkSession, seconds: float) -> None:
    newest = SourcePoint(1, A, "binlog.000007", 600, commit_ts=micros(13), after=micros(13), by=micros(21))
    timeline = Timeline([*known_marks(), newest.mark])
    seq = seq_of(
        Moment(timestamp=BEGIN + timedelta(seconds=seconds)), bronze(spark, STAMPED), newest, lambda _: timeline
    )
    times = effective(timeline, [(at(p), micros(stamp)) for p, _, stamp in STAMPED])
    counted = [p for (p, _, _), time in zip(STAMPED, times, strict=True) if time <= micros(seconds)]
    assert [p for p, _, _ in STAMPED if at(p, 2) <= seq] == counted
    assert [p for p, _, _ in STAMPED if at(p, 1) <= seq] == counted, "half a transaction"


def test_a_time_is_reached_when_a_clock_said_so(spark: SparkSession) -> None:
    newest = SourcePoint(1, A, "binlog.000007", 600, commit_ts=micros(2_000), after=micros(13), by=micros(21))
    rows = bronze(spark, STAMPED)
    asked = Moment(timestamp=BEGIN + timedelta(seconds=12.5))
    assert seq_of(asked, rows, newest, lambda _: Timeline([newest.mark])) == newest.seq
    with pytest.raises(DefiniteError, match="has not reached"):
        seq_of(Moment(timestamp=BEGIN + timedelta(seconds=14)), rows, newest, lambda _: Timeline([newest.mark]))


def test_a_source_without_gtids_says_so(spark: SparkSession) -> None:
    newest = SourcePoint(1, A, "binlog.000007", 600)
    with pytest.raises(DefiniteError, match="writes no GTIDs"):
        seq_of(Moment(gtid=f"{A}:3"), bronze(spark, [(100, "", 1)]), newest)


def test_mariadbs_positions_are_moments(spark: SparkSession) -> None:
    rows = bronze(spark, [(100, "0-1-5", 1), (200, "0-1-6", 2), (300, "0-1-9", 3)])
    newest = SourcePoint(1, "1", "binlog.000007", 600, "0-1-12")
    for gtid, pos in (("0-1-5", 100), ("0-1-6", 200), ("0-1-8", 200), ("0-1-9", 300), ("0-1-12", 300)):
        assert seq_of(Moment(gtid=gtid), rows, newest) == last_seq_of_position(at(pos))


def test_one_moment_is_asked_for() -> None:
    for several in ({}, {"gtid": "x", "position": "y"}):
        with pytest.raises(ConfigError, match="one moment"):
            Moment(**several)
