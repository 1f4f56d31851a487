"""A run's look at the source's log: on real servers, with files that were ended, purged, and are about to be."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from lakehouse_cdc.model.commit_note import SourcePoint
from lakehouse_cdc.model.log_retention import Retention
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session, connect
from lakehouse_cdc.mysql.log_view import LogView, retention_of
from lakehouse_cdc.mysql.server import log_position
from lakehouse_cdc.ops.source_watch import SourceWatch, caught_up_at
from tests.source.conftest import any_stage
from tests.support.servers import start_or_skip
from tests.support.source.stage import Stage, on_stage

__all__ = ["any_stage"]

pytestmark = pytest.mark.mysql

ID = 4242


def options(stage: Stage) -> ConnectionOptions:
    return ConnectionOptions.from_url(f"mysql://cdc@127.0.0.1:{stage.server.port}", password="cdc-secret")


def at_the_end(session: Session) -> SourcePoint:
    end = log_position(session).position
    return SourcePoint(1, session.server_uuid, end.file, end.pos)


@pytest.mark.one_server
def test_a_file_that_ended_a_while_ago(any_stage: Stage) -> None:
    stage = any_stage
    with connect(options(stage)) as session:
        first = at_the_end(session)
        stage.run("FLUSH BINARY LOGS")
        time.sleep(2.1)
        view = LogView.of(session, ID, retention=Retention(seconds=100, by_age="age"))
        left = view.headroom(first.file)
        assert left.seconds is not None
        assert 90 < left.seconds < 99
        assert view.headroom(view.sizes[-1][0]).seconds == 100
        assert view.headroom("none.000001").scarce
        by_size = LogView.of(session, ID, retention=Retention(bytes=1 << 40, by_size="size")).headroom(first.file)
        assert by_size.seconds is None or by_size.seconds > 1000


@pytest.mark.one_server
def test_what_this_server_keeps(any_stage: Stage) -> None:
    stage = any_stage
    mariadb_10 = stage.server.version == "mariadb-10.11"
    name = "expire_logs_days" if stage.server.version == "mysql-5.7" else "binlog_expire_logs_seconds"
    before = stage.run(f"SELECT @@GLOBAL.{name}")[0][0]
    value, seconds = ("2", 172_800) if name == "expire_logs_days" else ("7200", 7200)
    stage.run(f"SET GLOBAL {name} = {value}")
    try:
        with connect(options(stage)) as session:
            kept = retention_of(session)
            assert (kept.seconds, kept.by_age) == (seconds, name)
            if stage.server.version == "mariadb-11":
                stage.run("SET GLOBAL max_binlog_total_size = 100000000")
                assert retention_of(session).bytes == 100_000_000
                stage.run("SET GLOBAL max_binlog_total_size = 0")
            assert mariadb_10 or kept.bytes is None
    finally:
        stage.run(f"SET GLOBAL {name} = {before}")


def test_what_rds_is_set_to(tmp_path: Path) -> None:
    with start_or_skip("mysql-8.0") as server:
        for stage in on_stage(server, "on_rds", tmp_path):
            stage.run("CREATE TABLE mysql.rds_configuration (name VARCHAR(64), value VARCHAR(64), description TEXT)")
            stage.run("INSERT INTO mysql.rds_configuration VALUES ('binlog retention hours', NULL, '')")
            with connect(options(stage)) as session:
                assert retention_of(session).seconds == 0
                stage.run("UPDATE mysql.rds_configuration SET value = '36'")
                kept = retention_of(session)
                assert kept.seconds == 36 * 3600
                assert "rds_configuration" in kept.by_age


@pytest.mark.one_server
def test_it_notes_when_bronze_had_everything(any_stage: Stage, tmp_path: Path) -> None:
    stage, now = any_stage, [0.0]
    stage.create(rows=1)
    with connect(options(stage)) as session:
        point = at_the_end(session)
        watch = SourceWatch(options(stage), ID, tmp_path, point, clock=lambda: now[0])
        look = watch.tick()
        assert look is not None
        assert (look.lag.bytes, look.lag.caught_up_seconds) == (0, 0.0)
        assert watch.tick() is None  # not yet again
        at = caught_up_at(tmp_path, point)
        assert at == look.at
        time.sleep(1.5)
        stage.run("UPDATE t SET v = v + 1")
        now[0] = 20
        look = watch.tick()
        assert look is not None
        assert look.lag.bytes
        assert 1.5 <= look.lag.seconds < 10
        assert look.lag.caught_up_seconds == look.lag.seconds
        watch.moved(at_the_end(session))
        now[0] = 100
        look = watch.tick()
        assert look is not None
        assert look.lag.bytes == 0
        assert caught_up_at(tmp_path, point) > at
        watch.close()


@pytest.mark.long
def test_it_warns_in_time_and_not_all_the_time(
    stage_of_its_own: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage, now = stage_of_its_own, [0.0]
    stage.run("SET GLOBAL binlog_expire_logs_seconds = 4")
    with connect(options(stage)) as session:
        point = at_the_end(session)
    stage.run("FLUSH BINARY LOGS")
    time.sleep(5)
    watch = SourceWatch(options(stage), ID, tmp_path, point, clock=lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for seconds in (0, 100, 200, 4000):
            now[0] = seconds
            assert watch.tick() is not None
    texts = [record.message for record in caplog.records if "at any time" in record.message]
    assert len(texts) == 2
    assert "binlog_expire_logs_seconds" in texts[0]
    watch.close()


@pytest.fixture
def stage_of_its_own(tmp_path: Path):  # type: ignore[no-untyped-def]
    """On a server whose settings are changed."""
    with start_or_skip("mysql-8.0") as server:
        yield from on_stage(server, "watched", tmp_path)


def test_a_server_that_is_away_fails_nothing(tmp_path: Path) -> None:
    away = ConnectionOptions.from_url("mysql://cdc@127.0.0.1:1")
    watch = SourceWatch(away, ID, tmp_path, SourcePoint(1, "uuid", "b.000001", 4))
    assert watch.tick() is None
    assert watch.last is None
