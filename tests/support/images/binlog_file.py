"""A plain reader of binlog files, for tests: rows events and table maps, nothing decoded."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pymysql

from lakehouse_cdc.images.binlog.row_events import DELETE, UPDATE, WRITE, RowEvents
from lakehouse_cdc.images.layout import BinlogType
from lakehouse_cdc.schema.table import TableSchema
from tests.support.positions import binlog_end

KINDS = {30: WRITE, 31: UPDATE, 32: DELETE, 23: WRITE, 24: UPDATE, 25: DELETE}
TABLE_MAP, XID, QUERY = 19, 16, 2


class Log(NamedTuple):
    """The bytes of a file from a position on, the rows events of the tables asked for, what the table maps say."""

    buffer: np.ndarray[Any, np.dtype[np.uint8]]
    events: RowEvents
    maps: list[list[BinlogType]]


def read_log(connection: pymysql.Connection[Any], start: tuple[str, int], schemas: Sequence[TableSchema]) -> Log:
    """All rows events of `schemas` since `start`, which lies in the current file."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@log_bin_basename, @@binlog_checksum")
        row = cursor.fetchone()
    assert row is not None
    assert (row[1], binlog_end(connection)[0]) == ("CRC32", start[0])
    data = (Path(row[0]).parent / start[0]).read_bytes()[start[1] :]
    names = [schema.name for schema in schemas]
    tables: dict[bytes, int] = {}
    maps: list[list[BinlogType]] = [[] for _ in schemas]
    found: list[tuple[int, int, int, int, int]] = []
    at, txn = 0, 0
    while at < len(data):
        kind, (size,) = data[at + 4], struct.unpack_from("<I", data, at + 9)
        body, end = at + 19, at + size - 4
        if kind == TABLE_MAP:
            name, types = _table_map(data, body + 8)
            if name in names:
                tables[data[body : body + 6]] = names.index(name)
                maps[names.index(name)] = types
        elif kind in KINDS and data[body : body + 6] in tables:
            post = 8 + (struct.unpack_from("<H", data, body + 8)[0] if kind >= 30 else 0)
            found.append((body + post, end, KINDS[kind], tables[data[body : body + 6]], txn))
        elif kind in (XID, QUERY):
            txn += kind == XID
        at += size
    columns = np.array(found, dtype=np.int64).reshape(-1, 5).T
    dtypes = (np.int64, np.int64, np.uint8, np.int32, np.int32)
    arrays: list[Any] = [np.ascontiguousarray(c, dtype=d) for c, d in zip(columns, dtypes, strict=True)]
    return Log(np.frombuffer(bytearray(data), dtype=np.uint8), RowEvents(*arrays), maps)


def _table_map(data: bytes, at: int) -> tuple[str, list[BinlogType]]:
    def text() -> str:
        nonlocal at
        length = data[at]
        at += length + 2
        return data[at - length - 1 : at - 1].decode()

    def number() -> int:
        nonlocal at
        at += 1
        if data[at - 1] < 251:
            return data[at - 1]
        assert data[at - 1] == 252
        at += 2
        return int.from_bytes(data[at - 2 : at], "little")

    name = f"{text()}.{text()}"
    count = number()
    types = data[at : at + count]
    at += count
    number()
    out = []
    for code in types:
        size = {4: 1, 5: 1, 15: 2, 16: 2, 17: 1, 18: 1, 19: 1, 242: 1, 245: 1, 246: 2, 252: 1, 254: 2, 255: 1}.get(
            code, 0
        )
        out.append((code, data[at : at + size]))
        at += size
    return name, out
