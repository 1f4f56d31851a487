"""What the tests of the binlog share: a log to write to, and its events as the server itself lists them."""

from __future__ import annotations

import re
import struct
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import pymysql
from hypothesis import strategies as st
from numpy.typing import NDArray

from lakehouse_cdc.model.gtid import GtidSet
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql.binlog.dump import BinlogDump
from lakehouse_cdc.mysql.binlog.scan import OPEN, Scan
from lakehouse_cdc.mysql.binlog.scanner import BinlogScanner
from lakehouse_cdc.testing import MySqlServer
from tests.support.servers import connected

Buffer = NDArray[np.uint8]
_server_ids = count(40_000)
_KINDS = {"Write_rows": 0, "Update_rows": 1, "Delete_rows": 2}


@dataclass
class Listed:
    """SHOW BINLOG EVENTS over some files, as facts to compare a scan with."""

    rows: list[tuple[str, int, int, str]] = field(default_factory=list)  # file, end, kind, table
    groups: list[tuple[str, int, int, str]] = field(default_factory=list)  # file, begin, end, gtid


class Log:
    """A server's binlog: run statements, receive what they wrote, list it."""

    def __init__(self, server: MySqlServer, stack: ExitStack) -> None:
        self.server = server
        self._stack = stack
        self._client = stack.enter_context(closing(connected(server)))

    def run(self, *statements: str) -> None:
        """One after the other, in autocommit."""
        with self._client.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with self._client.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def session(self, **settings: Any) -> pymysql.Connection[Any]:
        """Another connection, closed at the test's end."""
        return self._stack.enter_context(closing(self.server.connect(**settings)))

    @property
    def end(self) -> Position:
        file, size = self.ask("SHOW BINARY LOGS")[-1][:2]
        return Position(file, size)

    @property
    def executed(self) -> GtidSet:
        return GtidSet.parse(self.ask("SELECT @@global.gtid_executed")[0][0])

    def dump(self, start: Position, **settings: Any) -> BinlogDump:
        connection = settings.pop("connection", None) or self.server.connect()
        settings.setdefault("server_id", next(_server_ids))
        settings.setdefault("heartbeat_seconds", 1)  # the server notices a closed dump when it sends the next one
        return self._stack.enter_context(BinlogDump(connection, start, **settings))

    def buffers(self, start: Position, **settings: Any) -> list[Buffer]:
        """What a dump sends from `start` until the log's present end."""
        end, dump, found = self.end, self.dump(start, **settings), []
        follower = BinlogScanner(start, lambda _: False)
        while follower.position < end:
            found.append(dump.read(20))
            assert found[-1].size, f"nothing came behind {follower.position}, but the log ends at {end}"
            list(follower.scans(found[-1]))
        return found

    def listed(self, start: Position, captured: str) -> Listed:
        """All events behind `start`; rows of tables whose name begins with `captured`."""
        found = Listed()
        for file in (name for name, *_ in self.ask("SHOW BINARY LOGS")):
            if Position(file, 4) < Position(start.file, 4):
                continue
            tables: dict[str, str] = {}
            begin, gtid, begun = 0, "", False
            first = start.pos if file == start.file else 4
            for _, pos, kind, _, end, info in self.ask(f"SHOW BINLOG EVENTS IN '{file}' FROM {first}"):
                if kind in ("Gtid", "Anonymous_Gtid"):
                    begin, gtid, begun = pos, info.split("'")[1].replace("ANONYMOUS", ""), False
                elif kind == "Table_map":
                    number, name = re.fullmatch(r"table_id: (\d+) \((.+)\)", info).groups()  # type: ignore[union-attr]
                    tables[number] = name
                elif kind in _KINDS:
                    name = tables[info.split()[1]]
                    if name.startswith(captured):
                        found.rows.append((file, end, _KINDS[kind], name))
                elif kind == "Query" and info == "BEGIN":
                    begun = True
                elif kind == "Xid" or (kind == "Query" and (info == "COMMIT" or not begun)):
                    found.groups.append((file, begin, end, gtid))
        return found


def joined(buffers: list[Buffer]) -> Buffer:
    return np.concatenate(buffers)


def starts(buffer: Buffer) -> list[int]:
    """The offset of each event, by the lengths in the headers alone."""
    found, at = [], 0
    while at < buffer.size:
        found.append(at)
        at += int.from_bytes(buffer[at + 9 : at + 13].tobytes(), "little")
    assert at == buffer.size
    return found


def damage(data: st.DataObject, buffer: Buffer) -> Buffer:
    """A copy in which one byte to three, most of them near an event's begin, are others."""
    damaged: Buffer = buffer.copy()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.one_of(st.sampled_from(starts(buffer)), st.integers(0, buffer.size - 1)))
        near = min(at + data.draw(st.integers(0, 40)), buffer.size - 1)
        damaged[near] = data.draw(st.integers(0, 255))
    return damaged


def event(kind: int, body: bytes, pos: int, *, flags: int = 0) -> Buffer:
    """An event of our making that begins at `pos`, with four bytes where the checksum stands."""
    size = 19 + len(body) + 4
    header = struct.pack("<IBIIIH", 1_700_000_000, kind, 1, size, (pos + size) & 0xFFFFFFFF, flags)
    return np.frombuffer(header + body + bytes(4), dtype=np.uint8)


def format_event() -> Buffer:
    """A format description as 8.0 writes it: post-header lengths by type, then CRC32."""
    sizes = bytearray(42)
    for kind, size in {2: 13, 19: 8, 23: 8, 24: 8, 25: 8, 30: 10, 31: 10, 32: 10}.items():
        sizes[kind - 1] = size
    return event(15, b"\x04\0" + b"8.0.31".ljust(50, b"\0") + bytes(4) + b"\x13" + bytes(sizes) + b"\x01", 4)


def query_event(text: str, pos: int, database: str = "") -> Buffer:
    name = database.encode()
    return event(2, struct.pack("<IIBHH", 1, 0, len(name), 0, 0) + name + b"\0" + text.encode(), pos)


def scan_all(scanner: BinlogScanner, buffers: list[Buffer]) -> list[Scan]:
    return [scan for buffer in buffers for scan in scanner.scans(buffer)]


def as_listed(scans: list[Scan]) -> Listed:
    """The scans' rows and ended transactions in the form of `Listed`."""
    found = Listed()
    for scan in scans:
        txns = scan.transactions
        for i in range(len(scan.rows)):
            file = scan.files[txns.file[scan.rows.txn[i]]]
            table = scan.tables[scan.rows.table[i]].name
            found.rows.append((file, int(scan.row_end[i]), int(scan.rows.kind[i]), table))
        for n in range(scan.ended):
            file = scan.files[txns.file[n]]
            found.groups.append((file, int(txns.begin[n]), int(txns.end[n]), scan.gtid(n)))
    return found


def merged(scans: list[Scan]) -> tuple[Any, ...]:
    """What scans say, whatever buffers they were made of."""
    rows, statements = [], []
    txns: dict[tuple[str, int], tuple[int, str, int, int, int]] = {}
    for scan in scans:
        t = scan.transactions
        names = [(scan.files[t.file[i]], int(t.begin[i])) for i in range(len(t))]
        for i, name in enumerate(names):
            finished = t.outcome[i] != OPEN
            assert finished or i == len(t) - 1
            values = (int(t.commit_us[i]), scan.gtid(i), int(t.events[i]), int(t.bytes[i]), int(t.end[i]))
            assert values[:2] == txns.get(name, values)[:2]
            txns[name] = values
        for i in range(len(scan.rows)):
            body = scan.buffer[scan.rows.start[i] : scan.rows.end[i]].tobytes()
            table = scan.tables[scan.rows.table[i]].name
            rows.append((names[scan.rows.txn[i]], int(scan.row_end[i]), int(scan.rows.kind[i]), table, body))
        statements += [(s.position, s.text, s.statement, s.concerns, names[s.transaction]) for s in scan.statements]
    boundaries = [place for scan in scans for place in scan.boundaries()]
    return rows, txns, statements, boundaries, scans[-1].end, scans[-1].boundary, scans[-1].gtids
