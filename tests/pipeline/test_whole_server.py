"""All tables of a server that holds one of everything, with default settings: nothing of it ends the run."""

from __future__ import annotations

import logging
from contextlib import closing, suppress
from pathlib import Path

import pymysql
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.testing import Version
from tests.census.tables import BESIDE, WRITES, rows
from tests.support.pipelines import pipeline
from tests.support.servers import connected, start_or_skip

ROWS = [row for row in rows() if row.key in (None, "primary key", "none")]


def _made(cursor: pymysql.cursors.Cursor) -> None:
    for sql in BESIDE:
        cursor.execute(sql)
    for row in ROWS:
        for sql in row.statements:
            with suppress(pymysql.Error):
                cursor.execute(sql)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", ["mysql-8.0", "mariadb-11"])
def test_one_of_everything(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, version: Version
) -> None:
    """What can be captured is, and is verified; the rest is named once, with its reason, by each command."""
    with start_or_skip(version, tmp_path / "server") as server:
        with closing(connected(server)) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE everything")
            cursor.execute("USE everything")
            _made(cursor)
            lake = pipeline(spark, server, "everything", tmp_path, source={"tables": ["*.*"]})
            with caplog.at_level(logging.WARNING):
                report = lake.run(once=True)
            said = [record.getMessage() for record in caplog.records if "not captured" in record.getMessage()]
            for row in ROWS:
                for sql in WRITES:
                    with suppress(pymysql.Error):
                        cursor.execute(sql.format(row.name))
            again = lake.run(once=True)
            cursor.execute("SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) FROM INFORMATION_SCHEMA.TABLES"
                           " WHERE TABLE_SCHEMA = 'everything'")  # fmt: skip
            there = {str(name) for (name,) in cursor.fetchall()}
        left_out = report.to_json()["uncaptured"]
        assert not report.to_json()["quarantined"]
        assert again.to_json()["uncaptured"] == left_out
        verified = lake.verify()
        assert verified.verified
        assert {table.table for table in verified.tables} == there - left_out.keys()
        for name, reason in left_out.items():
            assert len([line for line in said if reason in line]) == 1, name
        status = lake.status()
        assert status.healthy
        assert status.to_json()["uncaptured"] == left_out
        doctor = [finding for finding in lake.doctor() if finding.name == "uncaptured"]
        assert all(any(reason in finding.what for finding in doctor) for reason in left_out.values())
        assert not [finding for finding in lake.doctor() if finding.severity == "error"]
