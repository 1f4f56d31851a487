"""Versions that are forgotten leave nothing in Delta's log, and take nothing of the later ones with them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.lake.commits import newest_version
from lakehouse_cdc.lake.old_versions import forget_versions
from lakehouse_cdc.lake.tables import create, read
from lakehouse_cdc.model.table_layout import Table
from tests.support.delta_library import delta_table


@pytest.fixture(
    params=[
        pytest.param({}, marks=pytest.mark.long, id="usual"),
        pytest.param({"delta.checkpointInterval": "3"}, id="every third"),
    ]
)
def table(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    """`secret` until version 3, `hidden` from version 4 on."""
    table = Table("silver", "t", root=str(tmp_path))
    create(
        spark, table, [("id", "BIGINT"), ("email", "STRING")], pipeline="tests", properties=request.param, comment=""
    )
    for number in range(3):
        spark.sql(f"INSERT INTO {table.sql} VALUES ({number}, 'secret')")
    spark.sql(f"INSERT OVERWRITE {table.sql} SELECT id, 'hidden' FROM {table.sql}")
    spark.sql(f"INSERT INTO {table.sql} VALUES (3, 'hidden')")
    return table


def with_secrets(table: Table) -> list[str]:
    log = Path(str(table.path)) / "_delta_log"
    return sorted(path.name for path in log.iterdir() if path.is_file() and b"secret" in path.read_bytes())


def properties(spark: SparkSession, table: Table) -> dict[str, str]:
    [(held,)] = delta_table(spark, table).detail().select("properties").collect()
    return dict(held)


@pytest.mark.long
def test_nothing_is_left_of_versions_that_are_forgotten(spark: SparkSession, table: Table) -> None:
    assert with_secrets(table)
    held, newest = properties(spark, table), newest_version(spark, table)
    forget_versions(spark, table, 4)
    assert with_secrets(table) == []
    assert properties(spark, table) == held
    fresh = spark.newSession()
    assert sorted(tuple(row) for row in read(fresh, table).collect()) == [(n, "hidden") for n in range(4)]
    kept = [row[0] for row in delta_table(fresh, table).history().select("version").collect()]
    assert kept == list(range(newest + 2, 3, -1))
    spark.sql(f"INSERT INTO {table.sql} VALUES (4, 'hidden')")
    assert read(spark, table).count() == 5
    version = newest_version(spark, table)
    forget_versions(spark, table, 4)
    assert newest_version(spark, table) == version  # there was nothing to forget


@pytest.mark.long
def test_what_an_interruption_leaves_is_forgotten_later(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink, left = os.unlink, [2]

    def interrupted(path: str) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        unlink(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", interrupted)
        with pytest.raises(KeyboardInterrupt):
            forget_versions(spark, table, 4)
    assert with_secrets(table)
    assert read(spark.newSession(), table).count() == 4
    forget_versions(spark, table, 4)
    assert with_secrets(table) == []
    assert read(spark.newSession(), table).count() == 4


def test_nothing_is_deleted_without_a_checkpoint(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta only logs that it could not write one."""
    there = with_secrets(table)
    monkeypatch.setattr("lakehouse_cdc.lake.old_versions.set_properties", lambda *_: None)
    with pytest.raises(DefiniteError, match="checkpoint"):
        forget_versions(spark, table, 6)
    assert with_secrets(table) == there
