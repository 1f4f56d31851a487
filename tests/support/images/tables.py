"""Tables for the kernels' tests: made on a real server, read back by SELECT and by binlog, and as plain Python."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pymysql

from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.images.rows.decode import ChangeImages, count_rows, decode_rows
from lakehouse_cdc.images.typed.columns import ImageColumns
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.mysql.wire.select import select_images
from lakehouse_cdc.schema.table import Column, TableSchema
from tests.support.images.binlog_file import read_log
from tests.support.positions import binlog_end
from tests.support.row_images import plain

SESSION = "SET time_zone = '+00:00', character_set_results = NULL, sql_mode = 'STRICT_ALL_TABLES'"
ID = Column("id", "int", nullable=False)


def ddl(schema: TableSchema) -> str:
    """CREATE TABLE for a schema."""
    columns = []
    for column in schema.columns:
        text = f" CHARACTER SET {column.charset}" if column.charset else ""
        null = " NULL" if column.nullable else " NOT NULL"
        columns.append(f"`{column.name}` {column.declared}{text}{null}")
    key = ", ".join(f"`{name}`" for name in schema.key)
    return f"CREATE TABLE `{schema.database}`.`{schema.table}` ({', '.join(columns)}, PRIMARY KEY ({key}))"


def insert(connection: pymysql.Connection[Any], schema: TableSchema, rows: Iterable[Sequence[Any]]) -> None:
    """Insert rows of one value per column; bytes for text go in as they are, in the column's own character set."""
    with connection.cursor() as cursor:
        for row in rows:
            marks = [
                f"_{c.charset} %s" if c.charset and isinstance(v, bytes) else "%s"
                for c, v in zip(schema.columns, row, strict=True)
            ]
            cursor.execute(f"INSERT INTO `{schema.database}`.`{schema.table}` VALUES ({', '.join(marks)})", row)


def select(
    connection: pymysql.Connection[Any], schema: TableSchema, order: str = "id", **settings: Any
) -> list[tuple[bytes | None, bytes | None]]:
    """(key, after) of all rows, by SELECT."""
    names = ", ".join(f"`{column.name}`" for column in schema.captured)
    sql = f"SELECT {names} FROM `{schema.database}`.`{schema.table}` ORDER BY {order}"
    pieces = select_images(connection, sql, schema, **settings)
    return [(piece.key[i], piece.after[i]) for piece in pieces for i in range(piece.n)]


def changes(connection: pymysql.Connection[Any], start: tuple[str, int], schema: TableSchema) -> ChangeImages:
    """All changes of a table since `start`, by binlog. The two passes agree on the number of images."""
    log = read_log(connection, start, [schema])
    programs = ProgramSet.of([schema], log.maps)
    out = decode_rows(log.buffer, log.events, programs)
    counted = int(count_rows(log.buffer, log.events, programs).sum())
    moves = sum(out.op[i] == ord("d") and out.op[i + 1] == ord("c") for i in range(out.n - 1))
    assert counted <= out.n <= counted + moves
    return out


def agree(
    connection: pymysql.Connection[Any], schema: TableSchema, rows: Sequence[Sequence[Any]], **settings: Any
) -> list[dict[str, Any]]:
    """Insert `rows` into a new table; by SELECT and by binlog they are the same bytes. Returns them as Python's."""
    start = create(connection, schema)
    insert(connection, schema, rows)
    return compare(connection, schema, start, **settings)


def create(connection: pymysql.Connection[Any], schema: TableSchema) -> tuple[str, int]:
    """Make the table; the position behind that."""
    with connection.cursor() as cursor:
        cursor.execute(ddl(schema))
    return binlog_end(connection)


def compare(
    connection: pymysql.Connection[Any], schema: TableSchema, start: tuple[str, int], **settings: Any
) -> list[dict[str, Any]]:
    """Rows that were only inserted, since `start`: by SELECT and by binlog the same bytes. Returns Python's types."""
    read = select(connection, schema, **settings)
    logged = changes(connection, start, schema)
    assert bytes(logged.op) == b"c" * len(read)
    assert read == [(logged.key[i], logged.after[i]) for i in range(logged.n)]
    programs = ProgramSet.of([schema])
    for key, after in read:
        image, names = decode(after or b"", programs.metadata[0]), decode(key or b"", programs.key_metadata[0])
        assert names == {name: image[name] for name in schema.key}
    found = [decode(after or b"", programs.metadata[0]) for _, after in read]
    assert plain(as_columns(schema, [after or b"" for _, after in read])) == plain(found)
    return found


def as_columns(schema: TableSchema, images: Sequence[bytes]) -> list[dict[str, Any]]:
    """The rows that the kernel for silver reads of the images; JSON as the text that images hold."""
    text = [replace(c, type="text", charset="utf8mb4", mask="") if c.type == "json" else c for c in schema.captured]
    names, columns = [c.name for c in text], ImageColumns(replace(schema, columns=tuple(text)))
    blocks = columns.read(pa.array(images, pa.binary()), np.arange(len(images)))
    return [row for block in blocks for row in pa.RecordBatch.from_arrays(block, names).to_pylist()]


def expected(column: Column, value: Any) -> Any:
    """What a value becomes that was inserted into a column, in Python's types."""
    if value is None:
        return None
    if column.type == "float":
        return struct.unpack("<f", struct.pack("<f", value))[0]
    if column.type == "char":
        return value.rstrip(" ")
    if column.type == "binary":
        return value.ljust(column.length or 0, b"\0")
    if column.type == "bigint" and column.unsigned:
        return Decimal(value)
    if column.type == "timestamp":
        assert isinstance(value, datetime)
        return value.replace(tzinfo=timezone.utc)
    return value
