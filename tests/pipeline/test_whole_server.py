"""`["*.*"]` with default settings, on a server that holds one table of everything."""

from __future__ import annotations

import logging
from contextlib import closing, suppress
from pathlib import Path

import pymysql
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.testing import VERSIONS, Version
from tests.census.outcome import LEFT_OUT, made
from tests.census.page import PLACE, column_of
from tests.census.tables import WRITES
from tests.support.commands import CONFIG, call
from tests.support.servers import new_database, start_or_skip


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("version", VERSIONS)
def test_all_that_can_be_is_captured_and_the_rest_is_named(
    spark: SparkSession, version: Version, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The page of the census says which tables are which."""
    config = tmp_path / "pipeline.yml"
    with (
        start_or_skip(version, tmp_path / "server") as server,
        new_database(server) as database,
        closing(server.connect(database=database, autocommit=True)) as connection,
        connection.cursor() as cursor,
    ):
        config.write_text(CONFIG.format(url=server.url, database="*"))
        there = made(cursor.execute)
        says = column_of(version, PLACE.read_text())
        left_out = {row.name for row in there if says[row].startswith(LEFT_OUT)} | {"merged"}  # it belongs to another
        captured = {*(row.name for row in there), "referenced", "viewed"} - left_out
        names = {f"{database}.{name}" for name in left_out}
        with caplog.at_level(logging.WARNING):
            first = call(0, "run", "-c", config, "--once")
        assert (first["quarantined"], first["uncaptured"].keys()) == ({}, names)
        said = [record.getMessage() for record in caplog.records if "not captured" in record.getMessage()]
        assert all(sum(reason in line for line in said) == 1 for reason in first["uncaptured"].values())
        for row in there:
            for write in WRITES:
                with suppress(pymysql.Error):  # ARCHIVE updates nothing, BLACKHOLE holds nothing, and so on
                    cursor.execute(write.format(row.name))
        second = call(0, "run", "-c", config, "--once")
        assert (second["quarantined"], second["uncaptured"].keys()) == ({}, names)
        assert not any(rows.get("r") for rows in second["tables"].values())
        status = call(0, "status", "-c", config)
        assert {name for name, one in status["tables"].items() if one["silver_rows"] is not None} == {
            f"{database}.{name}" for name in captured
        }
        assert status["uncaptured"].keys() == names
        for layer in ("silver", "bronze"):
            compared = call(0, "verify", "-c", config, "--layer", layer)
            assert compared["verified"] is True
            assert set(compared["tables"]) == {f"{database}.{name}" for name in captured}
        doctor = call(0, "doctor", "-c", config)
        assert doctor["uncaptured"].keys() == names
