"""Bronze into topics: each row once whatever commit the sink dies at, and the last message of a key is its row."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.lake.failpoints import Door, Moment
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Change, Op, fold
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.options.declaration import Section
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.sinks.kafka import bronze_rows
from lakehouse_cdc.sinks.kafka import sink as sink_module
from lakehouse_cdc.sinks.kafka.bronze_rows import Records
from lakehouse_cdc.sinks.kafka.options import KafkaConfig
from lakehouse_cdc.sinks.kafka.sink import KafkaSink
from lakehouse_cdc.sinks.kafka.transactions import Transactions
from lakehouse_cdc.sinks.port import CommittedBatch
from tests.remedies import remedy
from tests.support.bronze_writer import Lake
from tests.support.crash_points import Crash, failing_at, failing_at_random, hooked
from tests.support.kafka_broker import Broker, Record
from tests.support.message_readers import debezium
from tests.support.silver.changes import begin, delete, insert, seq, table

ONE = table("one", Column("n", "int"))
KEYLESS = TableSchema("shop", "keyless", (Column("n", "int"),), ())


@dataclass
class Into:
    """A lake with a sink of its own; `sink` makes it as a new process would."""

    lake: Lake
    broker: Broker
    prefix: str
    settings: dict[str, Any]

    def sink(self, **settings: Any) -> KafkaSink:
        given = {
            "bootstrap_servers": self.broker.address, "topic": f"{self.prefix}.{{database}}.{{table}}",
            "ddl_topic": f"{self.prefix}.ddl", "timeout": "60s", **self.settings, **settings,
        }  # fmt: skip
        return KafkaSink(self.lake.spark, self.lake.layout, self.prefix, Section(KafkaConfig).check(given))

    def batch(self, after: int | None, last: int) -> CommittedBatch:
        note = self.lake.note(Versions(after, last))
        return CommittedBatch(Versions(after, last), note, (note,))

    def apply(self, after: int | None, last: int, **settings: Any) -> int:
        """In a process of its own."""
        sink = self.sink(**settings)
        try:
            return sink.apply(self.batch(after, last))
        finally:
            sink.close()

    def records(self, of: TableSchema = ONE) -> list[Record]:
        return self.broker.records(f"{self.prefix}.{of.name}")

    def rows(self) -> dict[Any, Any]:
        """What is there after the last message of each key."""
        held: dict[Any, Any] = {}
        for record in self.records():
            if record.value is None:
                held.pop(record.key, None)
            elif (read := debezium(ONE, record.key, record.value)).op != "d":
                held[record.key] = read.after
        return held

    def require(self) -> None:
        """Every row of bronze once, and the last messages are the fold of it."""
        wanted = {image["id"]: image for (name, _), (_, image) in fold(self.lake.written).items() if name == ONE.name}
        assert {image["id"]: image for image in self.rows().values()} == wanted
        rows = (Op.READ, Op.INSERT, Op.UPDATE, Op.DELETE)
        changes = [(c.seq, c.key) for c in self.lake.written if c.op in rows and c.table == ONE.name]
        seen = [(int(r.headers["seq"]), _id(r)) for r in self.records() if r.value is not None]
        resets = {c.seq for c in self.lake.written if c.op in (Op.TRUNCATE, Op.END)}
        assert sorted(one for one in seen if one[0] not in resets) == sorted(changes)
        assert len(set(seen)) == len(seen)


def _id(record: Record) -> Any:
    assert record.value is not None
    key = debezium(ONE, record.key, record.value).key
    return ((key or {}).get("id"),)


@pytest.fixture
def into(spark: SparkSession, tmp_path: Path, broker: Broker) -> Callable[..., Into]:
    def made(**settings: Any) -> Into:
        lake = Lake(spark, tmp_path, {ONE.name: ONE, KEYLESS.name: KEYLESS})
        return Into(lake, broker, f"s{uuid.uuid4().hex[:8]}", settings)

    return made


def read_at(pos: int, key: int, n: int) -> Change:
    return Change(seq(pos, Rank.READ), Op.READ, ONE.name, (key,), None, {"id": key, "n": n})


def update(pos: int, key: int, was: int, n: int) -> Change:
    return Change(seq(pos), Op.UPDATE, ONE.name, (key,), {"id": key, "n": was}, {"id": key, "n": n})


def new(pos: int, key: int, n: int) -> Change:
    return insert(ONE, pos, key, n=n)


def gone(pos: int, key: int, n: int) -> Change:
    return Change(seq(pos), Op.DELETE, ONE.name, (key,), {"id": key, "n": n}, None)


TRUNCATED = Change(seq(30, Rank.SCHEMA), Op.TRUNCATE, ONE.name)
READ_AGAIN = Change(seq(50, Rank.END), Op.END, ONE.name, after=seq(45))
HISTORY: list[list[Change]] = [
    [begin(ONE), *(read_at(5, key, key) for key in range(1, 8))],
    [update(6, 1, 1, 10), gone(7, 2, 2), new(8, 9, 9)],
    [],
    [gone(20, 9, 9), new(21, 9, 90), TRUNCATED, new(31, 1, 11), new(32, 5, 55), new(33, 6, 66)],
    [update(40, 1, 11, 12), read_at(46, 5, 56), READ_AGAIN, new(52, 7, 77)],
]


def many(pos: int, ids: range, add: int) -> list[Change]:
    """A transaction of the source that updates those rows."""
    return [
        Change(
            Seq(1, 1, pos, Rank.EVENT, i).pack(), Op.UPDATE, ONE.name, (key,), {"id": key, "n": key + add - 1},
            {"id": key, "n": key + add},
        )
        for i, key in enumerate(ids)
    ]  # fmt: skip


# of so many rows that tasks write nearly all
LONG: list[list[Change]] = [
    [begin(ONE), *(read_at(5, key, key) for key in range(1, 61))],
    [*many(6, range(1, 41), 1), *(gone(key + 100, key, key) for key in range(41, 51)), new(200, 99, 9)],
    [*many(210, range(1, 30), 2), Change(seq(300, Rank.SCHEMA), Op.TRUNCATE, ONE.name),
     *(new(301 + key, key, key) for key in range(1, 30))],
    [*many(400, range(1, 20), 1), *(read_at(405, key, key) for key in range(1, 12)),
     Change(seq(410, Rank.END), Op.END, ONE.name, after=seq(404))],
]  # fmt: skip


@pytest.mark.parametrize("partitions_of", [pytest.param(10**6, marks=pytest.mark.long), 25])
def test_records_of_tasks_are_sent_once_whatever_commit_ends_the_sink(
    into: Callable[..., Into], seed: int, monkeypatch: pytest.MonkeyPatch, partitions_of: int
) -> None:
    """In one partition and in many; a resumed part leaves out just what the ledger has."""
    chosen, one, by_tasks = random.Random(seed), into(transaction_rows=9, partitions=2), 0
    monkeypatch.setattr(bronze_rows, "_TASK_ROWS", partitions_of)
    take = Transactions.take

    def counted(self: Transactions, records: Records) -> Iterator[Records]:
        nonlocal by_tasks
        by_tasks += records.end - records.first
        return take(self, records)

    monkeypatch.setattr(Transactions, "take", counted)
    done, died = None, 0
    for changes in LONG:
        last = one.lake.commit(changes).version
        for chance in (0.4, 0.2, 0.0):
            if done == last:
                break
            sink = one.sink()
            with suppress(Crash), failing_at_random(chosen, chance):
                sink.apply(one.batch(done, last))
                done = last
            died += done != last
            if chosen.random() < 0.5:
                sink.close()
    one.require()
    assert by_tasks > 100
    print(f"it died {died} times")


@pytest.mark.long
def test_a_sink_that_dies_at_random_commits_sends_each_row_once(into: Callable[..., Into], seed: int) -> None:
    """A process ends at any commit to Kafka; another one takes the batch up, of more commits perhaps."""
    chosen, one = random.Random(seed), into(transaction_rows=2, partitions=2)
    done, last, died = None, None, 0
    for changes in HISTORY:
        last = one.lake.commit(changes).version
        if chosen.random() < 0.3:
            continue  # the sink is late
        while done != last:
            sink = one.sink()
            with suppress(Crash), failing_at_random(chosen, 0.2):
                sink.apply(one.batch(done, last))
                done = last
            died += done != last
            if chosen.random() < 0.5:
                sink.close()  # else it is a process that hangs
    if last is not None and done != last:
        one.apply(done, last)
    one.require()
    print(f"it died {died} times")


def _begun(one: Into, monkeypatch: pytest.MonkeyPatch) -> int:
    """The version of a batch, 27 of whose 61 rows were sent when the sink died."""
    monkeypatch.setattr(bronze_rows, "_TASK_ROWS", 25)
    last, commits = one.lake.commit(LONG[0]).version, 0

    def dies(door: Door, moment: Moment, name: str) -> None:
        nonlocal commits
        commits += (door, moment) == (Door.RECORDS, Moment.AFTER)
        if commits == 3:
            raise Crash

    with hooked(dies), suppress(Crash):
        one.apply(None, last)
    assert commits == 3
    return last


def test_what_was_begun_by_keys_is_continued_so(into: Callable[..., Into], monkeypatch: pytest.MonkeyPatch) -> None:
    """As by an earlier release, which knew no other order."""
    one = into(transaction_rows=9, partitions=2)
    with monkeypatch.context() as earlier:
        earlier.setattr(sink_module, "rows_by_files", lambda *_, **__: None)
        last = _begun(one, monkeypatch)
    assert one.apply(None, last) == len(LONG[0]) - 27
    one.require()


@remedy(codes.KAFKA_LEDGER_LOST)
def test_an_order_that_cannot_be_had_again(into: Callable[..., Into], monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch was begun in the order of files, which the log does not list any more."""
    one = into(transaction_rows=9, partitions=2)
    last = _begun(one, monkeypatch)
    monkeypatch.setattr(bronze_rows, "files_of", lambda *_: None)
    with pytest.raises(CdcError) as caught:
        one.apply(None, last)
    assert caught.value.code is codes.KAFKA_LEDGER_LOST
    assert caught.value.hint == "run once with delivery: at_least_once, which may repeat the last batch"
    assert one.apply(None, last, delivery="at_least_once") == len(LONG[0])
    assert one.apply(None, last) == 0
    assert {int(record.headers["seq"]) for record in one.records()} == {seq(5, Rank.READ)}
    assert len(one.rows()) == 60


@pytest.mark.long
def test_a_batch_is_repeated_by_an_older_checkpoint(into: Callable[..., Into]) -> None:
    one = into()
    versions = [one.lake.commit(changes).version for changes in HISTORY]
    assert one.apply(None, versions[1]) > 0
    assert one.apply(None, versions[1]) == 0
    assert one.apply(None, versions[0]) == 0
    one.apply(None, versions[-1])
    assert one.apply(versions[2], versions[-1]) == 0
    one.require()
    ddl = [record.value or b"" for record in one.broker.records(f"{one.prefix}.ddl")]
    assert [b'"type":"truncate"' in value for value in ddl] == [False, True]


def test_rows_without_a_key_are_in_one_order(into: Callable[..., Into]) -> None:
    one = into(cleanup_policy="compact", partitions=3)
    changes = [Change(seq(pos), Op.INSERT, KEYLESS.name, None, None, {"n": pos}) for pos in range(2, 9)]
    one.apply(None, one.lake.commit([begin(KEYLESS), *changes]).version)
    found = one.records(KEYLESS)
    assert [int(record.headers["seq"]) for record in found] == [change.seq for change in changes]
    assert {(record.partition, record.key) for record in found} == {(0, None)}


def test_a_transaction_of_the_source_is_not_cut(into: Callable[..., Into]) -> None:
    one = into(transaction_rows=2)
    together = [
        Change(Seq(1, 1, 9, Rank.EVENT, n).pack(), Op.INSERT, ONE.name, (n,), None, {"id": n, "n": n}) for n in range(5)
    ]
    last = one.lake.commit([begin(ONE), new(5, 50, 1), *together, new(10, 51, 1)]).version
    commits = 0

    def counted(door: Door, moment: Moment, name: str) -> None:
        nonlocal commits
        commits += (door, moment) == (Door.RECORDS, Moment.AFTER)

    with hooked(counted):
        one.apply(None, last)
    assert commits == 3  # the s and the row before; the five; the row after
    one.require()


@pytest.mark.long
@remedy(codes.KAFKA_LEDGER_LOST)
def test_a_ledger_that_was_deleted(into: Callable[..., Into]) -> None:
    one = into()
    first, second, third = (one.lake.commit(changes).version for changes in HISTORY[:3])
    one.apply(None, first)
    ledger = f"tests.{one.prefix}.ledger"
    admin = one.broker.admin()
    [deleted] = admin.delete_topics([ledger], operation_timeout=30).values()
    deleted.result(60)
    with pytest.raises(CdcError) as caught:
        one.apply(first, second)
    assert caught.value.code is codes.KAFKA_LEDGER_LOST
    assert caught.value.hint == (
        "restore the topic; or run once with delivery: at_least_once, which may repeat the last batch"
    )
    one.apply(first, second, delivery="at_least_once")
    one.apply(second, third)
    one.require()


@pytest.mark.long
def test_what_is_refused_at_the_end_is_sent_when_it_is_put_right(into: Callable[..., Into]) -> None:
    one = into()
    last = one.lake.commit([begin(ONE), new(5, 1, 1), delete(ONE, 6, 1)]).version
    sink = one.sink()
    with pytest.raises(Crash), failing_at(Door.RECORDS, Moment.AFTER, f"tests.{one.prefix}", error=Crash):
        sink.apply(one.batch(None, last))
    assert sink.apply(one.batch(None, last)) == 0  # the same process
    sink.close()
    assert [record.value is None for record in one.records()] == [False, False, True]
