"""`demo`: the whole road on a real server, in one command.

A shop is loaded and keeps being written to while its snapshot is taken, while the binlog is followed, and while silver
is compared with the source. Nothing is staged: the same pipeline that a configuration file would give, on a server
that is a real MySQL, and an exit code that is 0 only if every row was found equal.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql

from lakehouse_cdc.cli.logs import log_to
from lakehouse_cdc.cli.show import Screen, Ticker
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.pipeline.report import RunReport, VerifyReport
from lakehouse_cdc.runtime.session import BRIEF, kernel_cache
from lakehouse_cdc.testing import MySqlServer, Shop, ShopWriter
from lakehouse_cdc.workers.kernels import take_long
from lakehouse_cdc.workers.launcher import python

NEXT = {
    "lakehouse-cdc demo --keep": "the same in the folder lakehouse-demo, to look at; again, and it continues",
    "lakehouse-cdc init --url mysql://USER@HOST --tables 'DB.*' --password-env VAR":
        "a pipeline's file for tables of yours",
}  # fmt: skip
_RATE = 10.0  # transactions a second while everything runs
_PASSWORD = "LAKEHOUSE_CDC_PASSWORD"


@dataclass(frozen=True)
class Place:
    """Where the demo is kept: a folder, None for nowhere; and its tables, where they lie at a URL instead."""

    folder: Path | None
    tables: str = ""
    endpoint: str = ""

    @property
    def target(self) -> dict[str, Any]:
        """Of the configuration."""
        names = {"bronze": "shop_bronze", "silver": "shop_silver"}
        if not self.tables:
            return {"path": "lakehouse", **names}
        storage = {"storage": {"endpoint": self.endpoint}} if self.endpoint else {}
        return {"path": self.tables, "checkpoints": f"{self.tables}/_checkpoints", **names, **storage}


class Phases:
    """How many seconds each part took, by its name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = time.monotonic()

    def end(self, name: str) -> None:
        """A part ends here, and the next one begins."""
        now = time.monotonic()
        self.seconds[name], self._since = round(now - self._since, 1), now


def run_demo(screen: Screen, *, rows: int, place: Place, url: str) -> bool:
    """Run the demo in a folder that is kept, or a temporary one; whether silver was found equal to the source."""
    phases, folder = Phases(), place.folder
    with ExitStack() as stack:
        python()  # what Spark copies its readers from: it compiles or loads the kernels beside the server's start
        if folder is None:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lakehouse-cdc-demo-")))
        else:
            home = folder.absolute()
            home.mkdir(parents=True, exist_ok=True)
        screen.say("1. the source: a shop in a MySQL database, whose server logs each change")
        _say_of_kernels(screen)
        source, opened = stack.enter_context(_server(screen, home, url))
        phases.end("server")
        shop = Shop(opened)
        resumed = _load(screen, shop, rows)
        phases.end("load")
        log = None if folder is not None else stack.enter_context(_passing_log())
        pipeline = stack.enter_context(closing(Pipeline(_config(source, place), home=home, log=log, conf=BRIEF)))
        log_to(pipeline.log)
        with ShopWriter(shop, rate=_RATE) as writer:
            with Ticker(screen, shop.counts()) as ticker:
                screen.say(f"2. bronze and silver: read without a lock, beside {_RATE:.0f} transactions a second")
                first = _run(pipeline, ticker)
                phases.end("first run")
                screen.say("3. what was written meanwhile comes from the binlog")
                second = _run(pipeline, ticker)
                phases.end("second run")
            screen.say("4. the proof: each row of silver against the source, at one binlog position")
            with screen.waiting("comparing"):
                report = pipeline.verify()
            phases.end("verify")
        data = {
            **report.to_json(),
            "resumed": resumed,
            "seconds": round(sum(phases.seconds.values()), 1),
            "phases": phases.seconds,
            "written_meanwhile": vars(writer.tally),
            "runs": [first.to_json(), second.to_json()],
            "lakehouse": pipeline.layout.path if folder is not None else None,
        }
        if not screen.as_json:
            _summary(screen, pipeline, report, data, kept=folder is not None)
        screen.result(data)
        return report.verified


@contextmanager
def _passing_log() -> Iterator[Path]:
    """A log beside the demo's temporary folder: it stays if the demo fails, and the error names it."""
    handle, name = tempfile.mkstemp(prefix="lakehouse-cdc-demo-", suffix=".log")
    os.close(handle)
    yield Path(name)
    os.unlink(name)


def _say_of_kernels(screen: Screen) -> None:
    if take_long(Path(kernel_cache())):
        screen.say("   compiling what reads rows, once on this machine, for about a minute")


def _run(pipeline: Pipeline, ticker: Ticker) -> RunReport:
    report = pipeline.run(once=True, progress=ticker)
    if report.interrupted:
        raise KeyboardInterrupt
    return report


@contextmanager
def _server(
    screen: Screen, home: Path, url: str
) -> Iterator[tuple[dict[str, str], Callable[[], pymysql.Connection[Any]]]]:
    """The source's part of the configuration, and how to open a connection that writes."""
    if url:
        options = ConnectionOptions.from_url(url, password=os.environ.get(_PASSWORD, ""))
        yield {"url": url, "password": f"${{env:{_PASSWORD}}}"}, lambda: connect(options).connection
        return
    with ExitStack() as stack:
        with screen.waiting("starting MySQL"):
            server = stack.enter_context(MySqlServer.start(home / "mysql"))
        screen.say(f"   MySQL runs at {server.url}")
        yield {"url": f"mysql://root@127.0.0.1:{server.port}"}, server.connect


def _load(screen: Screen, shop: Shop, rows: int) -> bool:
    """Fill the shop; True if it was there already."""
    shop.create()
    present = sum(shop.counts().values())
    if present:
        screen.say(f"   the shop is there already, with {present:,} rows: continuing where it was")
        return True
    began = time.monotonic()
    loaded = sum(shop.load(rows).values())
    screen.say(f"   loaded {loaded:,} rows into {shop.database} in {time.monotonic() - began:.1f} s")
    return False


def _config(source: dict[str, str], place: Place) -> PipelineConfig:
    return PipelineConfig.parse({"name": "shop", "source": {**source, "tables": ["shop.*"]}, "target": place.target})


def _summary(screen: Screen, pipeline: Pipeline, report: VerifyReport, data: dict[str, Any], *, kept: bool) -> None:
    """What was done, and how to look at it."""
    read, changed = (run["tables"] for run in data["runs"])

    def count(table: str, ops: str) -> int:
        return sum(int(run.get(table, {}).get(op, 0)) for run in (read, changed) for op in ops)

    rows = [
        [t.table, count(t.table, "r"), count(t.table, "c"), count(t.table, "u"), count(t.table, "d"), t.rows,
         "equal" if t.equal else f"{t.differing} differ"]
        for t in report.tables
    ]  # fmt: skip
    screen.table("", ["table", "read", "inserts", "updates", "deletes", "silver rows", "source"], rows)
    verdict, style = ("verified:", "green") if report.verified else ("NOT verified:", "red")
    written = data["written_meanwhile"]
    compared = (
        f"{report.rows:,} rows of silver {'equal' if report.verified else 'were compared with'} the source at"
        f" {report.position}, though the shop committed {written['transactions']:,} transactions meanwhile"
    )
    screen.say(compared, verdict, style)
    screen.say(f"{data['seconds']} s: {', '.join(f'{name} {took}' for name, took in data['phases'].items())}")
    layout = pipeline.layout
    if not kept:
        screen.say("Next:")
        for command, what in NEXT.items():
            screen.command(command)
            screen.say(f"      {what}")
        return
    screen.say(f"bronze: {layout.changes}")
    for t in report.tables:
        screen.say(f"silver: {layout.silver_table(t.table)}")
    screen.say("Look at them with any Delta reader, for example:")
    screen.say(f"  SELECT op, count(*) FROM delta.`{layout.changes}` GROUP BY op")
