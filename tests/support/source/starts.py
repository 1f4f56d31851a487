"""Places in a server's log as `start` names them, and streams that begin there."""

from __future__ import annotations

import json
import time
from typing import Any

from lakehouse_cdc.model.changelog import Change, Op
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage

PLACES = ["position", "time", "gtid"]


def places(stage: Stage) -> dict[str, Any]:
    """The end of the log, as each value of `start` names it; a server without GTIDs has no name of that kind."""
    file, pos = stage.position()
    gtid = "@@gtid_binlog_pos" if stage.server.version.startswith("mariadb") else "@@gtid_executed"
    time.sleep(1.1)  # before 8.0 and on MariaDB a transaction says a whole second
    [(clock, gtids)] = stage.run(f"SELECT DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%dT%H:%i:%SZ'), {gtid}")
    without = {"position": {"position": f"{file}:{pos}"}, "time": {"time": clock}}
    return without | ({"gtid": {"gtid": gtids}} if gtids else {})


def started(stage: Stage, start: Any, **more: str) -> Driver:
    """A stream that begins there, beside others."""
    text = start if isinstance(start, str) else json.dumps(start)
    folder = str(stage.folder.parent / f"started {len(stage.drivers)}")
    options: dict[str, Any] = {"snapshot": "never", "start": text, "schemaFolder": folder, **more}
    return stage.driver(**options)


def changed(driver: Driver) -> list[Change]:
    """What it emitted, but for the schemas that it began with."""
    return sorted((c for c in driver.log if c.op is not Op.SCHEMA), key=lambda change: change.seq)
