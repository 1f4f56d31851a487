"""Binary JSON for the kernels' tests: as the server writes it to its binlog, and as the server prints what we write."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pymysql

from lakehouse_cdc.images.bytes_io import Bytes, pointer
from lakehouse_cdc.images.compiled import compiled
from lakehouse_cdc.images.status import BAD_JSON
from lakehouse_cdc.images.text.json_text import EXTRA, GROWTH, write_json
from lakehouse_cdc.schema.table import Column, TableSchema
from tests.support.images.binlog_file import TABLE_MAP, read_log
from tests.support.images.guarded import guarded
from tests.support.images.tables import ID
from tests.support.positions import binlog_end

FORMAT_DESCRIPTION, WRITE_ROWS = 15, 30
_SMALL, _FRONT = 4096, 16
_GTIDS = count(1)


@compiled
def _convert(buf: Bytes, at: int, size: int, out: Bytes, to: int) -> int:
    return write_json(pointer(buf), at, size, np.int64(0), pointer(out), to)


def _room(size: int) -> tuple[Any, Any]:
    return guarded(size), guarded(_FRONT + GROWTH * size + EXTRA)


_SHARED = _room(_SMALL)


def convert(document: bytes) -> bytes | None:
    """The kernel's text, None where it refuses. One byte read behind the document or written behind its room kills."""
    size = len(document)
    source, target = _SHARED if size <= _SMALL else _room(size)
    at, to = len(source) - size, len(target) - GROWTH * size - EXTRA
    source[at:] = np.frombuffer(document, np.uint8)
    target[to - _FRONT : to] = 0xAA
    end = _convert(source, at, size, target, to)
    assert bytes(target[to - _FRONT : to]) == b"\xaa" * _FRONT
    if end < 0:
        assert end == -BAD_JSON
        return None
    assert to <= end <= len(target)
    return bytes(target[to:end])


class Printed(NamedTuple):
    """A document, and the text that the server prints for it."""

    document: bytes
    text: bytes


class JsonTable:
    """A table of a number and a JSON column."""

    def __init__(self, session: pymysql.Connection[Any], database: str) -> None:
        self._session = session
        self.name = f"{database}.j"
        self._schema = TableSchema(database, "j", (ID, Column("j", "json")), ("id",))
        self.run(f"CREATE TABLE {self.name} (id INT AUTO_INCREMENT PRIMARY KEY, j JSON)")

    def inserted(self, values: Iterable[str], arguments: Sequence[Any] | None = None) -> list[Printed]:
        """SQL expressions, inserted."""
        return self.changed(f"INSERT INTO {self.name} (j) VALUES {', '.join(f'({v})' for v in values)}", arguments)

    def changed(self, sql: str, arguments: Sequence[Any] | None = None) -> list[Printed]:
        """All rows of the table after a statement that writes all of them, and no others; then it is empty."""
        start = binlog_end(self._session)
        self.run(sql, arguments)
        documents = self._documents(start)
        with self._session.cursor() as cursor:
            cursor.execute(f"SELECT j FROM {self.name} ORDER BY id")
            texts = [text.encode() for (text,) in cursor.fetchall()]
        self.run(f"DELETE FROM {self.name}")
        return [Printed(*pair) for pair in zip(documents, texts, strict=True)]

    def printed(self, documents: Sequence[bytes]) -> list[bytes | None]:
        """What the server prints for documents of ours, which it takes from a binlog event; None where it refuses."""
        event = self._rows_event(documents)
        with self._session.cursor() as cursor:
            cursor.execute(f"SET gtid_next = 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:{next(_GTIDS)}'")
            cursor.execute("BINLOG %s", [b"".join(base64.encodebytes(e) for e in event).decode()])
            cursor.execute("COMMIT")
            cursor.execute("SET gtid_next = 'AUTOMATIC'")
        texts = [self._printed(i + 1) for i in range(len(documents))]
        self.run(f"DELETE FROM {self.name}")
        return texts

    def _printed(self, row: int) -> bytes | None:
        with self._session.cursor() as cursor:
            try:
                cursor.execute(f"SELECT CAST(j AS BINARY) FROM {self.name} WHERE id = {row}")
            except pymysql.err.OperationalError as error:
                if error.args[0] not in (1815, 3142, 3157):  # of an unknown type, invalid, nested too deeply
                    raise
                return None
            [(text,)] = cursor.fetchall()
            assert isinstance(text, bytes)
            return text

    def run(self, sql: str, arguments: Sequence[Any] | None = None) -> None:
        """A statement without a result."""
        with self._session.cursor() as cursor:
            cursor.execute(sql, arguments)

    def _documents(self, start: tuple[str, int]) -> list[bytes]:
        """The JSON column in the last image of each row that was written since `start`."""
        log = read_log(self._session, start, [self._schema])
        data, documents = log.buffer.tobytes(), []
        for at, end, kind in zip(log.events.start.tolist(), log.events.end.tolist(), log.events.kind, strict=True):
            images, at = [], at + 2 + (kind == 1)  # the number of columns, one or two bitmaps
            while at < end:
                (size,) = struct.unpack_from("<I", data, at + 5)  # behind the NULL bitmap and the number
                images.append(data[at + 9 : at + 9 + size])
                at += 9 + size
            documents += images[1::2] if kind == 1 else images
        return documents

    def _rows_event(self, documents: Sequence[bytes]) -> list[bytes]:
        """A format description, a table map, and an event that writes rows 1, 2, ... with these documents."""
        start = binlog_end(self._session)
        self.run(f"INSERT INTO {self.name} (j) VALUES (NULL)")
        self.run(f"DELETE FROM {self.name}")
        with self._session.cursor() as cursor:
            cursor.execute("SELECT @@log_bin_basename")
            [(base,)] = cursor.fetchall()
        data = (Path(base).parent / start[0]).read_bytes()
        begin = _event(data, 4, FORMAT_DESCRIPTION)
        table, rows = _event(data, start[1], TABLE_MAP), _event(data, start[1], WRITE_ROWS)
        body = rows[19:31] + b"".join(
            struct.pack("<BII", 0, i + 1, len(document)) + document for i, document in enumerate(documents)
        )  # the number of columns and their bitmap are kept
        head = rows[:9] + struct.pack("<I", 19 + len(body) + 4) + rows[13:19]
        return [begin, table, head + body + struct.pack("<I", zlib.crc32(head + body))]


def _event(data: bytes, at: int, kind: int) -> bytes:
    """The first event of a type, from `at` on."""
    while True:
        (size,) = struct.unpack_from("<I", data, at + 9)
        if data[at + 4] == kind:
            return data[at : at + size]
        at += size


def array(values: Sequence[tuple[int, bytes]]) -> bytes:
    """A large array of values that are not inlined, each a type and its bytes."""
    at, entries = 8 + 5 * len(values), b""
    for kind, value in values:
        entries += struct.pack("<BI", kind, at)
        at += len(value)
    return b"\x03" + struct.pack("<II", len(values), at) + entries + b"".join(value for _, value in values)


def doubles(values: Any) -> bytes:
    """A large array of doubles."""
    bits = np.asarray(values, np.float64)
    entries = np.zeros(bits.size, [("kind", "u1"), ("offset", "<u4")])
    entries["kind"], entries["offset"] = 11, 8 + 5 * bits.size + 8 * np.arange(bits.size)
    head = struct.pack("<II", bits.size, 8 + 13 * bits.size)
    return b"\x03" + head + entries.tobytes() + bits.tobytes()
