"""What a running pipeline holds: memory, open files, connections, the files of its lake, and the logs of its tables."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from bench.tables import connected
from lakehouse_cdc.testing import MySqlServer

_TRIES = 9


@dataclass(frozen=True)
class Holding:
    """At `second` after the beginning. `memory_mb` is of all its processes, pages that are shared once.

    `handles`: their open files and sockets. `sessions`: its connections at the server. `files`: data files of all
    tables as they are; `on_disk`: data files and deletion vectors, with those that were replaced. `log`: the longest
    that a reader of one of
    the tables has to read of Delta's log after its last checkpoint, in versions. `state_files` are those of the
    checkpoints, `printed_kb` what the run has printed. `lag`: how old the newest change in silver is, in seconds.
    `others`: how many cores programs that do not belong to the benchmark have used since the look before.
    """

    second: int
    memory_mb: int
    processes: int
    handles: int
    sessions: int
    files: int
    on_disk: int
    log: int
    state_files: int
    printed_kb: int
    lag: float
    others: float


class Others:
    """How much the machine does for others than this process and those that it has started."""

    def __init__(self) -> None:
        self._last = self._used()

    def cores(self) -> float:
        """How many cores that were on the average, since this was last asked."""
        (moment, seconds), self._last = self._last, self._used()
        return max(0.0, (self._last[1] - seconds) / (self._last[0] - moment))

    def _used(self) -> tuple[float, float]:
        """The time, and the seconds of all cores by then."""
        mine = 0.0
        for one in [psutil.Process(), *psutil.Process().children(recursive=True)]:
            with suppress(psutil.Error):  # it has ended, and counts for its parent
                mine += sum(one.cpu_times()[:4])
        machine = psutil.cpu_times()
        return time.monotonic(), machine.user + machine.nice + machine.system - mine


def held_by(pid: int, server: MySqlServer, file: Path, second: float, others: Others) -> Holding:
    """What the run of that pipeline's file holds now."""
    lake = file.parent / "lake"
    memory = handles = processes = 0
    for one in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        with suppress(psutil.Error):  # a worker that has just ended
            info = one.memory_full_info()
            memory += getattr(info, "pss", info.uss)
            handles += one.num_fds()
            processes += 1
    with closing(connected(server.port)) as connection, connection.cursor() as cursor:
        mine = "user = 'root' AND db IS NULL AND id <> CONNECTION_ID()"  # a writer has a database
        cursor.execute(f"SELECT COUNT(*) FROM information_schema.processlist WHERE {mine}")
        [(sessions,)] = cursor.fetchall()
    files = list(_files(lake))
    logs = sorted({one.parent for one in files if one.parent.name == "_delta_log"})
    data = [one for one in files if one.suffix in (".parquet", ".bin") and "_delta_log" not in one.parts]
    return Holding(
        second=round(second), memory_mb=round(memory / 1e6), processes=processes, handles=handles,
        sessions=int(sessions), files=sum(map(_live, logs)), on_disk=len(data), log=max(map(_after_checkpoint, logs)),
        state_files=sum(lake / "_checkpoints" in one.parents for one in files),
        printed_kb=round(file.with_suffix(".log").stat().st_size / 1e3), lag=round(_lag(lake), 1),
        others=round(others.cores(), 1),
    )  # fmt: skip


def _files(folder: Path) -> Iterator[Path]:
    """All files below a folder, in which others come and go meanwhile."""
    for where, _, names in os.walk(folder):  # which passes over a folder that is gone by now
        yield from (Path(where, name) for name in names)


def _live(log: Path) -> int:
    """How many files the table has; one that gets commits as deltalake opens it may have to be opened again."""
    for _ in range(_TRIES):
        with suppress(DeltaError):
            return int(DeltaTable(log.parent.as_uri()).get_add_actions().num_rows)
    return int(DeltaTable(log.parent.as_uri()).get_add_actions().num_rows)


def _after_checkpoint(log: Path) -> int:
    """How many versions of a table follow its last checkpoint."""
    newest = max(int(one.stem) for one in log.glob("*.json") if one.stem.isdecimal())
    try:
        return newest - int(json.loads((log / "_last_checkpoint").read_text())["version"])
    except FileNotFoundError:
        return newest + 1


def _lag(lake: Path) -> float:
    ledger = DeltaTable(str(lake / "silver" / "ledger")).to_pyarrow_table(columns=["commit_ts"])
    return time.time() - float(max(ledger["commit_ts"].to_pylist()).timestamp())
