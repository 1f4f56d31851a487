"""What a stream makes of the tables of the census on one server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pymysql

from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.mysql.uncaptured import uncaptured
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.source.state.offset_codec import restored
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.testing import MySqlServer
from tests.census.tables import BESIDE, WRITES, Row, rows
from tests.support.source.driver import Driver, hashable
from tests.support.source.play import images_of
from tests.support.source.stage import Stage, on_stage

NOT_MADE = ""  # the server makes no such table
LEFT_OUT = "not captured: "


def outcomes(server: MySqlServer, database: str, folder: Path) -> dict[Row, str]:
    """How each table is captured, or why not, on that server; they are made in `database`.

    Raises AssertionError where one that is captured does not have the rows that its source has.
    """
    [column] = [_column(stage) for stage in on_stage(server, database, folder)]
    return column


def _column(stage: Stage) -> dict[Row, str]:
    stage.run("SET time_zone = '+00:00'")
    there = made(stage.run)
    driver = stage.driver(chunkRows="100000", chunksPerTrigger="100")
    stage.snapshot(driver)
    for row in there:
        for write in WRITES:
            with suppress(pymysql.Error):  # ARCHIVE updates nothing, BLACKHOLE holds nothing, and so on
                stage.run(write.format(row.name))
    stage.drain(driver)
    store = SchemaStore(driver.options["schemaFolder"])
    offset = restored(driver.offset, store)
    assert offset is not None
    schemas = {name: store.get(state.schema) for name, state in offset.captured.items()}
    reasons = _left_out(stage, offset)
    column = dict.fromkeys(rows(), NOT_MADE)
    for row in there:
        name = stage.name(row.name)
        column[row] = _how(stage, driver, row, schemas[name]) if name in schemas else f"{LEFT_OUT}{reasons[name]}"
    return column


def made(run: Callable[[str], object]) -> list[Row]:
    """The tables that a server makes, of which `run` executes a statement in their database; each has some rows."""
    for sql in BESIDE:
        run(sql)
    there = []
    for row in rows():
        create, fill = row.statements
        try:
            run(create)
        except pymysql.Error:
            continue
        there.append(row)
        with suppress(pymysql.Error):
            run(fill)
    return there


def _left_out(stage: Stage, offset: Offset) -> dict[str, str]:
    """Why tables are not followed, by name, without the error's code and what to do."""
    with connect(ConnectionOptions.from_url(stage.server.url)) as session:
        reasons = uncaptured(session, Selection([f"{stage.database}.*"])).all
    for name, reason in offset.quarantined.items():
        reasons[name] = reason.split("; ")[0].partition(": ")[2].removeprefix(f"{name} ")
    return reasons


def _how(stage: Stage, driver: Driver, row: Row, schema: TableSchema) -> str:
    columns = [column.name for column in schema.captured]
    assert Counter(images_of(schema.name, driver.log)) == _images(stage, row, columns), schema.name
    left_out = ", ".join(column.name for column in schema.columns if not column.captured)
    how = f"by ({', '.join(schema.key)})" if schema.key else "every copy of a row"
    return f"{how}, without {left_out}" if left_out else how


def _images(stage: Stage, row: Row, columns: list[str]) -> Counter[Any]:
    """The source's rows; `*` would leave invisible columns out."""
    values = stage.run(f"SELECT {', '.join(columns)} FROM {row.name}")
    return Counter(hashable(dict(zip(columns, map(_in_utc, cells), strict=True))) for cells in values)


def _in_utc(value: Any) -> Any:
    """Of the census's columns the TIMESTAMPs alone hold a time."""
    return value.replace(tzinfo=timezone.utc) if isinstance(value, datetime) else value
