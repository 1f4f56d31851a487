"""Batches of records into bronze and dead letters: each message once, whatever comes in between; letters again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakehouse_cdc.bronze.sink import BronzeBatch
from lakehouse_cdc.bronze.tables import create_bronze
from lakehouse_cdc.lake.failpoints import Door, Moment
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.tables import exists, read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.messages.reading import Reason
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.tables.known_schemas import schemas_in_force
from lakehouse_cdc.silver.time_travel import rows_at
from lakehouse_cdc.topics.batch import BatchWriter, Known
from lakehouse_cdc.topics.declared import Declarations
from lakehouse_cdc.topics.letters import Selection
from lakehouse_cdc.topics.order import Progress
from lakehouse_cdc.topics.parsing import Parsing
from lakehouse_cdc.topics.retry import Retried, retry
from tests.support.crash_points import Crash, failing_at
from tests.support.topic_messages import MAX_BYTES, Message, debezium, mixed, records

PARSING = Parsing("debezium-json", Declarations({}, {}), "position", MAX_BYTES, 1, 0, Progress())
ALL = Selection()
B_FIELD = {"type": "int32", "optional": True, "field": "b"}


@dataclass
class Copy:
    """Bronze, letters and silver of topics, without a broker: records are handed over as Spark's source does."""

    spark: SparkSession
    folder: Path
    parsing: Parsing = PARSING
    batches: list[DataFrame] = field(default_factory=list)
    applied: int | None = None

    def __post_init__(self) -> None:
        self.layout = Layout("tests", bronze="b", silver="s", path=str(self.folder / "lake"))
        create_bronze(self.spark, self.layout)
        self.offsets: Counter[int] = Counter()

    def frame(self, *partitions: Sequence[Message]) -> DataFrame:
        """The next records of partitions 0, 1, ..., a task each."""
        made = []
        for partition, messages in enumerate(partitions):
            first = self.offsets[partition]
            self.offsets[partition] += len(messages)
            if not messages:
                continue
            frame = self.spark.createDataFrame(records([*messages], partition=partition, first=first).to_pandas())
            made.append(frame.selectExpr("topic", "cast(partition AS int)", "offset", "timestamp", "key", "value"))
        whole = made[0].coalesce(1)
        for one in made[1:]:
            whole = whole.unionByName(one.coalesce(1))
        return whole

    def batch(self, *partitions: Sequence[Message]) -> BronzeBatch:
        """The next batch, by a stream that has just started."""
        self.batches.append(self.frame(*partitions))
        return self.again()

    def again(self) -> BronzeBatch:
        """The last batch, once more."""
        writer = BatchWriter(self.layout, lambda _: None)
        return writer.write(self.batches[-1], replace(self.parsing, batch=len(self.batches) - 1), "query")

    def silver(self, table: str = "shop.t") -> list[Any]:
        """The table's rows (id, v, ...) once all of bronze is applied."""
        from lakehouse_cdc.lake.commits import newest_first
        from lakehouse_cdc.model.commit_note import CommitNote

        commit = next(iter(newest_first(self.spark, self.layout.changes)))
        versions = Versions(self.applied, commit.version)
        assert commit.note is not None
        note = CommitNote("tests", "silver", commit.version, commit.note.source_point, commit.version)
        Applier(self.spark, self.layout).apply(versions, note)
        self.applied = commit.version
        frame = read(self.spark, self.layout.silver_table(table))
        columns = [name for name in frame.columns if name not in self.layout.own.all_forms]
        return sorted((tuple(row) for row in frame.select(*columns).collect()), key=str)

    def letters(self) -> Counter[str]:
        if not exists(self.spark, self.layout.dead_letters):
            return Counter()
        rows = read(self.spark, self.layout.dead_letters).collect()
        assert len({(row["topic"], row["partition"], row["offset"]) for row in rows}) == len(rows)
        return Counter(row["reason"] for row in rows)

    def rows(self) -> list[tuple[Any, ...]]:
        frame = read(self.spark, self.layout.changes).where("op <> 's'")
        return sorted(tuple(row) for row in frame.selectExpr("seq", "op", "to_json(key)", "to_json(after)").collect())

    def retried(self, **how: Any) -> Retried:
        parsing = how.pop("parsing", self.parsing)
        return retry(self.spark, self.layout, parsing, how.pop("selection", ALL), **how)


@pytest.fixture
def copy(spark: SparkSession, tmp_path: Path) -> Copy:
    return Copy(spark, tmp_path)


@pytest.mark.long
def test_the_good_ones_are_in_bronze_and_the_broken_ones_are_letters(copy: Copy, seed: int) -> None:
    messages, reasons = mixed(seed, 4)
    copy.batch(messages[: len(messages) // 2])
    copy.batch(messages[len(messages) // 2 :])
    assert copy.letters() == Counter(reason.value for reason in reasons if reason is not None)
    assert len(copy.rows()) == sum(reason is None for reason in reasons)
    held = {(row["offset"], bytes(row["value"])) for row in read(copy.spark, copy.layout.dead_letters).collect()}
    assert held == {(at, value) for at, (_, value) in enumerate(messages) if reasons[at] is not None}


@pytest.mark.long
def test_a_redelivery_of_all_gives_nothing_new(copy: Copy) -> None:
    changes = [debezium("r", 10, 1), debezium("r", 10, 2), debezium("u", 20, 1, 5), debezium("d", 30, 2),
               debezium("c", 40, 3)]  # fmt: skip
    copy.batch([*changes, *changes], [debezium("c", 15, 9)])
    before = copy.rows()
    assert len(before) == 6
    copy.batch(changes, [debezium("c", 15, 9)])
    copy.batch([*changes, debezium("c", 50, 4), *changes])
    assert copy.rows() == sorted([*before, *(row for row in copy.rows() if row[2] == '{"id":4}')])
    assert len(copy.rows()) == 7
    assert not copy.letters()


_LONG = [
    ("dead_letters", Moment.BEFORE),
    ("dead_letters", Moment.AFTER),
    ("changes", Moment.AFTER),
    ("schemas", Moment.BEFORE),
]


@pytest.mark.parametrize(
    ("table", "moment"), [("changes", Moment.BEFORE), *(pytest.param(*one, marks=pytest.mark.long) for one in _LONG)]
)
def test_a_crash_between_letters_and_rows_is_made_up_for(
    spark: SparkSession, tmp_path: Path, table: str, moment: Moment
) -> None:
    messages, _ = mixed(7, 1)
    half = len(messages) // 2
    done = []
    for name, crashes in (("crashed", True), ("whole", False)):
        copy = Copy(spark, tmp_path / name)
        if crashes:
            with pytest.raises(Crash), failing_at(Door.WRITE, moment, table, error=Crash):
                copy.batch(messages[:half])
            first = copy.again()
        else:
            first = copy.batch(messages[:half])
        assert copy.again() == first
        copy.batch(messages[half:])
        done.append((first.rows, copy.rows(), copy.letters()))
    assert done[0] == done[1]


@pytest.mark.long
def test_a_new_column_evolves_silver(copy: Copy) -> None:
    copy.batch([debezium("c", 10, 1, 1)])
    field = {**B_FIELD, "default": 7}
    copy.batch([debezium("c", 20, 2, 2), debezium("c", 30, 3, 3, fields=[field], b=8)], [debezium("c", 25, 9, 9)])
    assert copy.silver() == [(1, 1, 7), (2, 2, 7), (3, 3, 8), (9, 9, 7)]
    copy.batch([debezium("c", 40, 4, 4, fields=[field], b=9)], [debezium("c", 28, 10, 10)])
    assert copy.letters() == {"out_of_order": 1}
    assert copy.silver() == [(1, 1, 7), (2, 2, 7), (3, 3, 8), (4, 4, 9), (9, 9, 7)]
    assert copy.retried() == Retried(1, 0)


@pytest.mark.long
def test_an_unclear_change_is_set_aside_until_it_is_accepted(copy: Copy) -> None:
    copy.batch([debezium("c", 10, 1, 1)])
    text = {"type": "string", "optional": False, "field": "b"}
    copy.batch([debezium("c", 20, 2, 2, fields=[text], b="x"), debezium("c", 30, 3, 3, fields=[text], b="y")])
    assert copy.letters() == {"schema_change": 2}
    assert copy.retried() == Retried(2, 0)
    assert copy.retried(accepted=True) == Retried(2, 2)
    assert not copy.letters()
    copy.batch([debezium("c", 40, 4, 4, fields=[text], b="z")])
    assert not copy.letters()
    assert copy.silver() == [(1, 1, None), (2, 2, "x"), (3, 3, "y"), (4, 4, "z")]


@pytest.mark.long
def test_letters_are_taken_once_the_file_says_what_was_missing(copy: Copy) -> None:
    def without_schema(message: Message) -> Message:
        return message[0], json.dumps(json.loads(message[1] or b"")["payload"]).encode()

    early, late = (debezium("c", 10, 1, 1), debezium("u", 20, 1, 2)), debezium("u", 30, 1, 3)
    copy.batch([without_schema(one) for one in early])
    assert copy.letters() == {"unknown_table": 2}
    declared = replace(
        PARSING, declarations=Declarations({"shop.*": {"id": "int", "v": "int"}}, {})
    )  # fmt: skip
    copy.parsing = declared
    copy.batch([without_schema(late)])
    with pytest.raises(Crash), failing_at(Door.WRITE, Moment.AFTER, "changes", error=Crash):
        copy.retried()
    assert copy.retried(selection=Selection("not_json")) == Retried(0, 0)
    assert copy.retried(selection=Selection("unknown_table", "t")) == Retried(2, 2)
    assert not copy.letters()
    assert len(copy.rows()) == 3
    assert copy.silver() == [(1, 3)]


@pytest.mark.long
def test_a_truncation_takes_what_is_older_and_nothing_older_comes_back(copy: Copy) -> None:
    copy.batch([debezium("c", 10, 1), debezium("c", 20, 2)], [debezium("c", 30, 3)])
    copy.batch([debezium("t", 40, 0), debezium("c", 50, 4)], [])
    copy.batch([], [debezium("c", 35, 5), debezium("c", 60, 6)])
    assert copy.letters() == {Reason.OUT_OF_ORDER.value: 1}
    assert copy.silver() == [(4, None), (6, None)]


@pytest.mark.long
def test_a_moment_of_the_past_has_what_came_late(copy: Copy) -> None:
    copy.batch([debezium("c", 10, 1), debezium("c", 100, 2)], [debezium("c", 5, 8)])
    copy.silver()
    copy.batch([debezium("c", 200, 3)], [debezium("c", 50, 9)])
    assert len(copy.silver()) == 5
    note = Known.of(copy.spark, copy.layout).note
    assert note is not None
    assert not note.in_order
    seq = Seq(1, 1, 100, Rank.EVENT, 9).pack()
    schemas = schemas_in_force(SparkReader(copy.spark), copy.layout, ["shop.t"])["shop.t"]
    rows = rows_at(copy.spark, copy.layout, "shop.t", seq, schemas, in_order=note.in_order)
    assert sorted(row["id"] for row in rows.collect()) == [1, 2, 8, 9]
