"""Silver against its specification while the table's schema changes: crashes, replays and rebuilds included."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import TransientError
from lakehouse_cdc.lake.changes import Versions
from lakehouse_cdc.model.changes import fold, invalid
from lakehouse_cdc.silver import alter, tombstones, writer
from lakehouse_cdc.silver.apply import Applier
from tests.bronze_writer import Lake
from tests.silver.alterations import moment
from tests.silver.altered_histories import AlteredHistory, uncertain
from tests.silver.test_fold import crashing, runs, seeds, split_up


@contextmanager
def crashes(rng: random.Random) -> Iterator[None]:
    """Every commit of silver's may be the last before a crash, or come to nothing by one."""
    steps = [(tombstones, "bury"), (writer, "merge"), (writer, "load"), (alter, "perform"), (alter, "finish_building")]
    with ExitStack() as stack:
        for module, name in steps:
            step = crashing(getattr(module, name), rng, after=rng.random() < 0.7)
            stack.enter_context(patch.object(module, name, step))
        yield


def apply(lake: Lake, applier: Applier, versions: Versions, rng: random.Random, query: str, attempts: int) -> Applier:
    """One batch: some attempts that may crash, and one that does not. A crash may take the process with it."""
    note = lake.note(versions, query=query)
    for _ in range(attempts):
        with crashes(rng):
            try:
                applier.apply(versions, note)
            except TransientError:
                applier = rng.choice([applier, Applier(lake.spark, lake.layout)])
    applier.apply(versions, note)
    return applier


def check(lake: Lake, history: AlteredHistory) -> None:
    """Silver is the fold, save for what no fold can know until the table has been read again."""
    rekeyed, unknown = uncertain(lake.written, history.doubts)

    def comparable(rows: Iterable[tuple[int, Any]]) -> Counter[Any]:
        known = [(seq, {n: moment(v) for n, v in image.items() if n not in unknown(seq)}) for seq, image in rows]
        return Counter((seq, frozenset(image.items())) for seq, image in known if seq > rekeyed)

    name = history.schema.name
    assert comparable(lake.rows(name)) == comparable(fold(lake.written).values())
    key = lake.schema_at(name, 10**38).key
    keys = Counter(values for _, image in lake.rows(name) if None not in (values := tuple(image[k] for k in key)))
    assert max(keys.values(), default=1) == 1, "a key is there twice"


def altered_with_crashes(spark: SparkSession, seed: int, *, moments: int, parts: int, attempts: int) -> None:
    rng = random.Random(seed)
    history = AlteredHistory(rng, "t")
    history.grow(moments)
    assert invalid(history.changes) is None
    with TemporaryDirectory() as folder:
        lake = Lake(spark, Path(folder), {history.schema.name: history.first})
        applier, done = Applier(spark, lake.layout), list[Versions]()
        for part in split_up(history.changes, parts, rng):
            done.append(Versions(done[-1].last if done else None, lake.commit(part).version))
            applier = apply(lake, applier, done[-1], rng, "the-silver-query", attempts=attempts)
            check(lake, history)
        assert {key[1]: image for key, (_, image) in lake.silver(history.schema.name).items()} == history.truth
        # an older checkpoint: everything from some batch on comes again, as batches that Delta has never seen
        applier = Applier(spark, lake.layout)
        for again in done[rng.randrange(parts) :]:
            applier = apply(lake, applier, again, rng, "older", attempts=0)
            check(lake, history)
        # moved away, and built from the whole of bronze by the last batch
        Path(lake.layout.silver_table(history.schema.name).path or "").rename(Path(folder) / "away")
        apply(lake, Applier(spark, lake.layout), done[-1], rng, "anew", attempts=attempts)
        check(lake, history)


@runs(1)
@given(seed=seeds)
def test_silver_is_the_fold_whatever_is_altered_and_crashes(spark: SparkSession, seed: int) -> None:
    altered_with_crashes(spark, seed, moments=14, parts=2, attempts=1)


@pytest.mark.long
@pytest.mark.timeout(0)
@runs(25)
@given(seed=seeds)
def test_silver_is_the_fold_at_length(spark: SparkSession, seed: int) -> None:
    altered_with_crashes(spark, seed, moments=70, parts=6, attempts=2)
