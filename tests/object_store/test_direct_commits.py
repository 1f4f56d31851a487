"""Files that tasks write to S3 and that are committed beside Spark: each batch once, whatever else writes or fails."""

from __future__ import annotations

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.bronze.compaction import put_together
from lakehouse_cdc.bronze.tables import create_bronze
from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.lake.checksum import newest_version, state_by_checksum, state_by_log
from lakehouse_cdc.lake.direct.change_files import written
from lakehouse_cdc.lake.direct.commit import DataFile, add_files
from lakehouse_cdc.lake.direct.newest_version import NewestVersion, can_commit
from lakehouse_cdc.lake.direct.uncommitted_files import remove_uncommitted
from lakehouse_cdc.lake.file_systems import file_system
from lakehouse_cdc.lake.log_actions import last_checkpoint
from lakehouse_cdc.lake.log_files import log_at
from lakehouse_cdc.lake.tables import read, set_properties
from lakehouse_cdc.model.bronze_row import PARTITION
from lakehouse_cdc.model.commit_note import CommitNote, SourcePoint
from lakehouse_cdc.model.table_layout import Layout, Table
from lakehouse_cdc.pipeline.pipeline import Pipeline
from tests.support.bronze_rows import random_rows
from tests.support.delta_library import delta_table
from tests.support.s3_pipelines import bucket_of
from tests.support.s3_server import Request, S3Server


def note(batch: int, query: str = "a-query") -> CommitNote:
    return CommitNote("tests", query, batch, SourcePoint(1, "u", "binlog.000001", batch))


def files(table: Table, seed: int, rows: int = 3) -> list[DataFile]:
    lines = written([random_rows(random.Random(seed), rows)], str(table.path))
    return [DataFile(**line) for batch in lines for line in batch.to_pylist()]


@pytest.fixture
def table(spark: SparkSession, bucket: str) -> Table:
    """An empty change table in the bucket."""
    layout = Layout("tests", bronze="b", path=f"s3a://{bucket}/lake")
    create_bronze(spark, layout)
    return layout.changes


def log_of(table: Table) -> list[list[dict[str, Any]]]:
    """The actions of each version, in order."""
    log = log_at(str(table.path))
    names = sorted(name for name in log.names() if name.endswith(".json"))
    assert names == [f"{version:020}.json" for version in range(len(names))]
    return [[json.loads(line) for line in log.read(name).splitlines()] for name in names]


def batches(table: Table) -> list[tuple[str, int]]:
    """Each transaction of the log, by its query and batch, in order."""
    taken = [one["txn"] for version in log_of(table) for one in version if "txn" in one]
    return [(one["appId"].split(":")[2], one["version"]) for one in taken]


@pytest.mark.parametrize("rounds", [4, pytest.param(200, marks=pytest.mark.long)])
def test_two_writers_and_spark_at_the_same_moment(spark: SparkSession, s3: S3Server, table: Table, rounds: int) -> None:
    """The answer to each third version's first put is lost, so that its writer does not know whether it was made."""
    asked: dict[str, int] = {}

    def lost(request: Request) -> bool:
        if request.method != "PUT" or not request.condition:
            return False
        asked[request.path] = asked.get(request.path, 0) + 1
        return asked[request.path] == 1 and len(asked) % 3 == 0

    def direct(query: str, batch: int) -> int:
        made = files(table, batch)
        add_files(table, made, note(batch, query), "changes")
        return sum(file.count for file in made)

    def by_spark(batch: int) -> int:
        rows = read(spark, table).limit(0)
        options: dict[str, str | int] = {"txnAppId": "lakehouse_cdc:tests:spark:changes", "txnVersion": batch}
        rows.write.format("delta").mode("append").options(**options).save(str(table.path))
        return 0

    assert can_commit(spark, table)
    s3.lost = lost
    rows = 0
    with ThreadPoolExecutor(4) as pool:
        for batch in range(rounds):
            both = [pool.submit(direct, query, batch) for query in ("one", "other", "other")]
            rows += sum(one.result() for one in [*both, pool.submit(by_spark, batch)])
            rows -= both[2].result()  # the same batch once more
    taken = batches(table)
    assert len(taken) == len(set(taken))
    for query in ("one", "other", "spark"):
        assert [batch for of, batch in taken if of == query] == [*range(rounds)]
    assert read(spark, table).count() == rows
    assert {one.condition for one in s3.commits(str(table.path).split("/")[2])} == {"*"}


def test_all_that_is_said_of_a_table_is_so(spark: SparkSession, table: Table) -> None:
    """After so many commits that a checkpoint is made; Spark reads by it, and by our checksums."""
    rows = 0
    for batch in range(12):
        made = files(table, batch)
        assert add_files(table, made, note(batch), "changes", streamed=True) == batch + 1
        rows += sum(file.count for file in made)
    assert last_checkpoint(log_at(str(table.path))) == 10
    assert newest_version(str(table.path)) == 12
    assert state_by_checksum(str(table.path)) == state_by_log(str(table.path))
    assert NewestVersion(table).last_batch("lakehouse_cdc:tests:a-query:changes") == 11
    [said] = delta_table(spark, table).history(1).collect()
    assert (said.operation, said.engineInfo) == ("STREAMING UPDATE", "lakehouse-cdc")
    spark.sql("CLEAR CACHE")
    assert read(spark, table).count() == rows
    assert read(spark, table).select(F.col("_metadata.file_path")).distinct().count() == sum(
        len([one for one in version if "add" in one]) for version in log_of(table)
    )


def test_small_files_are_put_together(spark: SparkSession, table: Table) -> None:
    for batch in range(4):
        rows = random_rows(random.Random(batch), 5)
        named = rows.set_column(rows.schema.get_field_index(PARTITION), PARTITION, pa.array(["shop.t"] * 5))
        lines = [line for one in written([named], str(table.path)) for line in one.to_pylist()]
        add_files(table, [DataFile(**line) for line in lines], note(batch), "changes")
    before = read(spark, table).select("seq", "op", "schema_id").toArrow().sort_by("seq")
    assert put_together(table, "shop.t") == 4
    assert read(spark, table).select("seq", "op", "schema_id").toArrow().sort_by("seq") == before
    assert len(read(spark, table).inputFiles()) == 1


def test_files_that_come_again_go(spark: SparkSession, s3: S3Server, table: Table) -> None:
    assert add_files(table, files(table, 1), note(0), "changes") == 1
    kept = set(s3.objects(str(table.path).split("/")[2]))
    assert add_files(table, files(table, 1), note(0), "changes") is None
    assert {name for name in s3.objects(str(table.path).split("/")[2]) if name.endswith(".parquet")} <= kept


def test_a_table_that_was_changed_meanwhile_is_not_added_to(spark: SparkSession, table: Table) -> None:
    """So is what a process has begun that lost its lease: who takes it over changes a property."""
    made = files(table, 1)
    from lakehouse_cdc.lake.failpoints import Door, Moment, install

    def meanwhile(door: Door, moment: Moment, name: str) -> None:
        if (door, moment) == (Door.ADD, Moment.BEFORE):
            install(None)
            set_properties(spark, table, {"lakehouse_cdc.writer": "another"})

    install(meanwhile)
    try:
        with pytest.raises(CdcError) as refused:
            add_files(table, made, note(0), "changes")
    finally:
        install(None)
    assert refused.value.code is codes.DELTA_FAILED
    assert read(spark, table).count() == 0


@pytest.mark.parametrize("name", ["shop.t", "my shop.ä/b %25?#", "a.b'c=d"])
def test_names_of_tables_are_places_of_files(spark: SparkSession, table: Table, name: str) -> None:
    rows = random_rows(random.Random(1), 5)
    named = rows.set_column(rows.schema.get_field_index(PARTITION), PARTITION, pa.array([name] * 5))
    lines = [line for batch in written([named], str(table.path)) for line in batch.to_pylist()]
    assert add_files(table, [DataFile(**line) for line in lines], note(0), "changes") == 1
    assert [row[0] for row in read(spark, table).select(PARTITION).collect()] == [name] * 5
    there, root = file_system(str(table.path))
    assert there.get_file_info(f"{root}/{unquote(lines[0]['path'])}").size == lines[0]["size"]


def test_a_store_that_refuses_leaves_nothing(s3: S3Server, table: Table) -> None:
    before = {name for name in s3.objects(str(table.path).split("/")[2]) if name.endswith(".parquet")}
    s3.refused = lambda asked: asked.method in ("PUT", "POST") and asked.path.endswith(".parquet")
    with pytest.raises(CdcError) as refused:
        files(table, 1)
    assert refused.value.code is codes.OBJECT_STORE_UNAVAILABLE
    s3.refused = lambda _: False
    assert {name for name in s3.objects(str(table.path).split("/")[2]) if name.endswith(".parquet")} == before


def test_only_files_that_no_commit_names_go(s3: S3Server, table: Table) -> None:
    add_files(table, files(table, 1), note(0), "changes")
    kept = {name for name in s3.objects(str(table.path).split("/")[2]) if name.endswith(".parquet")}
    left = files(table, 2)
    assert remove_uncommitted(table, since=time.time() + 3600) == 0
    assert remove_uncommitted(table, since=time.time()) == len(left)
    assert {name for name in s3.objects(str(table.path).split("/")[2]) if name.endswith(".parquet")} == kept


def test_a_run_has_its_tasks_write_bronze(spark: SparkSession, file: Path) -> None:
    lake = Pipeline.from_yaml(file, spark)
    lake.run(once=True)
    said = delta_table(spark, lake.layout.changes).history().select("engineInfo", "operation").collect()
    assert ("lakehouse-cdc", "STREAMING UPDATE") in [tuple(one) for one in said]
    assert bucket_of(file) in str(lake.layout.changes.path)
    assert lake.verify().verified
