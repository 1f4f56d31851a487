"""MariaDB's own grammar: GTIDs that stand for BEGIN, lists of them, events that only it has; and damage to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse_cdc.errors import CdcError, DefiniteError
from lakehouse_cdc.images.binlog.words import FORMAT
from lakehouse_cdc.model.gtid import GtidSet
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql.binlog.boundary import Cutter
from lakehouse_cdc.mysql.binlog.scanner import BinlogScanner
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.versions import MARIADB
from tests.support.binlog_log import Buffer, Log, damage, event, joined, starts

pytestmark = [pytest.mark.parametrize("any_server", MARIADB, indirect=True), pytest.mark.every_server]


@pytest.fixture
def log(any_server: MySqlServer, any_database: str) -> Iterator[Log]:
    with ExitStack() as stack:
        found = Log(any_server, stack)
        found.run(
            f"USE {any_database}", "CREATE TABLE a (i INT PRIMARY KEY, t TEXT)", "CREATE TABLE b (i INT PRIMARY KEY)"
        )
        yield found


@pytest.fixture
def sample(log: Log) -> tuple[Position, Buffer]:
    """Every kind of group: of rows, of two tables, DDL, CREATE ... SELECT, XA, rolled back, of other domains."""
    log.run("FLUSH BINARY LOGS")
    start = Position(log.end.file, 4)
    log.run("BEGIN", "INSERT INTO a VALUES (1, 'x'), (2, REPEAT('y', 9000))", "INSERT INTO b VALUES (1)", "COMMIT")
    log.run("SET SESSION gtid_domain_id = 7, SESSION server_id = 9", "UPDATE a, b SET t = 'z', b.i = 2 WHERE a.i = b.i")
    log.run("ALTER TABLE b ADD c INT", "CREATE TABLE d SELECT i FROM a", "SET SESSION gtid_domain_id = 0")
    log.run("BEGIN", "SAVEPOINT s", "DELETE FROM a", "ROLLBACK TO s", "INSERT INTO b VALUES (5, 5)", "COMMIT")
    log.run("XA START 'x'", "INSERT INTO d VALUES (9)", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'")
    log.run(
        "CREATE SEQUENCE q", "SELECT NEXTVAL(q)", "DROP SEQUENCE q", "SET SESSION server_id = 1", "FLUSH BINARY LOGS"
    )
    log.run("DELETE FROM a WHERE i = 1")
    return start, joined(log.buffers(start))


def captured(name: str) -> bool:
    return name.endswith((".a", ".b"))


def test_groups_are_those_that_the_server_lists(log: Log, sample: tuple[Position, Buffer]) -> None:
    start, buffer = sample
    scan = BinlogScanner(start, captured).feed(buffer)
    listed = []
    for file, *_ in log.ask("SHOW BINARY LOGS"):
        if file >= start.file:
            for _, pos, kind, _, _, info in log.ask(f"SHOW BINLOG EVENTS IN '{file}'"):
                if kind == "Gtid":
                    listed.append((file, pos, re.search(r"GTID (\S+)", info)[1]))  # type: ignore[index]
    txns = scan.transactions
    found = [(scan.files[txns.file[i]], int(txns.begin[i]), scan.gtid(i)) for i in range(len(txns))]
    assert found == listed
    assert scan.ended == len(txns)
    assert len({gtid.rpartition("-")[0] for *_, gtid in found}) == 3  # 0-1, 7-9, 0-9
    assert scan.end == log.end
    sizes = np.bincount(scan.rows.txn, minlength=len(txns)).tolist()
    assert sizes == txns.events.tolist()
    assert sum(sizes) == 7


def test_the_position_is_the_servers(log: Log, sample: tuple[Position, Buffer]) -> None:
    start, buffer = sample
    scanner = BinlogScanner(start, captured)
    scanner.feed(buffer)
    [(position,)] = log.ask("SELECT @@GLOBAL.gtid_binlog_state")
    assert scanner.gtids == GtidSet.parse(position)
    assert scanner.gtids_complete


def test_an_encrypted_file_says_so_again_in_front_of_a_start_in_its_middle(log: Log) -> None:
    """There, as of the format description, it says no position, and stands in no file; the rest comes decrypted."""
    start = log.end
    log.run("INSERT INTO a VALUES (1, 'x')")
    end, buffer = log.end, joined(log.buffers(start))
    places = [*starts(buffer), buffer.size]
    behind = places[next(n for n, at in enumerate(places[:-1]) if buffer[at + 4] == FORMAT) + 1]
    said = event(164, bytes(17), 0, flags=0x80).copy()
    said[13:17] = 0
    whole = np.concatenate((buffer[:behind], said, buffer[behind:]))
    cutter = Cutter(start, end)
    scan = BinlogScanner(start, captured).feed(cutter.cut(whole))
    assert cutter.done
    assert (scan.end, scan.ended, len(scan.rows)) == (end, 1, 1)
    said[13:17] = 1
    with pytest.raises(DefiniteError, match="does not end where its header says"):
        BinlogScanner(start, captured).feed(np.concatenate((buffer[:behind], said, buffer[behind:])))


def test_buffers_may_be_cut_between_any_two_events(sample: tuple[Position, Buffer]) -> None:
    start, buffer = sample
    whole = BinlogScanner(start, captured).feed(buffer)
    scanner, places, gtids = BinlogScanner(start, captured), [*starts(buffer), buffer.size], set()
    rows = 0
    for first, behind in pairwise(places):
        scan = scanner.feed(buffer[first:behind].copy())
        rows += len(scan.rows)
        gtids |= {scan.gtid(i) for i in range(len(scan.transactions))}
    assert rows == len(whole.rows)
    assert gtids == {whole.gtid(i) for i in range(len(whole.transactions))}
    assert (scanner.position, scanner.gtids) == (whole.end, whole.gtids)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_bytes_never_crash(sample: tuple[Position, Buffer], data: st.DataObject) -> None:
    damaged = damage(data, sample[1])
    try:
        BinlogScanner(sample[0], lambda _: True).feed(damaged)
    except CdcError as error:
        assert error.where  # noqa: PT017


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_lost_event_is_an_error(sample: tuple[Position, Buffer], data: st.DataObject) -> None:
    """Where no event has a position, inside a transaction from 11.4 on, the transaction's end does not stand right."""
    whole = sample[1]
    places = [*starts(whole), whole.size]
    real = [n for n in range(1, len(places) - 3) if whole[places[n] + 4] != 4]
    lost = data.draw(st.sampled_from(real))
    with pytest.raises(DefiniteError):
        BinlogScanner(sample[0], lambda _: True).feed(
            np.concatenate((whole[: places[lost]], whole[places[lost + 1] :]))
        )
