"""A SELECT to images: prepared, executed and closed on a connection of PyMySQL's, its rows read by kernels.

The binary protocol is what makes the values exact: a FLOAT arrives as its four bytes, where the text protocol prints
5592410 for 5592405.5. The statement has no parameters; keys are in its text.

The session must have `character_set_results = NULL` (bytes come in the column's own character set; checked), and
`time_zone = '+00:00'` (a TIMESTAMP is UTC; cannot be seen from here).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pymysql

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.images.buffers import Sink, VariantBuffer
from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.images.rows.image import NEEDED, STEP, Scratch
from lakehouse_cdc.images.rows.result_set import NO_ROW, PACKET, ROWS, read_rows
from lakehouse_cdc.images.status import BAD_PACKET, DONE, FULL, failure
from lakehouse_cdc.mysql.connection.client import account_of
from lakehouse_cdc.mysql.connection.client_errors import translate
from lakehouse_cdc.mysql.wire.definitions import check_definitions
from lakehouse_cdc.mysql.wire.error_packet import refusal
from lakehouse_cdc.mysql.wire.packets import Payloads
from lakehouse_cdc.schema.table import TableSchema

COM_STMT_PREPARE, COM_STMT_EXECUTE, COM_STMT_CLOSE = 0x16, 0x17, 0x19
IMAGE_BYTES = 32 << 20
_SMALLEST_ROW = 64  # bytes an image is assumed to have, when room for rows is made
_LARGEST_KEY = 1 << 16  # more than a key's object can have: InnoDB's keys end at 3072 bytes and 16 columns


@dataclass(frozen=True)
class Images:
    """`n` rows: the VARIANT of each row's key and of the row itself, in the order of the result set."""

    n: int
    key: VariantBuffer
    after: VariantBuffer


def select_images(
    connection: pymysql.Connection[Any],
    sql: str,
    schema: TableSchema,
    *,
    programs: ProgramSet | None = None,
    image_bytes: int = IMAGE_BYTES,
    opened: Callable[[], None] = lambda: None,
) -> Iterator[Images]:
    """The rows of `sql`, which selects the captured columns of `schema` in their order, in bounded pieces.

    `opened` is called when the server has begun to answer, and so has the locks that the SELECT needs. A piece has at
    most `image_bytes` of images, or one row. `programs` spares making `ProgramSet.of([schema])` again. An iterator that
    is not read to its end closes the connection, for its rest is still in the socket; so does an error that stops the
    reading. Errors that the server sends, and columns that contradict the schema, leave it open.

    Raises DefiniteError for a refused statement, columns that contradict the schema, and values that cannot be
    carried (a zero date); TransientError for a lost connection and the server's errors of the moment.
    """
    inside: Any = connection
    programs = programs or ProgramSet.of([schema])
    result: _Result | None = None
    try:
        statement = _prepare(inside, sql, schema)
        inside._execute_command(COM_STMT_EXECUTE, struct.pack("<IBI", statement, 0, 1))
        result = _Result(Payloads(connection, schema.name), programs, image_bytes)
        result.open()
        opened()
        yield from result.images()
    except pymysql.err.Error as error:
        raise translate(error, schema.name, account_of(connection)) from error
    finally:
        if result is not None and result.ended:
            _close(inside, statement)
        elif result is not None:
            inside._force_close()


def _prepare(inside: Any, sql: str, schema: TableSchema) -> int:
    """The number of the prepared statement, whose columns are those of the schema.

    The answer is read to its end before anything is judged, so the next command finds the connection clean.
    """
    inside._execute_command(COM_STMT_PREPARE, sql)
    statement, columns, parameters = struct.unpack_from("<IHH", inside._read_packet().get_all_data(), 1)
    for _ in range(parameters + (parameters > 0)):  # definitions, and an EOF packet
        inside._read_packet()
    definitions = [inside._read_packet().get_all_data() for _ in range(columns + (columns > 0))][:-1]
    try:
        if parameters or not columns:
            raise codes.SERVER_ANSWER_UNEXPECTED.error(
                "the statement has parameters or gives no rows", where=schema.name
            )
        check_definitions(definitions, schema)
    except DefiniteError:
        _close(inside, statement)
        raise
    return int(statement)


def _close(inside: Any, statement: int) -> None:
    """Forget a statement; no answer comes. Its rows are complete: a connection lost here shows at its next use."""
    with suppress(pymysql.err.Error):
        inside._execute_command(COM_STMT_CLOSE, struct.pack("<I", statement))


class _Result:
    """One response to COM_STMT_EXECUTE; `ended` once the server has sent the last of it."""

    def __init__(self, payloads: Payloads, programs: ProgramSet, image_bytes: int) -> None:
        self.ended = False
        self._payloads = payloads
        self._program = programs.wire
        self._schema = programs.schemas[0]
        self._limit = image_bytes
        self._state = np.zeros(2, np.int64)
        self._scratch = Scratch.of(len(self._schema.captured), 1)

    def open(self) -> None:
        """Read up to the first row: the count of columns, their definitions, an EOF packet."""
        first = self._next()
        if first[:1] == b"\xff":
            self._refuse(first)
        count = first[0] if first[0] < 251 else int.from_bytes(first[1:3], "little")
        definitions = [self._next() for _ in range(count)]
        if self._next()[:1] != b"\xfe":
            raise failure(BAD_PACKET, self._schema, None)
        check_definitions(definitions, self._schema)

    def images(self) -> Iterator[Images]:
        """All rows, up to the packet that ends them."""
        while not self.ended:
            piece = self._piece()
            if piece.n:
                yield piece

    def _piece(self) -> Images:
        rows = self._limit // _SMALLEST_ROW + 1
        key, after = Sink.of(rows, self._limit // 4 + _LARGEST_KEY), Sink.of(rows, self._limit)
        self._state[ROWS] = 0
        while not self.ended:
            payloads = self._payloads
            status = read_rows(
                payloads.buffer, payloads.starts, payloads.ends, payloads.count, self._program, self._state, key, after,
                self._scratch,
            )  # fmt: skip
            if status == DONE:
                payloads.more()
                self._state[PACKET] = 0
            elif status == NO_ROW:
                self._end(payloads.payload(int(self._state[PACKET])))
            elif status != FULL:
                column = None if status == BAD_PACKET else self._schema.captured[int(self._scratch.report[STEP])]
                raise failure(status, self._schema, column)
            elif self._state[ROWS]:
                break
            else:
                after = after.with_bytes(max(2 * len(after.data), int(self._scratch.report[NEEDED])))
        n = int(self._state[ROWS])
        return Images(n, VariantBuffer.of(key, n), VariantBuffer.of(after, n))

    def _next(self) -> bytes:
        if self._state[PACKET] == self._payloads.count:
            self._payloads.more()
            self._state[PACKET] = 0
        self._state[PACKET] += 1
        return self._payloads.payload(int(self._state[PACKET]) - 1)

    def _end(self, payload: bytes) -> None:
        if payload[:1] == b"\xff":
            self._refuse(payload)
        if payload[:1] != b"\xfe" or len(payload) >= 9:
            raise failure(BAD_PACKET, self._schema, None)
        self.ended = True

    def _refuse(self, payload: bytes) -> NoReturn:
        self.ended = True
        raise refusal(payload, self._schema.name)
