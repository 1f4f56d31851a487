"""Commits of files by two processes at the same moment, by one that is killed at any moment, and late ones."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Sequence
from multiprocessing.context import SpawnProcess
from pathlib import Path
from threading import Barrier
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.lake.checksum import newest_version
from lakehouse_cdc.lake.commit_log import commits_in_log
from lakehouse_cdc.lake.commits import application
from lakehouse_cdc.lake.direct.change_files import written
from lakehouse_cdc.lake.direct.commit import DataFile, add_files
from lakehouse_cdc.lake.direct.newest_version import NewestVersion
from lakehouse_cdc.lake.failpoints import Door, Moment
from lakehouse_cdc.model.commit_note import CommitNote, SourcePoint
from lakehouse_cdc.model.table_layout import Layout, Table
from tests.support.bronze_rows import random_rows
from tests.support.change_tables import change_table
from tests.support.crash_points import Crash, failing_at, hooked

# of these the first are in the default suite
ROUNDS = [15, pytest.param(200, marks=pytest.mark.long)]
_SPAWN = multiprocessing.get_context("spawn")


def note(batch: int, query: str = "a-query") -> CommitNote:
    return CommitNote("tests", query, batch, SourcePoint(1, "u", "binlog.000001", batch))


def files(table: Table, seed: int, rows: int = 3) -> list[DataFile]:
    lines = written([random_rows(random.Random(seed), rows)], str(table.path))
    return [DataFile(**line) for batch in lines for line in batch.to_pylist()]


def log_of(table: Table) -> list[list[dict[str, Any]]]:
    """The actions of each version, in order."""
    paths = sorted(Path(str(table.path), "_delta_log").glob("*.json"))
    assert [int(path.stem) for path in paths] == list(range(len(paths)))
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in paths]


def batches(table: Table) -> list[tuple[str, int]]:
    """Each transaction of the log, in order."""
    return [
        (one["txn"]["appId"], one["txn"]["version"]) for version in log_of(table) for one in version if "txn" in one
    ]


def require_whole(table: Table) -> None:
    """Every file that a commit has added is there, and is part of the table; each commit has its own, once."""
    added = [unquote(one["add"]["path"]) for version in log_of(table) for one in version if "add" in one]
    assert len(added) == len(set(added))
    assert all(Path(str(table.path), path).exists() for path in added)
    held = pa.table(DeltaTable(str(table.path)).get_add_actions())
    assert sorted(map(unquote, held.column("path").to_pylist())) == sorted(added)
    rows = sum(
        json.loads(one["add"]["stats"])["numRecords"] for version in log_of(table) for one in version if "add" in one
    )
    assert sum(held.column("num_records").to_pylist()) == rows
    assert sum(commit.rows or 0 for commit in commits_in_log(table, len(log_of(table)) - 1)) == rows


def _write(folder: str, start: Barrier, query: str, seed: int, rounds: int, done: Any) -> None:
    """Commit a batch in each round, as the other process does."""
    table = Layout("tests", bronze="b", path=folder).changes
    for batch in range(rounds):
        made = files(table, seed + batch)
        start.wait(60)
        done.put((query, batch, add_files(table, made, note(batch, query), "changes")))


def _both(table: Table, rounds: int, queries: Sequence[str]) -> list[tuple[str, int, int | None]]:
    """What two processes have committed in as many rounds as both have batches."""
    start, done, folder = _SPAWN.Barrier(2), _SPAWN.Queue(), str(Path(str(table.path)).parents[1])
    processes = [
        _SPAWN.Process(target=_write, args=(folder, start, query, 1_000 * seed, rounds, done))
        for seed, query in enumerate(queries)
    ]
    for process in processes:
        process.start()
    found = [done.get(timeout=120) for _ in range(2 * rounds)]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    return found


@pytest.mark.parametrize("rounds", ROUNDS)
def test_two_processes_that_commit_at_the_same_moment_lose_nothing(tmp_path: Path, rounds: int) -> None:
    table = change_table(tmp_path)
    found = _both(table, rounds, ["one", "other"])
    assert sorted(version for _, _, version in found if version is not None) == list(range(1, 2 * rounds + 1))
    said = {(application(note(batch, query), "changes"), batch): version for query, batch, version in found}
    assert [said[one] for one in batches(table)] == list(range(1, 2 * rounds + 1))
    require_whole(table)


@pytest.mark.parametrize("rounds", ROUNDS)
def test_of_two_processes_with_one_batch_one_commits_it(tmp_path: Path, rounds: int) -> None:
    table = change_table(tmp_path)
    found = _both(table, rounds, ["one", "one"])
    app = application(note(0, "one"), "changes")
    assert batches(table) == [(app, batch) for batch in range(rounds)]
    assert sorted(version for _, _, version in found if version is not None) == list(range(1, rounds + 1))
    require_whole(table)


def _write_on(folder: str) -> None:
    """Commit batch after batch, from the first that is not in."""
    table = Layout("tests", bronze="b", path=folder).changes
    batch = (-1 if (last := NewestVersion(table).last_batch(application(note(0), "changes"))) is None else last) + 1
    while True:
        add_files(table, files(table, batch), note(batch), "changes")
        batch += 1


def _killed(process: SpawnProcess, table: Table, after: float) -> None:
    """So many seconds after it has begun to commit."""
    before = newest_version(str(table.path))
    while newest_version(str(table.path)) == before:
        assert process.is_alive()
        time.sleep(0.01)
    time.sleep(after)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()


@pytest.mark.long
def test_a_process_that_is_killed_at_any_moment_leaves_each_batch_once(tmp_path: Path) -> None:
    table, chosen = change_table(tmp_path, checkpointInterval="3"), random.Random(5)
    for _ in range(12):
        process = _SPAWN.Process(target=_write_on, args=(str(tmp_path),))
        process.start()
        _killed(process, table, chosen.uniform(0, 0.3))
    found = batches(table)
    assert found == [(application(note(0), "changes"), batch) for batch in range(len(found))]
    assert len(found) >= 12
    require_whole(table)


@pytest.mark.parametrize("moment", Moment)
def test_a_batch_that_comes_again_after_a_crash_is_in_once(tmp_path: Path, moment: Moment) -> None:
    table = change_table(tmp_path)
    first = files(table, 1)
    with failing_at(Door.ADD, moment, "changes", error=Crash), pytest.raises(Crash):
        add_files(table, first, note(0), "changes")
    again = files(table, 1)
    assert add_files(table, again, note(0), "changes") == (None if moment is Moment.AFTER else 1)
    kept, gone = (first, again) if moment is Moment.AFTER else (again, [])
    assert all(Path(str(table.path), unquote(file.path)).exists() for file in kept)
    assert not any(Path(str(table.path), unquote(file.path)).exists() for file in gone)
    require_whole(table)


def test_a_batch_that_comes_late_is_not_committed(tmp_path: Path) -> None:
    """An older one; of another step, or another query, it is another."""
    table = change_table(tmp_path)
    assert add_files(table, files(table, 1), note(7), "changes") == 1
    for batch in (7, 3):
        assert add_files(table, files(table, 1), note(batch), "changes") is None
    assert add_files(table, files(table, 1), note(3), "another step") == 2
    assert add_files(table, files(table, 1), note(3, "another"), "changes") == 3
    assert add_files(table, [], note(8), "changes") == 4
    assert NewestVersion(table).last_batch(application(note(0), "changes")) == 8
    assert NewestVersion(table).last_batch("nobody") is None
    assert next(commit.rows for commit in commits_in_log(table, 4)) == 0
    require_whole(table)


def meanwhile(do: Any) -> Any:
    """`do` comes once, between the look at the table and the commit."""
    waiting = [do]

    def hook(_: Door, moment: Moment, __: str) -> None:
        if moment is Moment.BEFORE and waiting:
            waiting.pop()()

    return hooked(hook)


def test_what_others_commit_in_between_comes_first(tmp_path: Path) -> None:
    table = change_table(tmp_path)
    other = files(table, 2)
    with meanwhile(lambda: add_files(table, other, note(0, "another"), "changes")):
        assert add_files(table, files(table, 1), note(0), "changes") == 2
    require_whole(table)


def test_the_batch_that_another_commits_in_between_is_in_once(tmp_path: Path) -> None:
    """And no file is deleted: of a commit that was tried nobody knows whether it was made."""
    table = change_table(tmp_path)
    ours, theirs = files(table, 1), files(table, 1)
    with meanwhile(lambda: add_files(table, theirs, note(0), "changes")):
        assert add_files(table, ours, note(0), "changes") is None
    assert all(Path(str(table.path), unquote(file.path)).exists() for file in (*ours, *theirs))
    assert len(batches(table)) == 1
    require_whole(table)


@pytest.mark.parametrize("change", ["properties", "protocol"])
def test_a_table_that_is_changed_in_between_is_refused(tmp_path: Path, change: str) -> None:
    table = change_table(tmp_path)
    opened = DeltaTable(str(table.path))
    protocol = {
        "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["variantType"],
        "writerFeatures": ["appendOnly", "changeDataFeed", "invariants", "variantType", "checkConstraints"],
    }  # fmt: skip

    def changed() -> None:
        if change == "properties":
            opened.alter.set_table_properties({"delta.logRetentionDuration": "interval 1 day"})
        else:
            Path(str(table.path), "_delta_log", f"{1:020}.json").write_text(json.dumps({"protocol": protocol}))

    with meanwhile(changed), pytest.raises(DefiniteError) as refused:
        add_files(table, files(table, 1), note(0), "changes")
    assert refused.value.code is codes.DELTA_FAILED
    assert batches(table) == []
    assert add_files(table, files(table, 1), note(0), "changes") == 2
