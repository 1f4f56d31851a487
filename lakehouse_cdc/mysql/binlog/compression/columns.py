"""MariaDB's COMPRESSED columns, inflated in front of the decoder, which then meets ordinary columns.

VARCHAR, VARBINARY, TEXT and BLOB can be declared so (MariaDB 10.3). A SELECT gives plain values. In the binlog such a
column has a type of its own, and its values are as they are stored: an empty one has no bytes. Any other has a byte in
front: 0, and the value follows as it is (it is short, or would not become smaller); or 0x80 | 8 * raw | n, and the
value's size follows in n bytes, big-endian, then a deflate stream, in zlib's frame unless `raw` is 1. All of it
depends on variables of the session that wrote the row (column_compression_threshold, _zlib_wrap, _zlib_level). The
length of a VARCHAR in the table map counts the byte in front. Sources: MariaDB's `sql/field_comp.cc`, which also
leaves room for other methods than 8, zlib, and what 10.11 and 11.4 write.

Who decodes a scan has it inflated first, and the decoder holds the types that it is given against the schema: so
compressed values are never taken for plain ones. Counting rows needs extents alone (`countable`), and an excluded
column is passed over as it is.

A size is only a claim: nothing is inflated beyond it, nor beyond what the column can hold, and a stream that does not
end there is an error. A raw stream has no checksum of its own; its event has one (see `checksums`).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakehouse_cdc.errors import codes
from lakehouse_cdc.images import layout
from lakehouse_cdc.images.binlog.row_events import UPDATE
from lakehouse_cdc.images.extents import COLUMN_FIELDS, SPOT_FIELDS, find_values
from lakehouse_cdc.images.layout import BinlogType
from lakehouse_cdc.model.table_name import split
from lakehouse_cdc.mysql.binlog.cursor import Cursor
from lakehouse_cdc.mysql.binlog.scan import Scan
from lakehouse_cdc.mysql.binlog.tablemap import TableMap
from lakehouse_cdc.schema.table import Column, TableSchema

LARGEST = 2 << 30  # bytes that the rows of one buffer may become: all of them have to be in memory at once
_LARGEST_VALUE = 1 << 30  # bytes: max_allowed_packet goes no further
_ZLIB, _RAW, _SIZE_BYTES = 0x80, 0x08, 0x07


def inflated(scan: Scan, schemas: Sequence[TableSchema]) -> Scan:
    """The scan with the plain values, and types, of captured columns; `schemas` are those of `scan.tables`.

    Raises DefiniteError for a value that is damaged. A scan without compressed columns is given back as it is.
    """
    values = {
        t: _Values(table, schemas[t])
        for t, table in enumerate(scan.tables)
        if any(schemas[t].columns[i].captured for i in table.compressed)
    }
    if not values:
        return scan
    rows, size = scan.rows, scan.buffer.size
    start, end, pieces = rows.start.copy(), rows.end.copy(), list[Any]((scan.buffer.data,))
    for i in np.flatnonzero(np.isin(rows.table, list(values))).tolist():
        where = f"{scan.files[scan.transactions.file[rows.txn[i]]]}:{scan.row_end[i]}"
        content = values[int(rows.table[i])].plain(
            scan.buffer[rows.start[i] : rows.end[i]], 2 if rows.kind[i] == UPDATE else 1, where
        )
        pieces += content
        start[i], size = size, size + sum(map(len, content))
        end[i] = size
        if size > LARGEST:
            raise codes.BINLOG_TOO_LARGE.error(
                f"compressed columns of {len(scan.buffer)} bytes of binlog become more than {LARGEST >> 30} GiB",
                where=where,
            )
    tables = tuple(values[t].table if t in values else table for t, table in enumerate(scan.tables))
    buffer = np.frombuffer(bytearray().join(pieces), dtype=np.uint8) if len(pieces) > 1 else scan.buffer
    return replace(scan, buffer=buffer, rows=replace(rows, start=start, end=end), tables=tables)


def countable(table: TableMap) -> TableSchema:
    """What is enough, with the table's own types, to count its rows: columns of which none is captured."""
    database, name = split(table.name)
    columns = tuple(Column(str(i), "", captured=False) for i in range(len(table.types)))
    return TableSchema(database, name, columns, key=())


class _Values:
    """How the compressed values of one table become plain ones. `table` is its map with the types that they have then.

    Of each compressed column `_lengths` holds the bytes of the length in front, the same when plain, and the most bytes
    of a value.
    """

    def __init__(self, table: TableMap, schema: TableSchema) -> None:
        kinds = [
            (kind, layout.plain_type(kind) if column.captured else kind)
            for kind, column in zip(table.types, schema.columns, strict=True)
        ]
        self.table = replace(table, types=tuple(plain for _, plain in kinds))
        self._schema = schema
        self._captured = [i for i, column in enumerate(schema.columns) if column.captured]
        columns = [(*layout.extent(kind), int(kind != plain)) for kind, plain in kinds]
        self._columns = np.array(columns, np.int64).reshape(-1, COLUMN_FIELDS)
        self._lengths = {
            i: (layout.extent(kind)[1], layout.extent(plain)[1], _most(plain))
            for i, (kind, plain) in enumerate(kinds)
            if kind != plain
        }
        self._room = np.empty((1024, SPOT_FIELDS), np.int64)

    def plain(self, data: NDArray[np.uint8], images: int, where: str) -> list[Any]:
        """The content of a rows event with so many images a row, from the count of columns on, in pieces."""
        view, done, pieces = data.data, 0, list[Any]()
        for column, at, size in self._spots(data, images, where):
            prefix, plain_prefix, most = self._lengths[column]
            value = _inflated(view[at : at + size], most)
            if value is None:
                name = f"{self._schema.columns[column].name} of {self._schema.name}"
                raise codes.BINLOG_DAMAGED.error(
                    f"a compressed value of column {name} does not hold what it says", where=where
                )
            pieces += (view[done : at - prefix], len(value).to_bytes(plain_prefix, "little"), value)
            done = at + size
        pieces.append(view[done:])
        return pieces

    def _spots(self, data: NDArray[np.uint8], images: int, where: str) -> list[tuple[int, int, int]]:
        """Where the compressed values are: column, offset, size."""
        width = len(self._columns)
        bitmap = (width + 7) // 8
        head = Cursor(data[: 9 + images * bitmap].tobytes(), where)
        room = head.left
        if head.length() != width:
            return []  # which the decoder refuses, as it does what comes next
        bits = np.frombuffer(head.take(images * bitmap), np.uint8).reshape(images, bitmap)
        present = np.unpackbits(bits, axis=1, count=width, bitorder="little")
        if not present[:, self._captured].all():
            return []
        first = room - head.left
        count = find_values(data, first, self._columns, present, self._room)
        if count > len(self._room):
            self._room = np.empty((count, SPOT_FIELDS), np.int64)
            find_values(data, first, self._columns, present, self._room)
        if count < 0:
            raise codes.BINLOG_DAMAGED.error(f"a row of {self._schema.name} is cut off in the binlog", where=where)
        spots: list[tuple[int, int, int]] = self._room[:count].tolist()
        return spots


def _most(plain: BinlogType) -> int:
    """The bytes that a value of this type can have."""
    code, meta = plain
    return int.from_bytes(meta, "little") if code == layout.VARCHAR else min(256 ** meta[0] - 1, _LARGEST_VALUE)


def _inflated(value: memoryview, most: int) -> bytes | memoryview | None:
    """The plain value, or None if it is damaged."""
    head = value[0] if value else 0
    if head == 0:
        return value[1:] if len(value) <= most + 1 else None
    size_bytes = head & _SIZE_BYTES
    size = int.from_bytes(value[1 : 1 + size_bytes], "big")
    if head & ~(_RAW | _SIZE_BYTES) != _ZLIB or not 0 < size <= most:
        return None
    inflate = zlib.decompressobj(-zlib.MAX_WBITS if head & _RAW else zlib.MAX_WBITS)
    try:
        text = inflate.decompress(value[1 + size_bytes :], size + 1)
    except zlib.error:
        return None
    return text if len(text) == size and inflate.eof and not inflate.unused_data else None
