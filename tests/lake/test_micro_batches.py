"""The loop that drives a stream in this process: crashes at every step, and the checkpoint that Spark continues."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import CdcError, DefiniteError, codes
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.failpoints import Door, Moment
from lakehouse_cdc.lake.micro_batches import MicroBatches, Offset, active
from lakehouse_cdc.sinks.port import CommittedBatch
from lakehouse_cdc.sinks.stream import start
from tests.support.bronze_writer import Lake
from tests.support.crash_points import Crash, failing_at, failing_at_random
from tests.support.silver.changes import begin, insert, table
from tests.support.waiting import until

ONE = table("one")


class Numbers:
    """A source of the numbers below `end`, of which a batch has some; offsets are how many there were before."""

    def __init__(self, end: int, steps: Callable[[], int] = lambda: 3) -> None:
        self.end, self._steps = end, steps
        self.closed = False
        self._until: int | None = None

    def until_now(self) -> None:
        self._until = self.end

    def latest(self, start: Offset) -> Mapping[str, Any] | None:
        begin, end = start.get("n", 0), self.end if self._until is None else self._until
        return None if begin >= end else {"n": min(end, begin + self._steps())}

    def close(self) -> None:
        self.closed = True


class Effects:
    """What batches came to, each once by its number; and all that was applied, again and again."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.done: set[int] = set()
        self.seen: dict[int, tuple[Any, Any]] = {}

    def apply(self, batch: int, begin: Offset, end: Offset) -> None:
        met = (begin.get("n", 0), end["n"])
        assert self.seen.setdefault(batch, met) == met, "a repeated batch has the same start and end"
        if batch not in self.done:
            self.done.add(batch)
            self.numbers += range(*met)


def ended(stream: MicroBatches) -> MicroBatches:
    stream.awaitTermination(60)
    assert not stream.isActive
    return stream


def taken(folder: Path, source: Numbers, effects: Effects) -> MicroBatches:
    return ended(MicroBatches(str(folder), source, effects.apply, name="numbers", every_seconds=None).start())


def test_what_is_there_is_taken_once_and_the_stream_ends(tmp_path: Path) -> None:
    effects, source = Effects(), Numbers(8)
    stream = taken(tmp_path, source, effects)
    assert (stream.exception(), source.closed, stream.lastProgress) == (None, True, {"name": "numbers", "batchId": 2})
    assert (effects.numbers, effects.seen) == ([*range(8)], {0: (0, 3), 1: (3, 6), 2: (6, 8)})
    place = Checkpoint(str(tmp_path))
    query = place.query_id()
    assert (place.last_offset(), place.last_commit(), place.offset(2)) == (2, 2, {"n": 8})
    again = taken(tmp_path, Numbers(8), effects)
    assert (again.exception(), place.last_offset(), place.query_id()) == (None, 2, query)
    assert again.lastProgress is not None  # it has looked
    taken(tmp_path, Numbers(9), effects)
    assert effects.numbers == [*range(9)]


def test_crashes_at_every_step_repeat_the_batch_that_was_planned(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for n in range(20):
        folder, effects, crashes = tmp_path / str(n), Effects(), 0
        for end in sorted(rng.randint(0, 30) for _ in range(4)):
            probability = 0.25
            while True:
                source = Numbers(end + rng.randint(0, 2) * crashes, lambda: rng.randint(1, 4))
                with failing_at_random(rng, probability):
                    failure = taken(folder, source, effects).exception()
                assert effects.numbers == [*range(len(effects.numbers))]
                if failure is None:
                    break
                assert isinstance(failure, Crash)
                crashes, probability = crashes + 1, probability / 1.2
            assert len(effects.numbers) >= source.end


@pytest.mark.parametrize(("moment", "planned"), [(Moment.BEFORE, None), (Moment.AFTER, 1)])
def test_a_crash_as_a_batch_is_planned(tmp_path: Path, moment: Moment, planned: int | None) -> None:
    effects = Effects()
    with failing_at(Door.FILE, moment, "1"):  # offsets/1, which comes before commits/1
        assert taken(tmp_path, Numbers(6), effects).exception() is not None
    assert (effects.numbers, Checkpoint(str(tmp_path)).planned) == ([0, 1, 2], planned)
    assert taken(tmp_path, Numbers(20, lambda: 5), effects).exception() is None
    assert effects.seen[1] == ((3, 6) if planned else (3, 8))  # by then there is more, which waits for its turn
    assert effects.numbers == [*range(20)]


def test_an_error_ends_the_stream_and_the_batch_comes_again(tmp_path: Path) -> None:
    effects, broken = Effects(), [True]

    def apply(batch: int, begin: Offset, end: Offset) -> None:
        if batch == 1 and broken.pop():
            raise codes.DELTA_FAILED.error("the disk is gone")
        effects.apply(batch, begin, end)

    source = Numbers(9)
    stream = ended(MicroBatches(str(tmp_path), source, apply, name="numbers", every_seconds=None).start())
    assert isinstance(stream.exception(), DefiniteError)
    assert source.closed
    assert effects.numbers == [0, 1, 2]
    broken.append(False)
    assert ended(MicroBatches(str(tmp_path), source, apply, name="n", every_seconds=None).start()).exception() is None
    assert effects.numbers == [*range(9)]


def test_it_runs_until_it_is_stopped(tmp_path: Path) -> None:
    effects, source = Effects(), Numbers(4)
    stream = MicroBatches(str(tmp_path), source, effects.apply, name="numbers", every_seconds=0.05).start()
    until(lambda: len(effects.numbers) == 4)
    source.end = 7
    until(lambda: len(effects.numbers) == 7)
    assert (stream.isActive, active()) == (True, frozenset({"numbers"}))
    began = time.monotonic()
    stream.stop()
    assert (stream.isActive, active()) == (False, frozenset())
    assert time.monotonic() - began < 10
    assert stream.exception() is None
    assert Checkpoint(str(tmp_path)).planned is None


def test_two_that_plan_the_same_batch_are_told_apart(tmp_path: Path) -> None:
    """The second finds the file of the first: as a run that has lost its lease, or on a volume without locks."""
    effects, gate, waiting = Effects(), threading.Event(), threading.Event()

    class Late(Numbers):
        def latest(self, start: Offset) -> Mapping[str, Any] | None:
            end = super().latest(start)
            waiting.set()
            gate.wait(60)
            return end

    late = MicroBatches(str(tmp_path), Late(3), effects.apply, name="late", every_seconds=None).start()
    waiting.wait(60)
    assert taken(tmp_path, Numbers(2), effects).exception() is None
    gate.set()
    failure = ended(late).exception()
    assert isinstance(failure, CdcError)
    assert failure.code is codes.LEASE_LOST
    assert effects.numbers == [0, 1]


def test_files_of_batches_that_are_long_complete_are_removed(tmp_path: Path) -> None:
    effects = Effects()
    taken(tmp_path, Numbers(103, lambda: 1), effects)
    for log in ("offsets", "commits"):
        kept = {int(path.name) for path in (tmp_path / log).iterdir() if path.name.isdecimal()}
        assert kept == {*range(3, 103)}


def test_a_sum_of_a_removed_plan_does_not_belie_the_new_one(tmp_path: Path) -> None:
    effects = Effects()
    taken(tmp_path, Numbers(3), effects)
    (tmp_path / "offsets" / ".1.crc").write_bytes(b"of another file")
    taken(tmp_path, Numbers(6), effects)
    assert not (tmp_path / "offsets" / ".1.crc").exists()


def test_a_gap_in_the_checkpoint_is_refused(tmp_path: Path) -> None:
    effects = Effects()
    taken(tmp_path, Numbers(9), effects)
    for name in ("commits/1", "commits/2"):
        (tmp_path / name).unlink()
    failure = taken(tmp_path, Numbers(9), effects).exception()
    assert isinstance(failure, DefiniteError)
    assert failure.code is codes.CHECKPOINT_DAMAGED


class Sums:
    """A sink that remembers in a file which commits of bronze it was given, by batch."""

    def __init__(self, file: Path, fails: Callable[[int], bool]) -> None:
        self._file, self._fails = file, fails

    @property
    def batches(self) -> dict[str, list[Any]]:
        return json.loads(self._file.read_text()) if self._file.exists() else {}

    def apply(self, batch: CommittedBatch) -> None:
        query, number = batch.identity
        met = [query, batch.versions.after, batch.versions.last]
        before = self.batches
        assert before.get(str(number), met) == met
        self._file.write_text(json.dumps({**before, str(number): met}))
        if self._fails(number):
            raise RuntimeError("died after its effect")


def test_spark_and_the_loop_continue_each_others_streams(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Of one checkpoint, in turn, also where the one has failed in a batch that the other repeats."""
    rng, lake = random.Random(seed), Lake(spark, tmp_path, {ONE.name: ONE})
    checkpoint, file = str(tmp_path / "sink checkpoint"), tmp_path / "sums.json"
    lake.commit([begin(ONE)])
    turns = [False, True, True, False, False, True]
    for pos, here in enumerate(turns, 2):
        lake.commit([insert(ONE, pos, pos)])
        fails = [rng.random() < 0.5]

        def dies(_: int, fails: list[bool] = fails) -> bool:
            return fails.pop() if fails else False

        query = start(spark, lake.layout, checkpoint, Sums(file, dies), name="tested", here=here)
        with suppress(StreamingQueryException):
            query.awaitTermination()
        assert query.exception() is None or "died" in str(query.exception())
    for here in (True, False):
        start(spark, lake.layout, checkpoint, Sums(file, lambda _: False), name="tested", here=here).awaitTermination()
    batches = [batch for _, batch in sorted(Sums(file, lambda _: False).batches.items(), key=lambda one: int(one[0]))]
    assert len({query for query, _, _ in batches}) == 1
    assert [after for _, after, _ in batches] == [None, *(last for _, _, last in batches[:-1])]
    assert batches[-1][2] == max(lake.ends)
    place = Checkpoint(checkpoint)
    assert (place.planned, place.last_commit()) == (None, len(batches) - 1)
