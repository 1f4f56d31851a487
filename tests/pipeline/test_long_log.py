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
_LINKS = 5_000  # names of one file, hence of one time
_DAYS = 29
_WARMED_UP, ROUNDS = 3, 13  # among those that count there is one with a checkpoint


def grow(table: Path, commits: int) -> None:
    """The log gets so many commits that change nothing, and checkpoints, as if each had been made in the last `_DAYS`.

    What the table's clean-up deletes of that is deleted, as it would have been.
    """
    log = table / "_delta_log"
    last = DeltaTable(str(table)).version()
    DeltaTable(str(table)).create_checkpoint()
    actions = [json.loads(line) for line in (log / f"{last:020}.json").read_text().splitlines()]
    nothing = "\n".join(json.dumps(action) for action in actions if "commitInfo" in action)
    checkpoint, checksum = log / f"{last:020}.checkpoint.parquet", log / f"{last:020}.crc"
    first, began = last + 1, time.time() - _DAYS * 86_400
    for path in log.iterdir():
        os.utime(path, (began, began))
    for version in range(first, first + commits):
        group, number = divmod(version - first, _LINKS)
        for ending in ("json", *(["crc"] if checksum.exists() else [])):
            new = log / f"{version:020}.{ending}"
            if number:
                os.link(log / f"{first + group * _LINKS:020}.{ending}", new)
                continue
            if ending == "json":
                new.write_text(nothing)
            else:
                shutil.copy(checksum, new)
            moment = began + _DAYS * 86_400 * (version - first) / commits
            os.utime(new, (moment, moment))
        if number == _LINKS - 1 or version == last + commits:
            shutil.copy(checkpoint, log / f"{version:020}.checkpoint.parquet")
            os.utime(log / f"{version:020}.checkpoint.parquet", (moment, moment))
    pointer = json.loads((log / "_last_checkpoint").read_text())
    pointer.pop("checksum", None)
    (log / "_last_checkpoint").write_text(json.dumps({**pointer, "version": last + commits}))
    DeltaTable(str(table)).cleanup_metadata()


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
    spark.sparkContext._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]  # of shorter logs
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
    cost = {name: statistics.mean(each[_WARMED_UP:]) for name, each in seconds.items()}
    print(seconds, f"seconds of a batch {cost}, of status {answered:.2f}")
    assert status.healthy
    assert lakes["old"].verify().verified
    assert DeltaTable(str(old.changes.path)).version() > COMMITS
    assert cost["old"] <= 1.2 * cost["new"]
    assert answered < 5
