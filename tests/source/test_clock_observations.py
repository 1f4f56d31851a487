"""Effective commit times, whatever clocks and sessions do: the properties of `model.clock`, and servers' own stamps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadMaxRows

from lakehouse_cdc.model.clock import SLACK, Bounds, Mark, Timeline, believable, effective
from lakehouse_cdc.model.commit_note import SourcePoint
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.source.settling.clock_observations import Sighting, Sightings
from tests.support.source.driver import Driver, image
from tests.support.source.stage import Stage

pytestmark = pytest.mark.every_server

SECOND = 1_000_000
NOON = 1_700_000_000 * SECOND
AHEAD, BEHIND = 2_051_222_400 * SECOND, 915_148_800 * SECOND  # 2035, 1999


@dataclass(frozen=True)
class Game:
    """What happened, in order: (what, number) each; see `games`."""

    acts: tuple[tuple[str, int], ...]

    def played(
        self, stamped: Callable[[int, int], int] = lambda _, stamp: stamp
    ) -> Iterator[tuple[list[Mark], list[int]]]:
        """The marks and the stamps of the transactions up to there, at each end of a batch.

        `stamped(i, stamp)` may give the i-th transaction another stamp.
        """
        now, step, tip, read = NOON, 0, 0, 0
        seen, bounds = Sightings(), Bounds()
        log: list[int] = []
        marks: list[Mark] = []
        for what, number in self.acts:
            now += SECOND // 10
            if what == "wait":
                now += number * SECOND
            elif what == "step":
                step += number * SECOND
            elif what == "commit":
                log.append(stamped(len(log), now + step - number))
            elif what == "set":
                log.append(stamped(len(log), number))
            elif what == "look":
                tip = len(log)
                seen.saw(Sighting(place(tip), now + step, now + step + 1))
            elif tip > read:  # a batch that ends at some place that was seen
                seen.forget(place(read))
                read += 1 + number % (tip - read)
                bounds = seen.bounds(bounds, place(read), log[read - 1])
                marks.append(Mark(read, bounds))
                yield list(marks), log[:read]


def place(n: int) -> Position:
    return Position("binlog.000001", n)


def games(*more: st.SearchStrategy[tuple[str, int]]) -> st.SearchStrategy[Game]:
    """Commits stamped up to 2 s before they are logged, looks at the tip, batches; and `more`."""
    acts = st.one_of(
        st.tuples(st.just("wait"), st.integers(0, 3600)),
        st.tuples(st.just("commit"), st.integers(0, 2 * SECOND)),
        st.tuples(st.just("look"), st.just(0)),
        st.tuples(st.just("batch"), st.integers(0, 50)),
        *more,
    )
    return st.lists(acts, max_size=40).map(lambda acts: Game((*BEGUN, *acts, *ENDED)))


BEGUN = ("commit", 0), ("look", 0), ("batch", 0)  # as the first offset of an epoch has bounds, too
ENDED = ("look", 0), ("batch", 50)
SET = st.tuples(
    st.just("set"),
    st.one_of(st.sampled_from([AHEAD, BEHIND]), st.integers(NOON - 3600 * SECOND, NOON + 90_000 * SECOND)),
)
STEP = st.tuples(st.just("step"), st.integers(-7200, 7200))


def times(marks: list[Mark], stamps: list[int]) -> list[int]:
    return effective(Timeline(marks), list(enumerate(stamps, 1)))


def answer(marks: list[Mark], stamps: list[int], asked: int) -> int | None:
    """How many transactions a time counts; None where it is not reached."""
    found = [i for i, e in enumerate(times(marks, stamps)) if e > asked]
    return found[0] if found else len(stamps) if asked < marks[-1].bounds.after else None


@given(games())
def test_sane_stamps_stand_as_they_are(game: Game) -> None:
    for marks, stamps in game.played():
        assert times(marks, stamps) == list(accumulate(stamps, max))


@given(games(SET, STEP))
def test_times_rise_with_the_log_within_the_bounds_of_their_batch(game: Game) -> None:
    for marks, stamps in game.played():
        found = times(marks, stamps)
        assert found == sorted(found)
        bounds = [Bounds(), *(mark.bounds for mark in marks)]
        assert [b.after for b in bounds] == sorted(b.after for b in bounds)
        assert [b.by for b in bounds] == sorted(b.by for b in bounds)
        k = 1
        for i, at in enumerate(found, 1):
            while marks[k - 1].seq < i:
                k += 1
            assert bounds[k - 1].after <= at <= bounds[k].by


@given(games(SET))
def test_a_stamp_that_no_clock_can_have_said_moves_no_other_time(game: Game) -> None:
    """As without it: it is replaced by none at all."""

    def without(_: int, stamp: int) -> int:
        return 0 if stamp in (AHEAD, BEHIND) else stamp

    for (marks, stamps), (others, fewer) in zip(game.played(), game.played(without), strict=True):
        assert marks == others
        assert times(marks, stamps) == times(others, fewer)


@given(games(SET, STEP), st.lists(st.integers(-3600, 100_000), min_size=5, max_size=5))
def test_an_answer_stays_and_a_later_time_counts_no_less(game: Game, asked: list[int]) -> None:
    moments = sorted(NOON + seconds * SECOND for seconds in asked)
    first: dict[int, int] = {}
    for marks, stamps in game.played():
        counted = [answer(marks, stamps, moment) for moment in moments]
        known = [n for n in counted if n is not None]
        assert known == sorted(known)
        assert None not in counted[: len(known)], "a later time was reached than one that was not"
        for moment, n in zip(moments, counted, strict=True):
            if moment in first:
                assert n == first[moment]
            elif n is not None:
                first[moment] = n


def test_what_an_earlier_release_wrote_is_bounded_by_what_came_later() -> None:
    timeline = Timeline([Mark(2, Bounds()), Mark(4, Bounds(NOON, NOON + SECOND))])
    assert effective(timeline, [(1, NOON - 9), (2, AHEAD), (3, NOON - 7), (5, NOON + 5)]) == [
        NOON - 9, NOON - 9, NOON - 7, NOON + 5,
    ]  # fmt: skip


def test_a_clock_that_is_days_ahead_is_not_believed() -> None:
    assert believable(NOON + 3600 * SECOND, NOON) == NOON + 3600 * SECOND
    assert believable(AHEAD, NOON) == NOON


# ---------------------------------------------------------------- each server's own stamps


def emitted(driver: Driver) -> list[tuple[int, int, int]]:
    """One batch: (id, seq, stamp) of each change in it."""
    assert driver.plan()
    rows = [row for batch in driver.read() for row in batch.to_pylist() if row["op"] in ("c", "u", "d")]
    assert driver.batch()
    return [
        (dict(image(row["key"]))["id"], int(row["seq"]), round(row["commit_ts"].timestamp() * SECOND)) for row in rows
    ]


def played(stage: Stage, *, backlog: bool) -> tuple[list[Mark], list[tuple[int, int, int]], list[tuple[int, int]]]:
    """Ten inserts, two of them stamped 2035 and 1999; and from when to when each ran, by this machine's clock."""
    stage.create(rows=0)
    driver = stage.driver(limit=ReadMaxRows(3))
    stage.snapshot(driver)
    stage.drain(driver)
    marks, rows, ran = [SourcePoint.of_offset(driver.offset).mark], [], []
    for n in range(10):
        said = {3: AHEAD, 6: BEHIND}.get(n)
        stage.run(f"SET timestamp = {'DEFAULT' if said is None else said // SECOND}")
        began = time.time_ns() // 1000
        stage.run(f"INSERT INTO t VALUES ({n}, 0)")
        ran.append((began, time.time_ns() // 1000))
        if not backlog or n == 9:
            while (driver.offset["file"], driver.offset["pos"]) != stage.position():
                rows += emitted(driver)
                marks.append(SourcePoint.of_offset(driver.offset).mark)
    stage.same(driver)
    return marks, rows, ran


@pytest.mark.parametrize("backlog", [False, True], ids=["live", "backlog"])
def test_a_sessions_clock_moves_no_time_on_any_server(any_stage: Stage, backlog: bool) -> None:
    marks, rows, ran = played(any_stage, backlog=backlog)
    assert [key for key, _, _ in rows] == list(range(10))
    stamps = [stamp for _, _, stamp in rows]
    immediate = any_stage.server.version in ("mysql-8.0", "mysql-9")
    assert (AHEAD in stamps, BEHIND in stamps) == (not immediate, not immediate), "which clock counts has changed"
    found = effective(Timeline(marks), [(seq, stamp) for _, seq, stamp in rows])
    assert found == sorted(found)
    for n, at in enumerate(found):
        if n not in (3, 6) or immediate:
            assert ran[n][0] - SECOND <= at <= ran[n][1], "not its own time, but for a whole second's precision"
        else:
            assert ran[n - 1][0] - SECOND <= at <= ran[n + 1][1], "it lies between its neighbours"


def test_a_new_epoch_goes_on_from_the_bounds_of_the_one_before(stage: Stage) -> None:
    stage.create(rows=3)
    driver = stage.driver(onGap="resnapshot")
    stage.snapshot(driver)
    stage.drain(driver)
    before = SourcePoint.of_offset(driver.offset)
    future = before.by + 3600 * SECOND
    driver.offset = {
        **driver.offset,
        "created": 1,
        "bounds": [future - SLACK, future],
    }  # as of a server whose clock ran ahead
    driver.restart()
    assert driver.batch()
    after = SourcePoint.of_offset(driver.offset)
    assert (after.epoch, after.after, after.by) == (before.epoch + 1, future - SLACK, future)


def test_an_offset_of_an_earlier_release_has_no_bounds(stage: Stage) -> None:
    stage.create(rows=3)
    driver = stage.driver()
    stage.snapshot(driver)
    del driver.offset["bounds"]
    assert SourcePoint.of_offset(driver.offset) == replace(SourcePoint.of_offset(driver.offset), after=0, by=0)
    driver.restart()
    stage.run("UPDATE t SET v = 1")
    stage.drain(driver)
    assert 0 < driver.offset["bounds"][0] <= driver.offset["bounds"][1]
    stage.same(driver)
