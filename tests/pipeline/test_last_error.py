"""`status` says what ended the last run, and since when, until a run gets further; its exit code says so, too."""

from __future__ import annotations

import json
import threading
import time
from contextlib import closing, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from lakehouse_cdc.cli.main import app
from lakehouse_cdc.errors import CdcError, DefiniteError, codes
from lakehouse_cdc.ops.last_error import LastError, read, recorded
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.pipeline.run.exclusive import exclusive
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import small_table
from tests.support.servers import connected

PURGED = codes.POSITION_PURGED.error("the binlog is gone", where="mysql-bin.000007:4", hint="signal snapshot")


def ends_by(folder: Path, error: BaseException) -> None:
    with suppress(type(error)), recorded(folder):
        raise error


def test_an_error_is_kept_until_a_run_ends_well(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    ends_by(tmp_path, PURGED)
    kept = read(tmp_path)
    assert kept is not None
    assert kept.error == PURGED.as_json()
    assert kept.since == kept.at
    with recorded(tmp_path):
        pass
    assert read(tmp_path) is None


def test_it_says_since_when_it_is_the_same(tmp_path: Path) -> None:
    ends_by(tmp_path, PURGED)
    first = LastError("2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00", PURGED.as_json())
    (tmp_path / "last_error.json").write_text(json.dumps(first.to_json()))
    ends_by(tmp_path, PURGED)
    kept = read(tmp_path)
    assert kept is not None
    assert kept.since == first.since < first.at < kept.at
    ends_by(tmp_path, codes.POSITION_PURGED.error("the binlog is gone", where="mysql-bin.000009:4"))
    kept = read(tmp_path)
    assert kept is not None
    assert kept.since == kept.at > first.at


def test_it_is_over_once_the_streams_work(tmp_path: Path) -> None:
    ends_by(tmp_path, PURGED)
    with recorded(tmp_path) as record:
        record.over()
        assert read(tmp_path) is None


def test_while_a_run_waits_it_says_so(tmp_path: Path) -> None:
    until = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    lost = codes.CONNECTION_LOST.error("connection refused")
    with suppress(CdcError), recorded(tmp_path) as record:
        record.waits(lost, 2, until)
        kept = read(tmp_path)
        assert kept is not None
        assert (kept.tries, kept.until) == (2, "2026-01-01T12:00:00+00:00")
        raise lost
    kept = read(tmp_path)
    assert kept is not None
    assert (kept.tries, kept.until) == (0, "")


@pytest.mark.parametrize(
    "error", [codes.TABLES_LOCKED.error("another process"), KeyboardInterrupt(), ZeroDivisionError()]
)
def test_what_is_no_end_of_a_run_or_no_error_of_ours_leaves_it(tmp_path: Path, error: BaseException) -> None:
    ends_by(tmp_path, PURGED)
    before = read(tmp_path)
    ends_by(tmp_path, error)
    assert read(tmp_path) == before


def test_before_a_first_run_nothing_is_written(tmp_path: Path) -> None:
    ends_by(tmp_path / "none", PURGED)
    assert not (tmp_path / "none").exists()


def test_a_file_that_cannot_be_written_does_not_hide_the_error(tmp_path: Path) -> None:
    (tmp_path / "last_error.json").mkdir()
    with pytest.raises(CdcError) as raised, recorded(tmp_path):
        raise PURGED
    assert raised.value is PURGED


def test_a_file_that_cannot_be_deleted_does_not_end_a_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "last_error.json").mkdir()
    with recorded(tmp_path) as record:
        record.over()
    assert "status` still shows an error that is over" in caplog.text


def configuration(server: MySqlServer, database: str) -> dict[str, Any]:
    target = {"path": "lakehouse", "bronze": "bronze", "silver": "silver"}
    return {"name": "shop", "source": {"url": server.url, "tables": [f"{database}.*"]}, "target": target}


def status(config: Path) -> Result:
    return CliRunner().invoke(app, ["status", "-c", str(config), "--json"])


@pytest.mark.long
def test_a_run_that_is_refused_is_in_status_and_its_hint_ends_it(
    spark: SparkSession, mysql: MySqlServer, database: str, tmp_path: Path
) -> None:
    with closing(connected(mysql)) as connection:
        small_table(connection, database)
    file = tmp_path / "pipeline.yml"
    fine = configuration(mysql, database)
    file.write_text(yaml.safe_dump(fine))
    assert status(file).exit_code == 0
    Pipeline.from_yaml(file, spark).run(once=True)
    assert status(file).exit_code == 0
    file.write_text(yaml.safe_dump({**fine, "tables": {f"{database}.t": {"exclude": ["sekret"]}}}))
    with pytest.raises(DefiniteError) as raised:
        Pipeline.from_yaml(file, spark).run(once=True)
    result = status(file)
    assert result.exit_code == 1, result.output
    told = json.loads(result.stdout)
    assert told["healthy"] is False
    assert told["last_error"]["error"] == raised.value.as_json()
    shown = CliRunner().invoke(app, ["status", "-c", str(file)]).stdout
    assert raised.value.what in shown
    assert raised.value.hint in shown
    file.write_text(yaml.safe_dump(fine))
    lake = Pipeline.from_yaml(file, spark)
    with exclusive(lake.state, "the other run"):  # held in this process, so that a run is a second holder
        lake.run(once=True)
    assert status(file).exit_code == 0
    assert json.loads(status(file).stdout)["last_error"] is None


@pytest.mark.long
def test_a_run_that_goes_on_ends_it_without_a_new_row(
    spark: SparkSession, mysql: MySqlServer, database: str, tmp_path: Path
) -> None:
    with closing(connected(mysql)) as connection:
        small_table(connection, database)
    file = tmp_path / "pipeline.yml"
    file.write_text(yaml.safe_dump(configuration(mysql, database)))
    lake = Pipeline.from_yaml(file, spark)
    lake.run(once=True)
    ends_by(lake.state, PURGED)
    assert status(file).exit_code == 1
    thread = threading.Thread(target=lake.run, kwargs={"every_seconds": 0.2})
    thread.start()
    try:
        until = time.monotonic() + 90
        while read(lake.state) is not None:
            assert time.monotonic() < until
            assert thread.is_alive()
            time.sleep(0.2)
        assert status(file).exit_code == 0
    finally:
        for query in spark.streams.active:
            query.stop()
        thread.join(60)
    assert not thread.is_alive()
