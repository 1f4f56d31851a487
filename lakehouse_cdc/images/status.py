"""Why a kernel stopped, and what to report to the user: every code that is no success becomes a precise error.

Kernels return these codes, never raise: a value writer returns its next position, or minus a code.
"""

from __future__ import annotations

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.variant import MAX_SIZE
from lakehouse_cdc.schema.table import Column, TableSchema

DONE, FULL = 0, 1  # all was read; the output has no room for the next row
TRUNCATED, LEFTOVER, BAD_NUMBER = 2, 3, 4
ZERO_DATE, BAD_DATE, BAD_TIME = 5, 6, 7
TOO_LARGE, UNKNOWN_LENGTH = 8, 9
OTHER_WIDTH, PARTIAL_IMAGE = 10, 11
BAD_PACKET = 12
BAD_JSON = 13
BAD_LABEL = 14
OTHER_PERIOD = 15

_CHANGED = "the table was changed, or the bytes are damaged: have the table read again, as it is now"
_DATES = "give the row a real date or NULL, or exclude the column"
_ZERO = f"{_DATES}; or set zero_dates to null or text"

_WHAT = {
    TRUNCATED: (codes.ROW_MALFORMED, "a row of {table} ends inside column {column}", _CHANGED),
    LEFTOVER: (codes.ROW_MALFORMED, "a row of {table} continues after its last column", _CHANGED),
    BAD_NUMBER: (codes.VALUE_MALFORMED, "column {column} of {table} holds bytes that are no {type}", _CHANGED),
    ZERO_DATE: (
        codes.ZERO_DATE,
        "column {column} of {table} holds a zero date (year, month or day 0), which no date type can hold",
        _ZERO,
    ),
    BAD_DATE: (
        codes.INVALID_DATE,
        "column {column} of {table} holds a day that its month does not have (ALLOW_INVALID_DATES)",
        _DATES,
    ),
    BAD_TIME: (codes.VALUE_MALFORMED, "column {column} of {table} holds bytes that are no {type}", _CHANGED),
    TOO_LARGE: (
        codes.ROW_TOO_LARGE,
        f"a row of {{table}} is larger than the {MAX_SIZE >> 20} MiB of a VARIANT, at column {{column}}",
        "exclude the large column",
    ),
    UNKNOWN_LENGTH: (
        codes.EXCLUDED_COLUMN_UNREADABLE,
        "column {column} of {table} is excluded and of type {type}: its length needs the binlog's table map",
        "",
    ),
    OTHER_WIDTH: (
        codes.ROW_MALFORMED,
        "a binlog event of {table} has another number of columns than its schema",
        _CHANGED,
    ),
    PARTIAL_IMAGE: (
        codes.ROW_IMAGE_PARTIAL,
        "a binlog event of {table} does not hold all columns: {column} is not in it",
        "SET GLOBAL binlog_row_image = FULL, and in the sessions that write (MINIMAL and NOBLOB leave columns out); a "
        "generated column, which MariaDB 11.8.9 leaves out of updates and deletes, must be excluded",
    ),
    BAD_PACKET: (codes.ROW_MALFORMED, "a packet of the rows of {table} is not a row of the binary protocol", _CHANGED),
    BAD_LABEL: (
        codes.LABEL_UNREADABLE,
        "column {column} of {table} holds a label whose bytes are no text",
        "exclude the column, or give it labels of characters (ALTER TABLE)",
    ),
    OTHER_PERIOD: (
        codes.TABLE_CHANGED,
        "a row of {table} ends, by {column}, with the greatest time of another server than the one that was asked: the"
        " server was upgraded, or the row comes from a dump of another one",
        "have the table read again, as it is now",
    ),
    BAD_JSON: (codes.VALUE_MALFORMED, "column {column} of {table} holds bytes that are no binary JSON", _CHANGED),
}


def failure(
    status: int, schema: TableSchema, column: Column | None, *, where: str = "", position: str = ""
) -> DefiniteError:
    """The error that a status other than DONE and FULL stands for."""
    code, what, hint = _WHAT[status]
    name, declared = (column.name, column.declared) if column else ("(none)", "value")
    text = what.format(table=schema.name, column=name, type=declared)
    return code.error(text, where=where, hint=hint, table=schema.name, position=position)
