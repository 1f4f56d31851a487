"""Silver against its specification while the table's schema changes: crashes, replays and rebuilds included."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import TransientError
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import fold, invalid
from lakehouse_cdc.model.own_columns import END_AT, START_AT
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.definition.transform import Transform
from lakehouse_cdc.silver.forms import HISTORY, SOFT_DELETES
from tests.support.bronze_writer import Lake
from tests.support.crash_points import failing_at_random
from tests.support.silver.alterations import KINDS, MILD, moment
from tests.support.silver.altered_histories import AlteredHistory, uncertain
from tests.support.silver.crashes import runs, seeds, split_up
from tests.support.silver.engines import at_times

pytestmark = pytest.mark.usefixtures("parts_both_ways")

HISTORIES = Policy(form=HISTORY, beside=True)
# of columns that come, go, swap their names and get others
TRANSFORM = Transform(rename={"a": "x", "N": "y `z`"}, computed={"two": "1 + 1"}, metadata={"from": "table_name"})
FORMS = [
    Policy(),
    Policy(form=SOFT_DELETES),
    HISTORIES,
    Policy(transform=TRANSFORM),
    Policy(form=SOFT_DELETES, transform=TRANSFORM),
    replace(HISTORIES, transform=TRANSFORM),
    Policy(engine="auto"),
    Policy(engine="auto", drops=True),
]

AT_ONCE = [
    Policy(engine="auto"),
    Policy(engine="auto", drops=True),
    Policy(engine="auto", form=SOFT_DELETES),
    replace(HISTORIES, engine="auto"),
]


def called(policy: Policy) -> str:
    renamed = ", renamed" if policy.transform.rename else ""
    by = f", by either engine{', dropping' if policy.drops else ''}" if policy.engine == "auto" else ""
    return policy.form.title + renamed + by


@dataclass
class Silver:
    """One process, until a crash takes it."""

    lake: Lake
    policy: Policy

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        run = at_times(random.Random(len(self.lake.written)), 0.2)
        self._applier = Applier(self.lake.spark, self.lake.layout, policy=lambda _: self.policy, run_tasks=run)

    def apply(self, versions: Versions, rng: random.Random, query: str, attempts: int) -> None:
        """One batch: some attempts that may crash, and one that does not."""
        note = self.lake.note(versions, query=query)
        for _ in range(attempts):
            with failing_at_random(rng, 0.1):
                try:
                    self._applier.apply(versions, note)
                except TransientError:
                    if rng.random() < 0.5:
                        self.restart()
        self._applier.apply(versions, note)


def check(lake: Lake, altered: AlteredHistory, policy: Policy, seq: int | None = None) -> None:
    """Silver is the fold, save for what no fold can know until the table has been read again; so it is as of `seq`."""
    written = [c for c in lake.written if seq is None or c.seq <= seq]
    rekeyed, unknown = uncertain(written, [doubt for doubt in altered.doubts if seq is None or doubt.seq <= seq])

    called = policy.transform.silver_name

    def comparable(rows: Iterable[tuple[int, Any]]) -> Counter[Any]:
        doubtful = [(seq, image, {called(name) for name in unknown(seq)}) for seq, image in rows]
        known = [(seq, {n: moment(v) for n, v in image.items() if n not in names}) for seq, image, names in doubtful]
        return Counter((seq, frozenset(image.items())) for seq, image in known if seq > rekeyed)

    name = altered.schema.name
    rows = lake.rows(name) if seq is None else lake.rows_at(name, seq)
    wanted = fold(written).values()
    assert comparable(rows) == comparable((at, {called(n): v for n, v in image.items()}) for at, image in wanted)
    key = [called(n) for n in lake.schema_at(name, 10**38 if seq is None else seq).key]
    keys = Counter(values for _, image in rows if None not in (values := tuple(image[k] for k in key)))
    assert max(keys.values(), default=1) == 1, "a key is there twice"


def check_as_of(lake: Lake, altered: AlteredHistory, policy: Policy, rng: random.Random) -> None:
    """Wherever it is asked for, be it amid what has one position."""
    for change in rng.sample(lake.written, min(2, len(lake.written))):
        check(lake, altered, policy, max(change.seq - rng.randint(0, 1), lake.written[0].seq))


def content(lake: Lake, name: str) -> Counter[str]:
    """All rows, whatever columns silver has."""
    rows = read(lake.spark, lake.layout.silver_table(name))
    if "two" in rows.columns:
        assert rows.where("two <> 2 OR two IS NULL OR `from` <> 't' OR `from` IS NULL").isEmpty()
    return Counter(str(sorted(row.asDict(recursive=True).items(), key=str)) for row in rows.collect())


def ended(lake: Lake, name: str) -> set[tuple[int, int]]:
    """From where to where the versions lasted that are no more."""
    rows = read(lake.spark, lake.layout.silver_table(name))
    if END_AT not in rows.columns:
        return set()
    return {(int(row[START_AT].seq), int(row[END_AT].seq)) for row in rows.where(f"{END_AT}.seq IS NOT NULL").collect()}


def altered_with_crashes(
    spark: SparkSession, seed: int, policy: Policy, *, moments: int, parts: int, attempts: int, plain: bool = False
) -> None:
    rng = random.Random(seed)
    altered = AlteredHistory(rng, "t", MILD if plain else KINDS, plain=plain)
    altered.grow(moments)
    assert invalid(altered.changes) is None
    with TemporaryDirectory() as folder:
        name = altered.schema.name
        lake = Lake(spark, Path(folder), {name: altered.first}, seen=policy.transform.renamed)
        silver, done, over = Silver(lake, policy), list[Versions](), set[tuple[int, int]]()
        for part in split_up(altered.changes, parts, rng):
            done.append(Versions(done[-1].last if done else None, lake.commit(part).version))
            silver.apply(done[-1], rng, "the-silver-query", attempts=attempts)
            check(lake, altered, policy)
            check_as_of(lake, altered, policy, rng)
            assert over <= ended(lake, name), "a version came back"
            over = ended(lake, name)
        held = {key[1]: image for key, (_, image) in lake.silver(name).items()}
        called = policy.transform.silver_name
        assert held == {key: {called(n): v for n, v in image.items()} for key, image in altered.truth.items()}
        everything = content(lake, name)
        # an older checkpoint: everything from some batch on comes again, as batches that Delta has never seen
        silver.restart()
        for again in done[rng.randrange(parts) :]:
            silver.apply(again, rng, "older", attempts=0)
            check(lake, altered, policy)
        assert content(lake, name) == everything
        check_as_of(lake, altered, policy, rng)
        # moved away, and built from the whole of bronze by the last batch
        Path(lake.layout.silver_table(name).path or "").rename(Path(folder) / "away")
        silver.restart()
        silver.apply(done[-1], rng, "anew", attempts=attempts)
        check(lake, altered, policy)
        assert policy.form is not HISTORY or content(lake, name) == everything
        check_as_of(lake, altered, policy, rng)


@pytest.mark.long
def test_silver_is_the_fold_whatever_is_altered_and_crashes(spark: SparkSession, seed: int) -> None:
    altered_with_crashes(spark, seed, random.Random(seed).choice(FORMS), moments=14, parts=2, attempts=1)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("policy", FORMS, ids=called)
@runs(3)
@given(seed=seeds)
def test_silver_is_the_fold_at_length(spark: SparkSession, policy: Policy, seed: int) -> None:
    altered_with_crashes(spark, seed, policy, moments=70, parts=6, attempts=2)


def test_silver_is_the_fold_where_a_small_table_takes_changes_at_once(spark: SparkSession, seed: int) -> None:
    policy = random.Random(seed).choice(AT_ONCE)
    altered_with_crashes(spark, seed, policy, moments=12, parts=2, attempts=1, plain=True)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("policy", AT_ONCE, ids=called)
@runs(4)
@given(seed=seeds)
def test_silver_is_the_fold_where_a_small_table_takes_changes_at_once_at_length(
    spark: SparkSession, policy: Policy, seed: int
) -> None:
    altered_with_crashes(spark, seed, policy, moments=50, parts=5, attempts=2, plain=True)
