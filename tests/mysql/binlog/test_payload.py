"""Compressed transactions of a real server: the same rows as uncompressed ones, however they are mixed and cut."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.images.rows.decode import ChangeImages, decode_rows
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql.binlog.boundary import Cutter
from lakehouse_cdc.mysql.binlog.compression import events
from lakehouse_cdc.mysql.binlog.scan import COMMITTED, PREPARED, Scan
from lakehouse_cdc.mysql.binlog.scanner import BinlogScanner
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.testing import MySqlServer
from tests.mysql.binlog import workload
from tests.support.binlog_log import Buffer, Log, as_listed, joined, merged, scan_all, starts
from tests.support.payloads import PAYLOAD

ON, OFF = (f"SET SESSION binlog_transaction_compression = {value}" for value in ("ON", "OFF"))
FEW = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def kinds(buffer: Buffer) -> list[int]:
    return [int(buffer[at + 4]) for at in starts(buffer)]


def written(log: Log, database: str, seed: int, compression: str) -> tuple[Position, Buffer]:
    """A workload on fresh tables."""
    log.run(f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}")
    workload.create(log, database)
    start = log.end
    log.run(compression)
    workload.run(log, database, seed=seed, transactions=30)
    log.run(OFF)
    return start, joined(log.buffers(start))


def contents(scan: Scan) -> tuple[list[tuple[Any, ...]], list[Any]]:
    """What the transactions hold, but for where they stand; and the statements."""
    t = scan.transactions
    rows: list[list[tuple[int, str, bytes]]] = [[] for _ in range(len(t))]
    for i in range(len(scan.rows)):
        body = scan.buffer[scan.rows.start[i] : scan.rows.end[i]].tobytes()
        table = scan.tables[scan.rows.table[i]].name.split(".")[1]
        rows[scan.rows.txn[i]].append((int(scan.rows.kind[i]), table, body))
    facts = list(zip(t.events.tolist(), t.bytes.tolist(), t.outcome.tolist(), rows, strict=True))
    return facts, [(s.text, s.statement.kind, s.transaction) for s in scan.statements]


@FEW
@given(st.integers(0, 2**32))
def test_the_same_statements_give_the_same_rows(log: Log, database: str, seed: int) -> None:
    found = []
    for compression in (ON, OFF):
        start, buffer = written(log, database, seed, compression)
        assert (PAYLOAD in kinds(buffer)) == (compression == ON)
        scan = BinlogScanner(start, lambda name: ".cap" in name).feed(buffer)
        assert scan.end == log.end
        found.append(contents(scan))
    assert found[0] == found[1]
    assert any(rows for *_, rows in found[0][0])


@pytest.fixture(scope="module")
def mixed(mysql: MySqlServer) -> Iterator[tuple[Position, Buffer, Any]]:
    """Compressed transactions, plain ones, DDL, and rotations; with the server's own list of the events."""
    with ExitStack() as stack:
        log = Log(mysql, stack)
        log.run("DROP DATABASE IF EXISTS mixed", "CREATE DATABASE mixed")
        workload.create(log, "mixed")
        start = log.end
        for seed in range(8):
            log.run((ON, OFF)[seed % 2])
            workload.run(log, "mixed", seed=seed, transactions=12)
        log.run(
            ON, "BEGIN", "INSERT INTO cap_a VALUES (-2, 's', 1)", "SAVEPOINT a", "INSERT INTO other (x) VALUES (NOW())"
        )
        log.run("SET SESSION binlog_rows_query_log_events = ON", "DELETE FROM cap_a WHERE id < 0", "COMMIT")
        log.run(OFF)
        buffer, listed = joined(log.buffers(start)), log.listed(start, "mixed.cap")
        assert {PAYLOAD, 16} <= set(kinds(buffer))
        yield start, buffer, listed
        log.run("DROP DATABASE mixed")


def scanner(start: Position) -> BinlogScanner:
    return BinlogScanner(start, lambda name: name.startswith("mixed.cap"))


def test_every_event_stands_where_the_server_says(mixed: tuple[Position, Buffer, Any]) -> None:
    start, buffer, listed = mixed
    scan = scanner(start).feed(buffer)
    found = as_listed([scan])
    assert found.rows == listed.rows
    assert found.groups == listed.groups
    txn = scan.rows.txn
    within = scan.row_end == scan.transactions.end[txn]  # the event of a plain transaction ends before its XID
    assert within.any()
    assert not within.all()
    assert len(np.unique(txn[within])) > 20


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_buffers_may_be_cut_between_any_two_events(mixed: tuple[Position, Buffer, Any], data: st.DataObject) -> None:
    start, whole, _ = mixed
    cuts = starts(whole)[1:]
    chosen = data.draw(st.one_of(st.sets(st.sampled_from(cuts), max_size=30), st.just(set(cuts))))
    pieces = np.split(whole, sorted(chosen))
    assert merged(scan_all(scanner(start), pieces)) == merged([scanner(start).feed(whole)])


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(piece=st.one_of(st.integers(1, 300), st.integers(1, 20_000)), data=st.data())
def test_pieces_say_what_the_whole_says(mixed: tuple[Position, Buffer, Any], piece: int, data: st.DataObject) -> None:
    """However little is expanded at once, of whatever buffers."""
    start, whole, _ = mixed
    expected = merged([scanner(start).feed(whole)])
    buffers = np.split(whole, sorted(data.draw(st.sets(st.sampled_from(starts(whole)[1:]), max_size=3))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "PIECE", piece)
        scans = scan_all(scanner(start), buffers)
    assert merged(scans) == expected
    if piece <= 300:  # less than any of the payloads says
        assert len(scans) > len(buffers)
        assert max(scan.buffer.size for scan in scans) < whole.size


def test_a_stretch_is_cut_at_any_boundary(mixed: tuple[Position, Buffer, Any]) -> None:
    """Buffers are cut by their own headers, before anything is expanded."""
    start, whole, _ = mixed
    places = [start, *scanner(start).feed(whole).boundaries()]
    for n in range(1, len(places), 7):
        cutter = Cutter(start, places[n])
        scan = scanner(start).feed(cutter.cut(whole))
        assert cutter.done
        assert scan.boundary == scan.end == places[n]


def test_without_compressed_events_nothing_is_expanded_or_copied(
    log: Log, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehouse_cdc.mysql.binlog.compression.pieces.expand", None)
    start = log.end
    log.run(f"CREATE TABLE {database}.t (a INT PRIMARY KEY)", f"INSERT INTO {database}.t VALUES (1)")
    buffer = joined(log.buffers(start))
    assert BinlogScanner(start, lambda _: True).feed(buffer).buffer is buffer


COLUMNS = Column("id", "int", nullable=False), Column("s", "varchar", length=300, charset="utf8mb4")


def decoded(scan: Scan, database: str) -> ChangeImages:
    schemas = [TableSchema(database, table.name.split(".")[1], COLUMNS, ("id",)) for table in scan.tables]
    return decode_rows(scan.buffer, scan.rows, ProgramSet.of(schemas, [table.types for table in scan.tables]))


@pytest.mark.parametrize("rows", [1, 2, 500, 10_000])
def test_one_position_and_ordinals_through_the_whole_transaction(log: Log, database: str, rows: int) -> None:
    log.run(f"USE {database}", *(f"CREATE TABLE {t} (id INT PRIMARY KEY, s VARCHAR(300))" for t in "tu"))
    start = log.end
    number = f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})"
    log.run(ON, f"SET SESSION cte_max_recursion_depth = {rows}", "BEGIN")
    log.run(*(f"INSERT INTO {t} {number} SELECT i, REPEAT('x', i % 300) FROM n" for t in "tu"))
    log.run(
        "UPDATE t, u SET t.s = 'y', u.s = 'z' WHERE t.id = u.id", "UPDATE t SET id = -id", "DELETE FROM u", "COMMIT"
    )
    log.run(OFF)
    scan = BinlogScanner(start, lambda _: True).feed(joined(log.buffers(start)))
    images = decoded(scan, database)
    # two inserts, two updates, an update of the key (a delete and an insert), and a delete of each row
    assert images.n == 7 * rows
    assert images.ordinal.tolist() == list(range(7 * rows))
    assert set(scan.row_end.tolist()) == {log.end.pos} == {int(scan.transactions.end[0])}
    assert int(scan.transactions.begin[0]) == start.pos
    assert scan.ended == len(scan.transactions) == 1


def test_a_large_transaction_in_a_dump_of_its_own(log: Log, database: str) -> None:
    """More than a buffer of the dump holds, compressed and not."""
    log.run(f"USE {database}", "CREATE TABLE t (id INT PRIMARY KEY, b LONGBLOB)")
    start = log.end
    rows = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000)"
    log.run(ON, "SET SESSION cte_max_recursion_depth = 6000", "BEGIN")
    log.run(
        f"INSERT INTO t {rows} SELECT i, RANDOM_BYTES(1024) FROM n", "INSERT INTO t VALUES (-1, REPEAT('x', 30 << 20))"
    )
    log.run("COMMIT", OFF)
    assert 5 << 20 < log.end.pos - start.pos < 8 << 20
    scans = scan_all(BinlogScanner(start, lambda _: True), log.buffers(start))
    assert max(scan.buffer.size for scan in scans) < 33 << 20  # the largest event, and not the transaction
    assert sum(int(scan.transactions.bytes[0]) for scan in scans if len(scan.rows)) > 35 << 20
    assert scans[-1].end == scans[-1].boundary == log.end


def test_xa(log: Log, database: str) -> None:
    log.run(f"CREATE TABLE {database}.t (a INT PRIMARY KEY)")
    start, insert = log.end, f"INSERT INTO {database}.t VALUES (1)"
    log.run(ON, "XA START 'x'", insert, "XA END 'x'", "XA COMMIT 'x' ONE PHASE", f"DELETE FROM {database}.t")
    middle = log.end
    log.run("XA START 'x'", insert, "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'", OFF)
    buffer = joined(log.buffers(start))
    assert kinds(buffer).count(PAYLOAD) == 3
    scan = BinlogScanner(start, lambda _: True).feed(Cutter(start, middle).cut(buffer))
    assert (len(scan.rows), scan.ended, scan.boundary) == (2, 2, middle)
    scan = BinlogScanner(start, lambda _: True).feed(buffer)
    assert (len(scan.rows), scan.ended, scan.boundary) == (3, 4, log.end)
    assert scan.transactions.outcome.tolist() == [COMMITTED, COMMITTED, PREPARED, COMMITTED]
    assert [(d.kind, d.transaction) for d in scan.decisions] == [("prepare", 2), ("commit", 3)]
    scan = BinlogScanner(start, lambda _: False).feed(buffer)
    assert (scan.ended, scan.boundary) == (4, log.end)
