"""Partial JSON updates, made whole: a PARTIAL_UPDATE_ROWS event as the UPDATE_ROWS event that says the same.

With binlog_row_value_options = PARTIAL_JSON MySQL writes every UPDATE in this form. Most rows only lose what is
between their images; where the image after holds changes of a document, the document of the image before is changed
and put in their place. So the image before must have it: events that leave columns out are refused.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.images import layout
from lakehouse_cdc.images.extents import COLUMN_FIELDS
from lakehouse_cdc.images.rows.partial_walk import (
    AFTER,
    BITS,
    FIRST_JSON,
    JSON_FIELDS,
    NEW_AT,
    NEW_SIZE,
    OLD_AT,
    OLD_SIZE,
    OPTIONS,
    OTHER_OPTIONS,
    find_parts,
)
from lakehouse_cdc.mysql.binlog.cursor import Cursor
from lakehouse_cdc.mysql.binlog.json.diff import changed, diffs
from lakehouse_cdc.mysql.binlog.tablemap import TableMap

_LENGTH_BYTES = 4  # in front of a JSON value


def whole_rows(content: NDArray[np.uint8], table: TableMap, where: str) -> bytes:
    """The content of the plain event, for that of a partial one: both from the count of columns to the last row.

    Raises DefiniteError for rows that do not add up, changes that do not fit, and images that lack columns.
    """
    view = content.data
    at = _first_row(bytes(view[: 9 + 2 * ((len(table.types) + 7) // 8)]), table, where)
    columns = np.array([_column(kind) for kind in table.types], np.int64).reshape(-1, COLUMN_FIELDS)
    documents = sum(code == layout.JSON for code, _ in table.types)
    spots = np.zeros(FIRST_JSON + documents * JSON_FIELDS, np.int64)
    pieces: list[Any] = [view[:at]]
    while at < content.size:
        parts_end = find_parts(content, at, columns, documents, spots)
        if parts_end < 0:
            raise _refused(parts_end, table, where)
        pieces += (view[at : spots[OPTIONS]], *_after(view, spots.tolist(), parts_end, where))
        at = parts_end
    return b"".join(pieces)


def _after(view: memoryview, spots: list[int], end: int, where: str) -> list[Any]:
    """The image after, in pieces."""
    done, pieces = spots[AFTER], list[Any]()
    for n, first in enumerate(range(FIRST_JSON, len(spots), JSON_FIELDS)):
        partial = spots[BITS] and view[spots[BITS] + n // 8] >> n % 8 & 1
        at, size = spots[first + NEW_AT], spots[first + NEW_SIZE]
        if not partial or size < 0:
            continue
        old, old_size = spots[first + OLD_AT], spots[first + OLD_SIZE]
        changes = diffs(bytes(view[at : at + size]), where)
        if old_size < 0:
            raise codes.BINLOG_DAMAGED.error(
                "a partial JSON update in the binlog changes a document that is NULL", where=where
            )
        document = changed(bytes(view[old : old + old_size]), changes, where)
        pieces += (view[done : at - _LENGTH_BYTES], struct.pack("<I", len(document)), document)
        done = at + size
    return [*pieces, view[done:end]]


def _first_row(head: bytes, table: TableMap, where: str) -> int:
    """The offset of the first row: after the count of columns, and which of them either image has."""
    data = Cursor(head, where)
    if data.length() != len(table.types):
        raise data.fail()
    for _ in range(2):
        present = int.from_bytes(data.take((len(table.types) + 7) // 8), "little")
        if ~present & (1 << len(table.types)) - 1:
            raise codes.ROW_IMAGE_PARTIAL.error(
                f"a partial JSON update of {table.name} in the binlog does not hold all columns",
                where=where,
                hint="SET GLOBAL binlog_row_image = FULL, and in the sessions that write",
            )
    return len(head) - data.left


def _column(kind: layout.BinlogType) -> tuple[int, int, int]:
    return (*layout.extent(kind), int(kind[0] == layout.JSON))


def _refused(status: int, table: TableMap, where: str) -> DefiniteError:
    if status == OTHER_OPTIONS:
        return codes.BINLOG_EVENT_UNKNOWN.error(
            f"an update of {table.name} is logged with options that are not known", where=where
        )
    return codes.BINLOG_DAMAGED.error(
        f"a row of {table.name} ends inside of an update in the binlog",
        where=where,
    )
