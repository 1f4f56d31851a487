"""What the commands that hints of errors name do to a stream without Spark."""

from __future__ import annotations

import re
import shlex
from itertools import count
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from lakehouse_cdc.cli.main import app
from lakehouse_cdc.errors import CdcError, Code
from lakehouse_cdc.model.offset import Identity, Offset
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.state_machine import advanced
from lakehouse_cdc.model.table_events import TableRecorded
from lakehouse_cdc.model.table_name import matches
from lakehouse_cdc.pipeline.requests import Action
from lakehouse_cdc.source.requests.requests import Signals
from lakehouse_cdc.source.state.offset_codec import restored
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.source.state.stream_start import Beginning
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage

_COMMAND = re.compile(r"lakehouse-cdc (\w+)((?: [^\s;,()]+)+)")
_folders = count(1)


def signalled(driver: Driver, hint: str) -> None:
    """Give the command `lakehouse-cdc signal` of a hint: the last one, if there are several."""
    given, signals = _given(hint, "signal"), Signals(driver.options["schemaFolder"])
    action, what = given["action"], given["what"]
    offset = restored(driver.offset, SchemaStore(driver.options["schemaFolder"]))
    assert offset is not None
    assert what, hint
    if action is Action.PASS:
        for position in what:
            signals.pass_statement(Position.parse(position), offset.epoch)
        return
    assert action is Action.SNAPSHOT, hint
    for pattern in what:
        tables = [name for name in offset.tables if matches(name, pattern)]
        assert tables, f"no table matches {pattern}"
        for table in tables:
            signals.request(table)


def reset(stage: Stage, driver: Driver, hint: str, last: Offset) -> Driver:
    """Give the command `lakehouse-cdc reset --keep-tables` of a hint: the stream that the next run begins.

    Its checkpoint is new, and bronze is as it was at `last`, up to which the stream before was exact. All that bronze
    says of it then are an epoch and the tables of which it has rows (see `pipeline.start.settling`).
    """
    assert _given(hint, "reset")["keep_tables"] is True, hint
    driver.stop()
    folder = str(stage.folder.parent / f"anew {next(_folders)}")
    old, new = SchemaStore(driver.options["schemaFolder"]), SchemaStore(folder)
    tables = {n: advanced(None, TableRecorded(new.put(old.get(s.schema)))) for n, s in last.tables.items()}
    identity = Identity("", last.position.file, 0)
    before = Offset(last.epoch, identity, last.position, floor=last.position, tables=tables)
    Beginning(folder).begin_after(before)
    again = stage.driver()
    again.options = {**driver.options, "schemaFolder": folder}
    again.log.extend(driver.log)
    again.restart()
    return again


def of(driver: Driver) -> Offset:
    """Where the stream is."""
    offset = restored(driver.offset, SchemaStore(driver.options["schemaFolder"]))
    assert offset is not None
    return offset


def _given(hint: str, command: str) -> dict[str, Any]:
    """The arguments of the last such command in a hint, as the command line itself reads them."""
    given = [shlex.split(words) for name, words in _COMMAND.findall(hint) if name == command]
    assert given, hint
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    arguments = group.commands[command].make_context(command, given[-1]).params
    assert arguments["config"], f"a command without -c pipeline.yml: {hint}"
    return arguments


def stopped(driver: Driver, code: Code[Any]) -> CdcError:
    """The error at which the next batches stop, twice the same; the process is another one then."""
    for _ in range(2):
        with pytest.raises(code.of) as caught:
            driver.batches(5)
        assert caught.value.code is code
        driver.restart()
    error: CdcError = caught.value
    return error
