"""MySQL into bronze, topics, another bronze and its silver, of every type, while the driver is killed at 20 moments.

The driver is `lakehouse-cdc run` in a process of its own, and what ends it is SIGKILL: before and after topics are made
and transactions are committed, and within these. The broker is killed and started again in the midst of a transaction.
What the topics must have follows from the statements alone; a plain consumer of what is committed counts it.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pymysql
import pytest
import yaml
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.failpoints import Door, Moment
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.support.kafka_broker import Broker, running
from tests.support.pipelines import bronze
from tests.support.servers import connected
from tests.support.source import types_table
from tests.support.stepped_run import SteppedRun
from tests.topics.test_pipeline import silver_rows, silver_types

_KAFKA, _TABLES = (Door.TOPIC, Door.RECORDS), (Door.CREATE, Door.WRITE, Door.ADD, Door.MERGE, Door.STATEMENT)
# at which moment of its run a driver is killed, or within how many seconds from there, and what it sends then
OF_SNAPSHOT = ((0, 0), (1, 0), (2, 0.2), (5, 0), (8, 0), (11, 0.2))
OF_CHANGES = (
    (0, 0), (1, 0), (2, 0), (3, 0.2), (4, 0), (5, 0), (6, 0), (7, 0.2), (0, 0), (1, 0.1), (2, 0), (3, 0), (5, 0.1),
    (6, 0),
)  # fmt: skip
OF_COPY = (1, 1)

Event = tuple[str, str, int, int]  # table, op, id, n


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """One that nobody else uses, for it is killed."""
    with running() as broker:
        yield broker


class Source:
    """Tables whose rows count their versions, `t` of every type, `k` without a key; and the events that there were."""

    def __init__(self, cursor: pymysql.cursors.Cursor) -> None:
        self._cursor, self.columns = cursor, types_table.every(cursor.connection)
        self.rows: dict[str, dict[int, int]] = {"t": {}, "counters": {}}
        self.events: Counter[Event] = Counter()
        self.run("SET time_zone = '+00:00'")
        self.run(types_table.ddl("t", self.columns))
        self.run("CREATE TABLE counters (id INT PRIMARY KEY, n INT NOT NULL)")
        self.run("CREATE TABLE k (id INT, n INT)")
        names = ", ".join(f"`{column.name}`" for column in self.columns)
        for row in types_table.rows(self.columns, seed=1):
            self.run(f"INSERT INTO t (id, n, {names}) VALUES {row}")
        self.run(f"INSERT INTO counters VALUES {', '.join(f'({i}, 0)' for i in range(60))}")
        for table, rows in self.rows.items():
            self.run(f"SELECT id, n FROM {table}")
            rows.update(dict(self._cursor.fetchall()))
            self.events.update((table, "r", *row) for row in rows.items())

    def run(self, statement: str) -> None:
        self._cursor.execute(statement)

    def count(self, table: str, ids: Sequence[int]) -> None:
        """The next version of each of these rows, in one transaction."""
        self.run(f"UPDATE {table} SET n = n + 1 WHERE id IN ({', '.join(map(str, ids))})")
        for one in ids:
            self.rows[table][one] += 1
            self.events[table, "u", one, self.rows[table][one]] += 1

    def copy(self, table: str, ids: Sequence[int], add: int) -> None:
        """New rows with the values of these."""
        names = ", ".join(f"`{column.name}`" for column in self.columns) if table == "t" else ""
        more = f", {names}" if names else ""
        listed = ", ".join(map(str, ids))
        self.run(f"INSERT INTO {table} (id, n{more}) SELECT id + {add}, 1{more} FROM {table} WHERE id IN ({listed})")
        for one in ids:
            self.rows[table][one + add] = 1
            self.events[table, "c", one + add, 1] += 1

    def delete(self, table: str, ids: Sequence[int]) -> None:
        self.run(f"DELETE FROM {table} WHERE id IN ({', '.join(map(str, ids))})")
        for one in ids:
            self.events[table, "d", one, self.rows[table].pop(one)] += 1

    def rename(self, table: str, one: int, add: int) -> None:
        """Another key: a row is gone, and there is one."""
        self.run(f"UPDATE {table} SET id = id + {add} WHERE id = {one}")
        n = self.rows[table].pop(one)
        self.rows[table][one + add] = n
        self.events.update([(table, "d", one, n), (table, "c", one + add, n)])

    def append(self, n: int) -> None:
        """Rows that nothing but n tells apart."""
        self.run(f"INSERT INTO k VALUES (1, {n}), (1, {n})")
        self.events["k", "c", 1, n] += 2

    def step(self, number: int) -> None:
        """Ten transactions at least, of all kinds."""
        of_types, counted = sorted(self.rows["t"]), sorted(self.rows["counters"])
        for i in range(3):
            self.count("t", of_types[i::3])
            self.count("counters", counted[i::3])
        self.append(number)
        self.copy("t", of_types[number % 7 : number % 7 + 4], 1000 * (number + 1))
        self.copy("counters", counted[:3], 1000 * (number + 1))
        self.rename("counters", counted[-1], 500_000)
        self.delete("counters", counted[5:8])
        if number % 4 == 3:
            self.delete("t", of_types[-6:])


def event(topic: str, value: bytes) -> Event:
    held = json.loads(value)["payload"]
    row = held["after"] or held["before"]
    return topic.rpartition(".")[2], held["op"], row["id"], row["n"]


def require_each_once(broker: Broker, topics: Sequence[str], source: Source) -> None:
    """What a consumer of what is committed has of the topics is what was written, once; that of a key by seq."""
    records = broker.records(*topics)
    seen = Counter(event(record.topic, record.value) for record in records if record.value is not None)
    assert seen == source.events
    deleted = sum(times for (table, op, *_), times in source.events.items() if op == "d" and table != "k")
    assert sum(record.value is None for record in records) == deleted
    order = defaultdict[Any, list[int]](list)
    for record in records:
        order[record.topic, record.key].append(int(record.headers["seq"]))
    assert all(seqs == sorted(seqs) for seqs in order.values())


def killed(config: Path, doors: Sequence[Door], at: int, chosen: random.Random, *, later: float = 0.0) -> str:
    """A run that is killed at that moment, or up to so many seconds later; which moment that was."""
    with SteppedRun(config, doors, config.with_suffix(".log")) as run:
        moment = run.at(at)
        if later:
            run.let_on()
            time.sleep(later := chosen.uniform(0, later))
        assert run.kill(with_jvm=chosen.random() < 0.5) == -SIGKILL
    print(f"killed {later:.3f} s from {moment}")
    return moment


def completed(config: Path) -> None:
    with SteppedRun(config, (), config.with_suffix(".log")) as run:
        assert run.ended() == 0, config.with_suffix(".log").read_text()[-3000:]


def broker_restarted(config: Path, broker: Broker, at: int) -> None:
    """In a run: the broker dies before a commit, and is there again some seconds later."""
    with SteppedRun(config, (Door.RECORDS,), config.with_suffix(".log")) as run:
        assert run.at(at).startswith("before")
        broker.stop(at_once=True)
        run.let_on()
        time.sleep(3)
        broker.start()
        assert run.ended() == 0, config.with_suffix(".log").read_text()[-3000:]


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_a_driver_that_is_killed_and_a_broker_that_restarts_lose_and_double_nothing(
    spark: SparkSession, mysql: MySqlServer, database: str, own_broker: Broker, tmp_path: Path, seed: int
) -> None:
    chosen, broker = random.Random(seed), own_broker
    topics = [f"{database}.{table}" for table in ("t", "counters", "k")]
    kafka = {
        "bootstrap_servers": broker.address, "exact": True, "schemas": True, "transaction_rows": 4, "partitions": 2,
    }  # fmt: skip
    sections: dict[str, Any] = {
        "source": {"url": mysql.url, "tables": [f"{database}.*"]},
        "tables": {f"{database}.k": {"append": True}},
        "sinks": {"out": {"kafka": kafka}},
    }
    config = written(tmp_path / "shop.yml", sections, silver=False)
    of_topics = {"kafka": {"bootstrap_servers": broker.address, "topics": topics[:2], "format": "debezium-json"}}
    copy = written(tmp_path / "copy.yml", {"source": of_topics})
    other = Pipeline.from_yaml(copy, spark)
    with closing(connected(mysql, database=database, charset="utf8mb4")) as connection:
        source = Source(connection.cursor())
        deaths = [killed(config, _KAFKA, at, chosen, later=later) for at, later in OF_SNAPSHOT]
        completed(config)
        require_each_once(broker, topics, source)
        other.run(once=True)
        for number, (at, later) in enumerate(OF_CHANGES):
            source.step(number)
            deaths.append(killed(config, _KAFKA, at, chosen, later=later))
            if number == 5:
                broker_restarted(config, broker, at=4)
        source.step(len(OF_CHANGES))
        completed(config)
    assert len(deaths) == 20
    assert {one.rpartition(": ")[0] for one in deaths} == {f"{m.value}: {d.value}" for m in Moment for d in _KAFKA}
    require_each_once(broker, topics, source)
    for at in OF_COPY:
        killed(copy, _TABLES, at, chosen)
    other.run(once=True)
    lake = Pipeline.from_yaml(written(config, sections), spark)
    lake.run(once=True)
    report = lake.verify()
    assert report.verified, report.to_json()
    assert {one.table: one.rows for one in report.tables}.items() >= {
        f"{database}.{table}": len(rows) for table, rows in source.rows.items()
    }.items()
    assert other.status().dead_letters == {}
    assert events_of(spark, other) == Counter({one: n for one, n in source.events.items() if one[0] != "k"})
    for name in topics[:2]:
        assert silver_types(spark, other, name) == silver_types(spark, lake, name)
        assert silver_rows(spark, other, name) == silver_rows(spark, lake, name)


def written(path: Path, sections: Mapping[str, Any], *, silver: bool = True) -> Path:
    """A pipeline's file, into a folder of its own. What is looked at here does not depend on silver until the end."""
    target = {"path": path.stem, "bronze": "bronze", "checkpoints": f"{path.stem}-checkpoints"}
    target |= {"silver": "silver"} if silver else {}
    path.write_text(yaml.safe_dump({"name": path.stem, "target": target, **sections}))
    return path


def events_of(spark: SparkSession, lake: Pipeline) -> Counter[Event]:
    """What bronze has."""
    rows = bronze(spark, lake).where("op IN ('r', 'c', 'u', 'd')").selectExpr(
        "source_table", "op", "coalesce(after, before) AS row"
    )  # fmt: skip
    events = rows.selectExpr("source_table", "op", "row:id::int AS id", "row:n::int AS n").collect()
    return Counter((row[0].rpartition(".")[2], row[1], row[2], row[3]) for row in events)
