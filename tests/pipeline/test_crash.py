"""The driver dies at random moments, again and again, and nothing is lost, doubled or invented.

The driver is `lakehouse-cdc run` in a process of its own: killed at once (SIGKILL), alone or with its JVM, or asked to
end (Ctrl-C). An independent reader of the binlog says what bronze must hold.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import GtidEvent
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
from pyspark.sql import Row, SparkSession

from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer, Shop, ShopWriter
from tests.support.pipeline_process import CONFIG, Driver, last
from tests.support.positions import binlog_end

KEYS = {"customers": ("id",), "products": ("code",), "orders": ("id",), "order_lines": ("order_id", "line")}


@pytest.fixture
def shop(mysql: MySqlServer, database: str) -> Shop:
    shop = Shop(mysql.connect, database, seed=23)
    shop.create()
    return shop


@pytest.fixture
def config(mysql: MySqlServer, database: str, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    path = tmp_path / "pipeline.yml"
    path.write_text(CONFIG.format(url=mysql.url, database=database, chunk_rows=request.param))
    return path


def events_after(mysql: MySqlServer, database: str, start: tuple[str, int]) -> Counter[tuple[str, str, str]]:
    """(gtid, table, op) -> rows in the binlog from a position on, by another reader: a key update is two."""
    reader = BinLogStreamReader(
        connection_settings={"host": "127.0.0.1", "port": mysql.port, "user": "root", "password": ""},
        server_id=34200, log_file=start[0], log_pos=start[1], resume_stream=True, only_schemas=[database],
        only_events=[GtidEvent, WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
    )  # fmt: skip
    counts: Counter[tuple[str, str, str]] = Counter()
    gtid = ""
    with closing(reader):
        for event in reader:
            if isinstance(event, GtidEvent):
                gtid = str(event.gtid)
                continue
            for row in event.rows:
                for op in operations(event, row):
                    counts[gtid, f"{database}.{event.table}", op] += 1
    return counts


def operations(event: Any, row: dict[str, Any]) -> str:
    if isinstance(event, WriteRowsEvent):
        return "c"
    if isinstance(event, DeleteRowsEvent):
        return "d"
    before, after = row["before_values"], row["after_values"]
    return "u" if all(before[k] == after[k] for k in KEYS[event.table]) else "dc"


def position(mysql: MySqlServer) -> tuple[str, int]:
    with closing(mysql.connect()) as connection:
        return binlog_end(connection)


def assert_exact(spark: SparkSession, lake: Pipeline, mysql: MySqlServer, shop: Shop, start: tuple[str, int]) -> None:
    """Bronze holds each event once, none that never was, all since the snapshot's end; silver is the source.

    `start` is a position before the first run. An event of the time of the snapshot may be in its rows instead.
    """
    bronze = spark.read.format("delta").load(str(lake.layout.changes)).persist()
    keyed = bronze.selectExpr("source_table", "op", "to_json(key) AS key", "seq")
    assert keyed.distinct().count() == keyed.count()
    end = bronze.where("op = 'r'").orderBy("seq", ascending=False).select("seq", "position").head()
    assert isinstance(end, Row)

    def held(after: str) -> Counter[tuple[str, str, str]]:
        events = bronze.where(f"op IN ('c', 'u', 'd') AND seq > {after}BD")
        rows = events.groupBy("position.gtid", "source_table", "op").count().collect()
        return Counter({(r["gtid"], r["source_table"], r["op"]): r["count"] for r in rows})

    assert not held("0") - events_after(mysql, shop.database, start)
    since = events_after(mysql, shop.database, (end.position.file, end.position.pos))
    assert len(since) > 100
    assert held(str(end.seq)) == since
    bronze.unpersist()
    report = lake.verify()
    assert report.verified, report.to_json()
    assert {t.table.partition(".")[2]: t.rows for t in report.tables} == shop.counts()


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("config", [500], indirect=True)
def test_interrupted_and_killed_it_goes_on(spark: SparkSession, mysql: MySqlServer, shop: Shop, config: Path) -> None:
    shop.load(2000)
    lake = Pipeline.from_yaml(config, spark)
    checkpoint, start = Path(lake.checkpoint("bronze")), position(mysql)
    with ShopWriter(shop, rate=10) as writer:
        for number, with_jvm in enumerate((False, True)):
            with Driver(config) as driver:
                driver.wait_for(checkpoint, last(checkpoint))
                time.sleep(0.7 * number)
                driver.kill(with_jvm=with_jvm)
        with Driver(config) as driver:
            driver.wait_for(checkpoint, last(checkpoint) + 1)
            code, out, err = driver.interrupt()
        assert code == 130, (out, err)
        assert err == "interrupted; what was committed stays, and the next run continues from there\n"
        assert "Traceback" not in out
        assert "Exception" not in out
        lake.run(once=True)
        finish(writer)
    lake.run(once=True)
    assert_exact(spark, lake, mysql, shop, start)


def finish(writer: ShopWriter) -> None:
    """Let it write on for some transactions, so that there are changes after the snapshot, however late that ended."""
    enough = writer.transactions + 150
    while writer.transactions < enough:
        writer.check()
        time.sleep(0.1)


def moments(rng: random.Random, kills: int) -> Iterator[tuple[bool, float, bool]]:
    """(wait for a batch first, seconds, with the JVM)"""
    for number in range(kills):
        after_a_batch = number % 4 != 3
        yield after_a_batch, rng.uniform(0, 6) if after_a_batch else rng.uniform(3, 25), rng.random() < 0.5


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("config", [400], indirect=True)
def test_killed_twenty_times(spark: SparkSession, mysql: MySqlServer, shop: Shop, config: Path) -> None:
    shop.load(20_000)
    lake = Pipeline.from_yaml(config, spark)
    checkpoint, start = Path(lake.checkpoint("bronze")), position(mysql)
    rng = random.Random(20)
    with ShopWriter(shop, rate=5) as writer:
        for after_a_batch, seconds, with_jvm in moments(rng, 22):
            with Driver(config) as driver:
                if after_a_batch:
                    driver.wait_for(checkpoint, last(checkpoint))
                time.sleep(seconds)
                driver.kill(with_jvm=with_jvm)
        lake.run(once=True)
        finish(writer)
    lake.run(once=True)
    assert_exact(spark, lake, mysql, shop, start)


class Adding:
    """Writes to a log without a key, the same rows again and again, and to a table with a key that only we know of."""

    def __init__(self, mysql: MySqlServer, database: str) -> None:
        self._connection = mysql.connect(database=database, autocommit=True)
        self._rng, self._done = random.Random(5), threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.statements = 0
        for _ in range(3000):
            self._execute("INSERT INTO log VALUES (%s, 'before')", self._rng.randrange(100))
        self._execute("INSERT INTO given SELECT DISTINCT a, a FROM log")

    def _execute(self, statement: str, *values: int) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values)
        self.statements += 1

    def _write(self) -> None:
        while not self._done.wait(0.02):
            a = self._rng.randrange(100)
            self._execute("INSERT INTO log VALUES (%s, 'while it runs')", a % 10)
            if self._rng.random() < 0.2:
                self._execute("DELETE FROM given WHERE a = %s", a)
            else:
                self._execute("INSERT INTO given VALUES (%s, 1)", 100 + self.statements)
                self._execute("UPDATE given SET b = b + 1 WHERE a < %s ORDER BY b LIMIT 1", 10 * a)

    def __enter__(self) -> Adding:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        wrote = self._thread.is_alive()
        self._done.set()
        self._thread.join()
        self._connection.close()
        assert wrote, "the writer has failed"


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("config", [400], indirect=True)
def test_killed_with_tables_that_have_no_key(
    spark: SparkSession, mysql: MySqlServer, database: str, config: Path
) -> None:
    """Of rows that nothing tells apart, a replayed batch would show as too many, a lost one as too few."""
    with closing(mysql.connect(database=database)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE log (a INT NOT NULL, b VARCHAR(20))")
        cursor.execute("CREATE TABLE given (a INT NOT NULL, b INT)")
    tables = f"tables: {{{database}.log: {{append: true}}, {database}.given: {{key: [a]}}}}\n"
    config.write_text(config.read_text() + tables)
    lake, rng = Pipeline.from_yaml(config, spark), random.Random(8)
    checkpoint = Path(lake.checkpoint("silver"))
    with Adding(mysql, database):
        for number in range(6):
            with Driver(config) as driver:
                driver.wait_for(checkpoint, last(checkpoint))
                time.sleep(rng.uniform(0, 3))
                driver.kill(with_jvm=number % 2 == 0)
        lake.run(once=True)
    lake.run(once=True)
    report = lake.verify()
    assert report.verified, report.to_json()
    with closing(mysql.connect(database=database)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT (SELECT COUNT(*) FROM log), (SELECT COUNT(*) FROM given)")
        [(log, given)] = cursor.fetchall()
    assert {t.table: t.rows for t in report.tables} == {f"{database}.log": log, f"{database}.given": given}
    assert log > 3000
