"""A pipeline that has made 300,000 commits: what a batch costs does not depend on how many there were before."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import pipeline

COMMITS = 300_000
_LINKS = 50_000  # a file system takes no more names than some of one file
ROUNDS = 9


def grow(table: Path, commits: int) -> None:
    """The log gets so many commits that change nothing, and a checkpoint of the last one, as if each had been made."""
    log = table / "_delta_log"
    last = DeltaTable(str(table)).version()
    DeltaTable(str(table)).create_checkpoint()
    actions = [json.loads(line) for line in (log / f"{last:020}.json").read_text().splitlines()]
    nothing = "\n".join(json.dumps(action) for action in actions if "commitInfo" in action)
    checksum = log / f"{last:020}.crc"
    for n in range(commits):
        for ending in ("json", *(["crc"] if checksum.exists() else [])):
            new = log / f"{last + 1 + n:020}.{ending}"
            first = log / f"{last + 1 + n - n % _LINKS:020}.{ending}"
            if new != first:
                os.link(first, new)
            elif ending == "json":
                new.write_text(nothing)
            else:
                shutil.copy(checksum, new)
    os.rename(log / f"{last:020}.checkpoint.parquet", log / f"{last + commits:020}.checkpoint.parquet")
    pointer = json.loads((log / "_last_checkpoint").read_text())
    pointer.pop("checksum", None)
    (log / "_last_checkpoint").write_text(json.dumps({**pointer, "version": last + commits}))


def pass_over(checkpoints: Path, version: int) -> None:
    """Silver's stream has seen the versions before that one of bronze."""
    offsets = sorted((checkpoints / "silver" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in offsets[-2:]:
        *head, offset = path.read_text().splitlines()
        path.write_text("\n".join([*head, json.dumps({**json.loads(offset), "reservoirVersion": version})]))
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_a_batch_costs_what_it_costs_a_new_pipeline(
    spark: SparkSession, mysql: MySqlServer, database: str, run: Callable[..., None], tmp_path: Path
) -> None:
    run("CREATE TABLE t (id INT PRIMARY KEY, n INT)", "INSERT INTO t VALUES (1, 0), (2, 0)")
    lakes: dict[str, Pipeline] = {}
    for name in ("new", "old"):
        (tmp_path / name).mkdir()
        lakes[name] = pipeline(spark, mysql, database, tmp_path / name, name=name)
        lakes[name].run(once=True)
    old = lakes["old"].layout
    for table in (old.changes, old.silver_table(f"{database}.t"), old.ledger):
        grow(Path(str(table.path)), COMMITS)
    [checkpoints] = (path.parent for path in (tmp_path / "old").rglob("silver") if (path / "offsets").is_dir())
    pass_over(checkpoints, DeltaTable(str(old.changes.path)).version() + 1)

    seconds: dict[str, list[float]] = {name: [] for name in lakes}
    for n in range(ROUNDS):
        run(f"UPDATE t SET n = {n + 1} WHERE id = 1")
        for name in sorted(lakes, reverse=n % 2 == 1):
            began = time.monotonic()
            lakes[name].run(once=True)
            seconds[name].append(time.monotonic() - began)
    began = time.monotonic()
    status = lakes["old"].status()
    answered = time.monotonic() - began
    cost = {name: statistics.median(each[2:]) for name, each in seconds.items()}
    print(f"seconds of a batch {cost}, of status {answered:.2f}")
    assert status.healthy
    assert lakes["old"].verify().verified
    assert DeltaTable(str(old.changes.path)).version() > COMMITS
    assert cost["old"] <= 1.2 * cost["new"]
    assert answered < 5
