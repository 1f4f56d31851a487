"""The first pass over what real transactions wrote, against what the server and mysql-replication say of the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import GtidEvent
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.gtid import GtidSet
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql.binlog.scan import OPEN, PREPARED, ROLLED_BACK
from lakehouse_cdc.mysql.binlog.scanner import BinlogScanner
from lakehouse_cdc.sql.statements import StatementKind
from lakehouse_cdc.testing import MySqlServer
from tests.mysql.binlog import workload
from tests.support.binlog_log import Buffer, Listed, Log, as_listed, joined, merged, query_event, scan_all, starts

pytestmark = pytest.mark.mysql


@dataclass(frozen=True)
class Written:
    """What a workload wrote: received, and as the server lists it."""

    database: str
    start: Position
    end: Position
    buffers: tuple[Buffer, ...]
    listed: Listed
    executed: tuple[GtidSet, GtidSet]  # before and after

    def scanner(self) -> BinlogScanner:
        return BinlogScanner(self.start, self.captured, gtids=self.executed[0])

    def captured(self, name: str) -> bool:
        return name.startswith(f"{self.database}.cap")


@pytest.fixture(scope="module")
def written(mysql: MySqlServer) -> Iterator[Written]:
    with ExitStack() as stack:
        log = Log(mysql, stack)
        log.run("CREATE DATABASE scanned")
        workload.create(log, "scanned")
        start, before = log.end, log.executed
        workload.run(log, "scanned", seed=7, transactions=150)
        listed = log.listed(start, "scanned.cap")
        yield Written("scanned", start, log.end, tuple(log.buffers(start)), listed, (before, log.executed))
        log.run("DROP DATABASE scanned")


def test_every_event_stands_where_the_server_says(written: Written) -> None:
    scanner = written.scanner()
    scans = scan_all(scanner, list(written.buffers))
    found = as_listed(scans)
    assert found.rows == written.listed.rows
    assert found.groups == written.listed.groups
    assert len(written.listed.rows) > 100
    assert len({file for file, *_ in written.listed.rows}) == 3
    assert scanner.position == scanner.boundary == scans[-1].end == written.end
    ends = [Position(file, end) for file, _, end, _ in written.listed.groups]
    boundaries = [place for scan in scans for place in scan.boundaries()]
    assert [place for place in boundaries if place.pos > 4] == ends
    assert [place.pos for place in boundaries].count(4) == 2
    assert boundaries == sorted(boundaries)


def test_gtids_are_those_that_the_server_executed(written: Written) -> None:
    scanner = written.scanner()
    scans = scan_all(scanner, list(written.buffers))
    assert scanner.gtids_complete
    assert scanner.gtids == scans[-1].gtids == written.executed[1]
    one = written.scanner().feed(joined(list(written.buffers)))
    known = written.executed[0]
    for n, (_, _, _, gtid) in enumerate(written.listed.groups[:40]):
        known = known.union(GtidSet.parse(gtid))
        assert one.gtids_after(n + 1) == known


def test_a_file_read_from_its_begin_gives_the_executed_set(log: Log, written: Written) -> None:
    scanner = BinlogScanner(Position(log.end.file, 4), lambda _: False)
    scan_all(scanner, log.buffers(Position(log.end.file, 4)))
    assert scanner.gtids_complete
    assert scanner.gtids == log.executed


def test_mysql_replication_reads_the_same(written: Written, mysql: MySqlServer) -> None:
    reader = BinLogStreamReader(
        connection_settings={"host": "127.0.0.1", "port": mysql.port, "user": "root", "passwd": ""},
        server_id=39_999,
        log_file=written.start.file,
        log_pos=written.start.pos,
        resume_stream=True,
        only_events=[GtidEvent, WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
    )
    kinds = {WriteRowsEvent: 0, UpdateRowsEvent: 1, DeleteRowsEvent: 2}
    rows, gtids = [], []
    for event in reader:
        if isinstance(event, GtidEvent):
            gtids.append(event.gtid)
        elif event.table.startswith("cap"):
            rows.append((reader.log_file, reader.log_pos, kinds[type(event)], f"{event.schema}.{event.table}"))
    reader.close()
    found = as_listed(scan_all(written.scanner(), list(written.buffers)))
    assert rows == found.rows
    assert gtids[: len(found.groups)] == [gtid for *_, gtid in found.groups]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_buffers_may_be_cut_between_any_two_events(written: Written, data: st.DataObject) -> None:
    whole = joined(list(written.buffers))
    cuts = starts(whole)[1:]
    chosen = data.draw(st.one_of(st.sets(st.sampled_from(cuts), max_size=30), st.just(set(cuts))))
    pieces = np.split(whole, sorted(chosen))
    assert merged(scan_all(written.scanner(), pieces)) == merged([written.scanner().feed(whole)])


def test_an_open_transaction_is_no_boundary(written: Written) -> None:
    whole, scanner = joined(list(written.buffers)), written.scanner()
    at_xid = next(at for at in starts(whole) if whole[at + 4] == 16)
    scan = scanner.feed(whole[:at_xid])
    assert scan.transactions.outcome[-1] == OPEN
    assert scan.boundary == Position(scan.files[-1], int(scan.transactions.begin[-1])) < scan.end
    scan = scanner.feed(whole[at_xid : at_xid + 31])
    assert scan.ended == 1
    assert scan.boundary == scan.end


def test_commit_times_are_the_servers(log: Log, database: str) -> None:
    log.run(f"CREATE TABLE {database}.t (a INT PRIMARY KEY)")
    start, before = log.end, log.ask("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)")[0][0]
    log.run(f"INSERT INTO {database}.t VALUES (1)")
    after = log.ask("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)")[0][0]
    scan = BinlogScanner(start, lambda _: True).feed(joined(log.buffers(start)))
    assert before <= scan.transactions.commit_us[0] <= after


def test_statements_are_listed_with_what_they_concern(log: Log, database: str) -> None:
    start = log.end
    log.run(
        f"USE {database}",
        "CREATE TABLE mine (a INT PRIMARY KEY)",
        "CREATE TABLE copied AS SELECT 1 AS a",
        "CREATE VIEW v AS SELECT 1 AS é",
        "RENAME TABLE copied TO c2, c2 TO c3",
        "SET SESSION sql_mode = 'ANSI_QUOTES'",
        'DROP TABLE "c3"',
        "SET SESSION sql_mode = DEFAULT",
        "CREATE TABLE c4 (a INT PRIMARY KEY)",
        "XA START 'a'",
        "INSERT INTO c4 VALUES (1)",
        "XA END 'a'",
        "XA PREPARE 'a'",
        "XA COMMIT 'a'",
    )
    scan = BinlogScanner(start, lambda name: name == f"{database}.mine").feed(joined(log.buffers(start)))
    kinds = [(s.statement.kind, s.statement.tables, s.concerns) for s in scan.statements]
    ddl, name = StatementKind.TABLE_DDL, database
    assert kinds == [
        (ddl, (f"{name}.mine",), True),
        (ddl, (f"{name}.copied",), False),
        (StatementKind.HARMLESS, (), False),
        (ddl, tuple(f"{name}.{t}" for t in ("copied", "c2", "c2", "c3")), False),
        (ddl, (f"{name}.c3",), False),
        (ddl, (f"{name}.c4",), False),
        (StatementKind.TRANSACTION, (), False),
    ]
    assert scan.statements[2].text.endswith("VIEW `v` AS SELECT 1 AS é")
    assert scan.statements[-1].text.startswith("XA COMMIT")
    assert not len(scan.rows)
    for statement in scan.statements:
        assert statement.position.pos == scan.transactions.end[statement.transaction] or "START TRANS" in statement.text


def test_watched_tables_and_dropped_databases(log: Log, database: str) -> None:
    start = log.end
    log.run(f"CREATE TABLE {database}.new (a INT)", f"CREATE DATABASE {database}_x", f"DROP DATABASE {database}_x")
    buffer = joined(log.buffers(start))
    scan = BinlogScanner(start, {}, watched=lambda name: name.endswith(".new")).feed(buffer)
    assert [s.concerns for s in scan.statements] == [True, False, True]  # a predicate cannot tell of a database
    scan = BinlogScanner(start, lambda _: False).feed(buffer)
    assert [s.concerns for s in scan.statements] == [False, False, True]
    scan = BinlogScanner(start, {}).feed(buffer)
    assert [s.concerns for s in scan.statements] == [False, False, False]


def test_statement_based_changes_are_dml(log: Log, database: str) -> None:
    log.run(f"CREATE TABLE {database}.t (a INT PRIMARY KEY)")
    start = log.end
    log.run("SET SESSION binlog_format = 'STATEMENT'", f"INSERT INTO {database}.t VALUES (1)")
    log.run("SET SESSION binlog_format = 'ROW'")
    scan = BinlogScanner(start, {}).feed(joined(log.buffers(start)))
    assert [s.statement.kind for s in scan.statements] == [StatementKind.DML]
    assert scan.statements[0].names is not None
    assert scan.statements[0].names.mentions(f"{database}.t")  # whether that concerns us is the planner's question
    assert scan.ended == 1


def rolled_back(log: Log, database: str, text: str) -> tuple[Position, Buffer]:
    """A transaction with rows of a captured table whose XID is replaced: MySQL 8 logs no such group any more."""
    log.run(f"CREATE TABLE {database}.t (a INT PRIMARY KEY)")
    start = log.end
    log.run(f"INSERT INTO {database}.t VALUES (1)")
    buffer = joined(log.buffers(start))
    at = starts(buffer)[-1]
    assert buffer[at + 4] == 16
    return start, np.concatenate((buffer[:at], query_event(text, log.end.pos - 31)))


def test_a_group_that_is_rolled_back_gives_no_rows(log: Log, database: str) -> None:
    start, buffer = rolled_back(log, database, "ROLLBACK")
    scan = BinlogScanner(start, lambda _: True).feed(buffer)
    assert not len(scan.rows)
    assert scan.transactions.events.tolist() == [0]
    assert scan.transactions.outcome.tolist() == [ROLLED_BACK]
    assert scan.boundary == scan.end
    # its rows may have been given out already: then nothing behind them is
    with pytest.raises(DefiniteError, match="ROLLBACK"):
        scan_all(BinlogScanner(start, lambda _: True), np.split(buffer, starts(buffer)[-1:]))
    assert not len(BinlogScanner(start, lambda _: False).feed(buffer).rows)


def test_rows_before_a_logged_rollback_to_savepoint_stop_the_scan(log: Log, database: str) -> None:
    start, buffer = rolled_back(log, database, "ROLLBACK TO `s`")
    with pytest.raises(DefiniteError, match="ROLLBACK"):
        BinlogScanner(start, lambda _: True).feed(buffer)
    assert BinlogScanner(start, lambda _: False).feed(buffer).transactions.outcome.tolist() == [OPEN]


def test_a_rollback_as_the_server_logs_it(plain_log: Log) -> None:
    plain_log.run("CREATE TABLE inno (a INT PRIMARY KEY)", "CREATE TABLE isam (a INT) ENGINE = MyISAM")
    start = plain_log.end
    plain_log.run("SET SESSION binlog_format = 'STATEMENT'", "BEGIN", "INSERT INTO inno VALUES (1)")
    plain_log.run("INSERT INTO isam SELECT a FROM inno", "ROLLBACK", "SET SESSION binlog_format = 'ROW'")
    scan = BinlogScanner(start, {}).feed(joined(plain_log.buffers(start)))
    assert scan.transactions.outcome.tolist() == [ROLLED_BACK]
    assert [s.statement.kind for s in scan.statements] == [StatementKind.DML] * 2
    assert scan.boundary == plain_log.end


def test_transactions_without_gtids(plain_log: Log) -> None:
    workload.create(plain_log, "d")
    start = plain_log.end
    workload.run(plain_log, "d", seed=8, transactions=40)
    listed = plain_log.listed(start, "d.cap")
    scans = scan_all(BinlogScanner(start, lambda name: name.startswith("d.cap")), plain_log.buffers(start))
    found = as_listed(scans)
    assert found.rows == listed.rows
    assert found.groups == listed.groups
    assert all(scan.transactions.source.max(initial=-1) == -1 for scan in scans)
    assert not scans[-1].gtids


def xa(log: Log, database: str, *end: str) -> tuple[Position, Buffer]:
    log.run(f"CREATE TABLE {database}.t (a INT PRIMARY KEY)")
    start = log.end
    log.run("XA START 'x'", f"INSERT INTO {database}.t VALUES (1)", "XA END 'x'", *end)
    return start, joined(log.buffers(start))


@pytest.mark.parametrize("captured", [True, False])
@pytest.mark.parametrize("decision", ["commit", "rollback"])
def test_xa_in_two_phases_is_told(log: Log, database: str, decision: str, captured: bool) -> None:
    start, buffer = xa(log, database, "XA PREPARE 'x'", f"XA {decision} 'x'")
    scan = BinlogScanner(start, lambda _: captured).feed(buffer)
    assert (len(scan.rows), scan.ended, scan.boundary) == (captured, 2, log.end)
    assert [(d.kind, d.xid, d.transaction) for d in scan.decisions] == [("prepare", "78,,1", 0), (decision, "78,,1", 1)]
    assert scan.transactions.outcome[0] == PREPARED


def test_xa_in_one_phase_is_a_commit(log: Log, database: str) -> None:
    start, buffer = xa(log, database, "XA COMMIT 'x' ONE PHASE")
    scan = BinlogScanner(start, lambda _: True).feed(buffer)
    assert (len(scan.rows), scan.ended, scan.boundary) == (1, 1, log.end)
