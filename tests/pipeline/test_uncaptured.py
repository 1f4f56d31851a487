"""What matches and is not captured is named by every command that speaks of tables."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.pipelines import pipeline
from tests.support.servers import new_database, start_or_skip


def test_every_command_names_it(spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (
        start_or_skip("mariadb-10.11", tmp_path / "server") as server,
        new_database(server) as database,
        closing(server.connect(database=database, autocommit=True)) as connection,
    ):
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        cursor.execute("CREATE SEQUENCE h")
        cursor.execute("CREATE VIEW v AS SELECT * FROM t")
        misspelt = {f"{database}.T": {"deletes": "soft"}, "shop.later": {"scd": 2}}
        lake = pipeline(spark, server, database, tmp_path, tables=misspelt)
        names = {f"{database}.h", f"{database}.v"}
        with caplog.at_level(logging.WARNING):
            report = lake.run(once=True)
        assert report.to_json()["uncaptured"].keys() == names
        unused = [notice for notice in report.notices if "is of no captured table" in notice]
        assert [notice.rpartition("; ")[2] for notice in unused] == [
            f"write {database}.t if that is meant",
            "check its name, or wait for the table to come",
        ]
        assert {f.name for f in lake.doctor() if "is of no captured table" in f.what} == misspelt.keys()
        said = [record.getMessage() for record in caplog.records if "is not captured" in record.getMessage()]
        assert sorted(line.partition(" ")[0] for line in said) == sorted(names), "each once"
        cursor.execute("INSERT INTO t VALUES (1)")
        assert (lake.status().to_json()["uncaptured"] or {}).keys() == names
        assert lake.verify().to_json()["uncaptured"].keys() == names
        assert {name for name in names for f in lake.doctor() if f.name == "uncaptured" and name in f.what} == names
