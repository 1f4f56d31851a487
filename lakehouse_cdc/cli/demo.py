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
from pathlib import Path
from typing import Any

import pymysql

from lakehouse_cdc.cli.logs import log_to
from lakehouse_cdc.cli.show import Screen, Ticker
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.pipeline.report import RunReport, VerifyReport
from lakehouse_cdc.runtime.session import BRIEF
from lakehouse_cdc.testing import MySqlServer, Shop, ShopWriter

_RATE = 10.0  # transactions a second while everything runs
_PASSWORD = "LAKEHOUSE_CDC_PASSWORD"


def run_demo(screen: Screen, *, rows: int, folder: Path | None, url: str) -> bool:
    """Run the demo in `folder` (kept) or a temporary one; whether silver was found equal to the source."""
    began = time.monotonic()
    with ExitStack() as stack:
        if folder is None:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lakehouse-cdc-demo-")))
        else:
            home = folder.absolute()
            home.mkdir(parents=True, exist_ok=True)
        source, opened = stack.enter_context(_server(screen, home, url))
        shop = Shop(opened)
        resumed = _load(screen, shop, rows)
        log = None if folder is not None else stack.enter_context(_passing_log())
        pipeline = stack.enter_context(closing(Pipeline(_config(source), home=home, log=log, conf=BRIEF)))
        log_to(pipeline.log)
        with ShopWriter(shop, rate=_RATE) as writer:
            with Ticker(screen, shop.counts()) as ticker:
                screen.say("reading the snapshot, while the shop keeps writing")
                first = _run(pipeline, ticker)
                screen.say("following the binlog, while the shop keeps writing")
                second = _run(pipeline, ticker)
            screen.say("comparing silver with the source at one position, while the shop keeps writing")
            report = pipeline.verify()
        data = {
            **report.to_json(),
            "resumed": resumed,
            "seconds": round(time.monotonic() - began, 1),
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
    screen.say("starting a MySQL server (the first time, it is fetched)")
    with MySqlServer.start(home / "mysql") as server:
        screen.say(f"MySQL runs at {server.url}")
        yield {"url": f"mysql://root@127.0.0.1:{server.port}"}, server.connect


def _load(screen: Screen, shop: Shop, rows: int) -> bool:
    """Fill the shop; True if it was there already."""
    shop.create()
    present = sum(shop.counts().values())
    if present:
        screen.say(f"the shop is there already, with {present:,} rows: continuing where it was")
        return True
    began = time.monotonic()
    loaded = sum(shop.load(rows).values())
    screen.say(f"loaded {loaded:,} rows into {shop.database} in {time.monotonic() - began:.1f} s")
    return False


def _config(source: dict[str, str]) -> PipelineConfig:
    return PipelineConfig.parse(
        {
            "name": "shop",
            "source": {**source, "tables": ["shop.*"]},
            "target": {"path": "lakehouse", "bronze": "shop_bronze", "silver": "shop_silver"},
        }
    )


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
    screen.table("Demo", ["table", "read", "inserts", "updates", "deletes", "silver rows", "source"], rows)
    verdict, style = ("verified:", "green") if report.verified else ("NOT verified:", "red")
    compared = f"{report.rows:,} rows compared at {report.position}, in {data['seconds']} s altogether"
    screen.say(compared, verdict, style)
    layout = pipeline.layout
    if not kept:
        screen.say("The tables were temporary; run with --keep to keep them, and again to continue.")
        return
    screen.say(f"bronze: {layout.changes}")
    for t in report.tables:
        screen.say(f"silver: {layout.silver_table(t.table)}")
    screen.say("Look at them with any Delta reader, for example:")
    screen.say(f"  SELECT op, count(*) FROM delta.`{layout.changes}` GROUP BY op")
