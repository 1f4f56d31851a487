"""Requests as rows of `<bronze>.signals`: each is done once, in order, and answered; what cannot be done is refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.lake.readers.choice import ReaderOnDemand
from lakehouse_cdc.lake.tables import exists, read
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.pipeline import signal_table
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.pipeline.report import RunReport
from lakehouse_cdc.pipeline.requests import Answer, Request
from lakehouse_cdc.pipeline.signal_table import SignalTable
from lakehouse_cdc.testing import MySqlServer
from tests.support.commands import CONFIG, call
from tests.support.servers import connected


def ask(
    spark: SparkSession, layout: Layout, name: str, action: str | None, what: Sequence[str] = (), where: str = ""
) -> None:
    """As a user would, in SQL."""
    texts = f"array({', '.join(repr(one) for one in what)})" if what else "NULL"
    said = "NULL" if action is None else repr(action)
    spark.sql(
        f"INSERT INTO {layout.signals.sql} (id, asked_at, action, what, `where`)"
        f" VALUES ('{name}', current_timestamp(), {said}, {texts}, {repr(where) if where else 'NULL'})"
    )


def answers(spark: SparkSession, layout: Layout) -> dict[str, tuple[str, str]]:
    rows = read(spark, layout.signals).where("answer IS NOT NULL").collect()
    assert len({row.id for row in rows}) == len(rows)
    return {row.id: (row.answer, row.text) for row in rows}


class Asked:
    """Stands for the pipeline: what was asked of it, and an error to be raised next."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.fails: BaseException | None = None

    def __call__(self, request: Request) -> Answer:
        fails, self.fails = self.fails, None
        if fails is not None:
            raise fails
        self.requests.append(request)
        return Answer(f"did {request.action.value}", {})


def test_each_request_is_answered_once_and_in_its_order(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever fails: the source, the deed, the process after the deed; a second row of an id asks for nothing."""
    layout, asked = Layout("shop", "bronze", path=str(tmp_path)), Asked()

    def table() -> SignalTable:
        moments = iter(range(0, 9_000, 100))
        return SignalTable(spark, layout, lambda: ReaderOnDemand(lambda: spark), asked, clock=moments.__next__)

    table().tick()
    ask(spark, layout, "b", "snapshot", ["shop.a", "shop.*"], where="x = 1")
    ask(spark, layout, "a", "pause")
    asked.fails = codes.SERVER_RESTARTING.error("away")
    waiting = table()
    waiting.tick()
    assert answers(spark, layout) == {}  # both wait
    assert not asked.requests
    waiting.tick()
    assert [(one.action.value, one.what, one.where) for one in asked.requests] == [
        ("snapshot", ("shop.a", "shop.*"), "x = 1"), ("pause", (), ""),
    ]  # fmt: skip
    assert answers(spark, layout) == {"b": ("done", "did snapshot"), "a": ("done", "did pause")}
    ask(spark, layout, "a", "resume")
    for wrong, (action, what) in {"w1": (None, ()), "w2": ("stopp", ()), "w3": ("resume", ("x",))}.items():
        ask(spark, layout, wrong, action, what)
    waiting.tick()
    said = answers(spark, layout)
    assert len(asked.requests) == 2
    assert [said[wrong][0] for wrong in ("w1", "w2", "w3")] == ["refused"] * 3
    assert said["w2"][1].startswith("there is no signal 'stopp'; one of snapshot, add,")
    ask(spark, layout, "c", "resume")
    asked.fails = codes.TABLE_UNKNOWN.error("no such table", hint="another")
    waiting.tick()
    assert answers(spark, layout)["c"] == ("refused", "no such table; another")


def test_a_request_whose_answer_is_lost_is_done_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, asked = Layout("shop", "bronze", path=str(tmp_path)), Asked()
    table = SignalTable(
        spark, layout, lambda: ReaderOnDemand(lambda: spark), asked, clock=iter(range(0, 900, 100)).__next__
    )
    ask(spark, layout, "a", "pause")
    with monkeypatch.context() as patched:

        def dies(*_: Any) -> None:
            raise KeyboardInterrupt

        patched.setattr(signal_table, "append", dies)
        with pytest.raises(KeyboardInterrupt):
            table.tick()
    table.tick()
    table.tick()
    assert [one.action.value for one in asked.requests] == ["pause", "pause"]
    assert answers(spark, layout) == {"a": ("done", "did pause")}


def test_a_table_of_another_is_not_taken(spark: SparkSession, tmp_path: Path) -> None:
    layout = Layout("shop", "bronze", path=str(tmp_path))
    spark.sql(f"CREATE TABLE {layout.signals.sql} (id STRING) USING delta")
    with pytest.raises(CdcError, match="belongs"):
        SignalTable(spark, layout, lambda: ReaderOnDemand(lambda: spark), Asked())


class Running:
    """A run of a pipeline that follows the table `a` of a database, on a thread."""

    def __init__(self, spark: SparkSession, mysql: MySqlServer, database: str, folder: Path) -> None:
        self.config = folder / "pipeline.yml"
        text = CONFIG.format(url=mysql.url, database=database).replace(f"{database}.*", f"{database}.a")
        self.config.write_text(f"{text}  signals: true\n")
        self.pipeline = Pipeline.from_yaml(self.config, spark)
        self.spark, self.database, self.layout = spark, database, self.pipeline.layout
        self.ended: list[RunReport | BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._asked = 0

    def _run(self) -> None:
        try:
            self.ended.append(self.pipeline.run(every_seconds=0.2))
        except BaseException as error:
            self.ended.append(error)

    def start(self) -> None:
        self._thread.start()
        self.until(lambda: self.rows("a") == 1)

    def until(self, holds: Callable[[], bool], seconds: float = 180.0) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert not self.ended or holds(), self.ended  # it may have been the last thing that it did
            assert time.monotonic() < end
            time.sleep(0.3)

    def answered(self, action: str, *tables: str) -> tuple[str, str]:
        self._asked += 1
        name = str(self._asked)
        ask(self.spark, self.layout, name, action, [f"{self.database}.{table}" for table in tables])
        self.until(lambda: name in answers(self.spark, self.layout))
        return answers(self.spark, self.layout)[name]

    def rows(self, table: str) -> int:
        silver = self.layout.silver_table(f"{self.database}.{table}")
        return read(self.spark, silver).count() if exists(self.spark, silver) else -1

    def report(self) -> RunReport:
        self._thread.join(180)
        [report] = self.ended
        assert isinstance(report, RunReport), report
        return report


@pytest.fixture
def running(
    spark: SparkSession, mysql: MySqlServer, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Running:
    """Not started yet, over three tables of one row."""
    monkeypatch.setattr(signal_table, "_EVERY", 0.3)
    with closing(connected(mysql)) as connection, connection.cursor() as cursor:
        for table in ("a", "b", "c"):
            cursor.execute(f"CREATE TABLE {database}.{table} (id INT PRIMARY KEY)")
            cursor.execute(f"INSERT INTO {database}.{table} VALUES (1)")
    return Running(spark, mysql, database, tmp_path)


@pytest.mark.long
def test_tables_come_and_go_while_it_runs(running: Running, mysql: MySqlServer, database: str) -> None:
    running.start()
    with closing(connected(mysql)) as connection, connection.cursor() as cursor:
        assert running.answered("add", "b") == ("done", f"followed from the current run or the next on: {database}.b")
        running.until(lambda: running.rows("b") == 1)
        assert running.answered("add", "nothing")[0] == "refused"
        assert running.answered("drop", "a")[0] == "done"
        cursor.execute(f"INSERT INTO {database}.b VALUES (2)")
        running.until(lambda: running.rows("b") == 2)
        cursor.execute(f"INSERT INTO {database}.a VALUES (2)")
        cursor.execute(f"INSERT INTO {database}.b VALUES (3)")
        running.until(lambda: running.rows("b") == 3)
        assert running.rows("a") == 1
        assert call(0, "status", "-c", running.config)["asked_patterns"] == [f"!{database}.a", f"{database}.b"]
        assert running.answered("drop", "b") == (
            "refused",
            "no table would be left; name fewer, or let the pipeline rest: lakehouse-cdc signal -c pipeline.yml pause",
        )
        assert running.answered("add", "a")[0] == "done"
        running.until(lambda: running.rows("a") == 2)
    assert running.answered("stop")[0] == "done"
    running.report()


@pytest.mark.long
def test_a_run_rests_and_ends_when_all_is_read(running: Running, mysql: MySqlServer, database: str) -> None:
    running.start()
    with closing(connected(mysql)) as connection, connection.cursor() as cursor:
        assert running.answered("pause")[0] == "done"
        active = running.spark.streams
        running.until(lambda: not [q for q in active.active if q.name and q.name.startswith("shop: ")])
        assert running.answered("snapshot", "a")[0] == "done"
        assert running.answered("add", "b", "c")[0] == "done"
        cursor.execute(f"INSERT INTO {database}.a VALUES (2)")
        ask(running.spark, running.layout, "last", "stop")
        assert running.answered("resume")[0] == "done"
        report = running.report()
    assert [running.rows(table) for table in ("a", "b", "c")] == [2, 1, 1]
    assert [report.rows[f"{database}.{table}"]["r"] for table in ("a", "b", "c")] == [1 + 2, 1, 1]
    assert running.pipeline.verify().verified
    assert not running.pipeline.signals.stopping
    assert call(0, "run", "-c", running.config, "--once")["tables"] == {}
