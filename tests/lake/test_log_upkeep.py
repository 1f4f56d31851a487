"""Checkpoints that are made without a look at the whole log, and logs that do not get too long."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction, write_deltalake
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.direct import log_upkeep, rust_table
from lakehouse_cdc.lake.direct.log_upkeep import RETENTION, delete_all_but, make_checkpoint
from tests.lake.test_rust_table import made, merge_of, once

NEVER = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


def grown(folder: Path, commits: int, rng: random.Random) -> None:
    """Appends, deletions and changes of properties, in so many commits after the first, without a checkpoint."""
    write_deltalake(folder, pa.table({"n": [0]}), post_commithook_properties=NEVER)
    more(folder, commits, rng)


def more(folder: Path, commits: int, rng: random.Random) -> None:
    for _ in range(commits):
        table = DeltaTable(folder)
        n = table.version() + 1
        match rng.randrange(4):
            case 0:
                table.delete(f"n = {rng.randint(0, n)}", post_commithook_properties=NEVER)
            case 1:
                table.alter.set_table_properties({f"p{n % 5}": str(n)}, raise_if_not_exists=False)
        if table.version() < n:  # no row was of that number
            of_batch = CommitProperties(app_transactions=[Transaction(f"app{n % 3}", n)])
            write_deltalake(
                table, pa.table({"n": [n, n]}), mode="append",
                commit_properties=of_batch, post_commithook_properties=NEVER,
            )  # fmt: skip


def versions(folder: Path, ending: str = "json") -> list[int]:
    return sorted(int(path.name[:20]) for path in (folder / "_delta_log").glob(f"[0-9]*.{ending}"))


def actions(folder: Path, version: int) -> list[str]:
    """Those of a checkpoint, in no order."""
    rows = pq.read_table(folder / "_delta_log" / f"{version:020}.checkpoint.parquet").to_pylist()
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in rows)


def held(folder: Path) -> list[int]:
    return sorted(DeltaTable(folder).to_pyarrow_table().column("n").to_pylist())


def test_a_checkpoint_is_the_one_that_the_whole_log_gives(tmp_path: Path, seed: int) -> None:
    """Also where others have committed, or a crash has left out checkpoints in between."""
    folder, rng = tmp_path / "t ü", random.Random(seed)
    grown(folder, 5, rng)
    for _ in range(8):
        more(folder, rng.randint(0, 7), rng)
        version = DeltaTable(folder).version()
        make_checkpoint(str(folder), version)
        ours, pointer = actions(folder, version), json.loads((folder / "_delta_log/_last_checkpoint").read_text())
        rows = held(folder)
        DeltaTable(folder).create_checkpoint()
        assert ours == actions(folder, version)
        assert pointer["version"] == version
        for commit in range(version):  # as after the log's clean-up
            (folder / "_delta_log" / f"{commit:020}.json").unlink(missing_ok=True)
        assert (held(folder), DeltaTable(folder).version()) == (rows, version)
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("pointer", ["torn", "parts", "far"])
def test_what_is_no_beginning_of_the_log_is_not_taken_for_one(
    tmp_path: Path, pointer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rng = tmp_path / "t", random.Random(5)
    grown(folder, 3, rng)
    make_checkpoint(str(folder), 3)
    more(folder, 4, rng)
    file = folder / "_delta_log" / "_last_checkpoint"
    if pointer == "torn":
        file.write_text(file.read_text()[:20])
    elif pointer == "parts":
        file.write_text(json.dumps({**json.loads(file.read_text()), "parts": 2}))
    else:
        monkeypatch.setattr(log_upkeep, "_FAR", 3)
    rows = held(folder)
    make_checkpoint(str(folder), 7)
    assert versions(folder, "checkpoint.parquet")[-1] == 7
    for commit in range(7):
        (folder / "_delta_log" / f"{commit:020}.json").unlink()
    assert held(folder) == rows


@pytest.mark.parametrize("crash_after", [None, 0, 1, 7, 12])
def test_the_newest_commits_stay_and_so_does_the_table(
    tmp_path: Path, seed: int, crash_after: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rng = tmp_path / "t", random.Random(seed)
    grown(folder, 0, rng)
    for _ in range(6):
        more(folder, 5, rng)
        make_checkpoint(str(folder), DeltaTable(folder).version())
    (folder / "_delta_log" / f"{3:020}.crc").write_text("{}")
    (folder / "_delta_log" / f".{3:020}.json.crc").write_text("")
    rows = [sorted(DeltaTable(folder, version=n).to_pyarrow_table().column("n").to_pylist()) for n in range(31)]
    unlink, done = os.unlink, list[str]()

    def crashing(path: str) -> None:
        if len(done) == crash_after:
            raise KeyboardInterrupt
        unlink(path)
        done.append(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", crashing)
        try:
            delete_all_but(str(folder), 13, 30)
            assert crash_after is None
            assert (versions(folder)[0], versions(folder, "crc")) == (15, [])  # the last checkpoint before 17
            assert {*(folder / "_delta_log").glob(".0*")} == set()
        except KeyboardInterrupt:
            assert crash_after is not None
    there = versions(folder)
    assert there == [*range(there[0], 31)]
    assert there[0] <= 15
    for version in range(15, 31):
        table = DeltaTable(folder, version=version)
        assert sorted(table.to_pyarrow_table().column("n").to_pylist()) == rows[version]
    delete_all_but(str(folder), 13, 30)
    delete_all_but(str(folder), 13, 30)
    assert versions(folder) == [*range(15, 31)]
    delete_all_but(str(folder), 1000, 30)
    assert versions(folder) == [*range(15, 31)]


@pytest.mark.parametrize("retention", [RETENTION, "interval 30 days"])
def test_the_log_of_a_table_that_is_merged_into_stays_short(
    spark: SparkSession, tmp_path: Path, retention: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless somebody has said how long it is to be."""
    monkeypatch.setattr(rust_table, "MOST", 4)
    monkeypatch.setattr(rust_table, "_CHECKPOINTS", 2)
    table = made(tmp_path / "t")
    properties = {"delta.logRetentionDuration": retention, "delta.checkpointInterval": "3"}
    DeltaTable(tmp_path / "t").alter.set_table_properties(properties)
    for n in range(2, 26):
        table = rust_table.RustTable(str(tmp_path / "t"), "t")
        table.merge(merge_of((n % 5, "a", n)), once(n))
        assert table.version == n
    there = versions(tmp_path / "t")
    assert there == [*range(20 if retention == RETENTION else 0, 26)]
    rows = {row.k: row._seq for row in spark.read.format("delta").load(str(tmp_path / "t")).collect()}
    assert rows == {n % 5: n for n in range(21, 26)}
