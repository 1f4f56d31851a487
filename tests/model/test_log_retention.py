"""How long binlog is kept that is still needed: by age, by size, and by what servers call it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.model.log_retention import Headroom, Retention, growth, headroom

DAY = 86_400
FILES = [("b.000001", 100), ("b.000002", 200), ("b.000003", 50)]
RDS = "binlog retention hours"


@pytest.mark.parametrize(
    ("settings", "rds", "seconds", "size"),
    [
        ({}, None, None, None),
        ({"binlog_expire_logs_seconds": "0", "expire_logs_days": "0"}, None, None, None),
        ({"binlog_expire_logs_seconds": "2592000", "expire_logs_days": "0"}, None, 2_592_000, None),
        ({"binlog_expire_logs_seconds": "60", "expire_logs_days": "3"}, None, 60, None),
        ({"expire_logs_days": "0.5"}, None, DAY / 2, None),  # MariaDB
        ({"binlog_expire_logs_seconds": "60", "binlog_expire_logs_auto_purge": "OFF"}, None, None, None),
        ({"max_binlog_total_size": "0"}, None, None, None),
        ({"max_binlog_total_size": "1000", "expire_logs_days": "1"}, None, DAY, 1000),
        ({"binlog_space_limit": "1000"}, None, None, 1000),  # Percona Server
        ({"binlog_expire_logs_seconds": "2592000"}, {RDS: "24"}, DAY, None),
        ({"binlog_expire_logs_seconds": "2592000"}, {RDS: None}, 0, None),
        ({"binlog_expire_logs_seconds": "60"}, {"source delay": "0"}, 60, None),
    ],
)
def test_what_a_server_keeps(
    settings: dict[str, str], rds: dict[str, str | None] | None, seconds: float | None, size: int | None
) -> None:
    kept = Retention.of(settings, rds)
    assert (kept.seconds, kept.bytes) == (seconds, size)
    assert bool(kept.by_age) == (seconds is not None)
    assert bool(kept.by_size) == (size is not None)


def test_by_age_a_file_counts_from_its_last_write() -> None:
    kept = Retention(seconds=100, by_age="age")
    assert headroom(kept, FILES, "b.000001", ended_ago=60, growth=None) == Headroom(40, "age")
    assert headroom(kept, FILES, "b.000001", ended_ago=75, growth=None) == Headroom(25, "age", scarce=True)
    assert headroom(kept, FILES, "b.000001", ended_ago=500, growth=None) == Headroom(0, "age", scarce=True)
    assert headroom(kept, FILES, "b.000003", ended_ago=None, growth=None) == Headroom(100, "age")


def test_by_size_a_file_counts_with_those_after_it() -> None:
    kept = Retention(bytes=1000, by_size="size")
    assert headroom(kept, FILES, "b.000002", ended_ago=9, growth=10) == Headroom(75, "size")
    assert headroom(kept, FILES, "b.000003", ended_ago=None, growth=None) == Headroom(None)
    assert headroom(Retention(bytes=250), FILES, "b.000002", ended_ago=9, growth=10).scarce
    assert headroom(Retention(bytes=250, by_size="s"), FILES, "b.000001", ended_ago=9, growth=None).seconds == 0


def test_what_is_purged_is_said() -> None:
    gone = headroom(Retention(), FILES, "b.000000", ended_ago=None, growth=None)
    assert gone.scarce
    assert gone.sentence == "the server has purged binlog that is still needed"


@given(
    st.none() | st.floats(0, 1e7), st.none() | st.integers(1, 1000), st.sampled_from([name for name, _ in FILES]),
    st.none() | st.floats(0, 1e7), st.none() | st.floats(0.001, 1e6),
)  # fmt: skip
def test_a_longer_limit_never_leaves_less(
    seconds: float | None, size: int | None, needed: str, ended_ago: float | None, rate: float | None
) -> None:
    def left(kept: Retention) -> float:
        answer = headroom(kept, FILES, needed, ended_ago=ended_ago, growth=rate)
        assert answer.sentence
        return float("inf") if answer.seconds is None else answer.seconds

    least = left(Retention(seconds, size, "age", "size"))
    assert least >= 0
    assert left(Retention(None if seconds is None else seconds + 10, size, "age", "size")) >= least
    assert left(Retention(seconds, None if size is None else size + 10, "age", "size")) >= least
    assert left(Retention(None, None)) == float("inf")


def test_growth() -> None:
    assert growth(FILES, "b.000002", 50) == 5
    assert growth(FILES, "b.000002", 0.5) is None
    assert growth(FILES, "b.000009", 50) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3 * DAY, "3.0 days"), (36 * 3600, "36.0 hours"), (90 * 60, "90.0 minutes"), (60, "60 seconds")],
)
def test_sentences(seconds: float, text: str) -> None:
    assert f"for {text} at least (age)" in Headroom(seconds, "age").sentence
