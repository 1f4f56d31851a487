"""A table's commits, read from its log, are those that Delta tells of."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake import commits, delta_log
from lakehouse_cdc.lake.commit_log import Commit, commit_info
from lakehouse_cdc.lake.commits import history, newest_first, writer_options
from lakehouse_cdc.lake.noting import noting
from lakehouse_cdc.lake.tables import create, table_id
from lakehouse_cdc.model.table_layout import Layout, Table
from tests.support.commit_notes import note
from tests.support.delta_library import forget


def ledger_in(folder: Path) -> Table:
    return Layout("tests", bronze="b", silver="s", path=str(folder)).ledger


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a table with commits of ours and of others, of which one says nothing of itself."""
    folder = tmp_path_factory.mktemp("commits")
    made = ledger_in(folder)
    create(spark, made, [("a", "bigint")], pipeline="tests", properties={}, comment="")
    for batch in range(12):
        writer = spark.range(batch % 3).toDF("a").write.format("delta").mode("append")
        writer.options(**writer_options(note(batch), "step")).save(made.path)
    spark.sql(f"OPTIMIZE {made.sql}").collect()
    spark.sql(f"DELETE FROM {made.sql} WHERE a = 1")
    with noting(spark, note(12)):
        spark.sql(f"ALTER TABLE {made.sql} SET TBLPROPERTIES ('a' = 'b')")
    spark.range(5).toDF("a").write.format("delta").mode("append").save(made.path)
    bare = {"add": {"path": "x", "partitionValues": {}, "size": 0, "modificationTime": 0, "dataChange": True}}
    log = Path(str(made.path), "_delta_log")
    newest = max(int(path.stem) for path in log.glob("*.json"))
    assert newest == 16
    Path(log, f"{newest + 1:020}.json").write_text(json.dumps(bare))
    return folder


@pytest.fixture
def table(made: Path, tmp_path: Path) -> Table:
    """A copy of it, which a test may damage."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return ledger_in(tmp_path)


def of_spark(spark: SparkSession, table: Table) -> list[Commit]:
    with patch.object(delta_log, "state", lambda *_: None):
        return list(newest_first(spark, table))


def test_all_commits_newest_first(spark: SparkSession, table: Table) -> None:
    with patch.object(commits, "history", side_effect=AssertionError("Spark was asked")):
        found = list(newest_first(spark, table))
    assert found == of_spark(spark, table) == history(spark, table)
    assert [commit.version for commit in found] == list(range(17, -1, -1))
    assert [commit.note for commit in found if commit.note is not None] == [note(n) for n in range(12, -1, -1)]
    assert {commit.rows for commit in found} >= {None, 0, 1, 2, 5}


def test_a_log_of_which_the_begin_is_gone(spark: SparkSession, table: Table) -> None:
    Path(str(table.path), "_delta_log", f"{17:020}.json").unlink()
    forget(spark)
    for version in range(4):
        Path(str(table.path), "_delta_log", f"{version:020}.json").unlink()
    found = list(newest_first(spark, table))
    assert found == of_spark(spark, table)
    assert [commit.version for commit in found] == list(range(16, 3, -1))
    assert table_id(spark, table)


def test_a_table_of_a_catalog_has_no_log_here(spark: SparkSession) -> None:
    assert commit_info(Layout("tests", bronze="b", catalog="main").changes, 0) is None
