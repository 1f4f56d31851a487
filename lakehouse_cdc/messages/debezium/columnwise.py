"""Debezium's messages, a column at a time: the payloads that `envelope.payloads` writes, and what is put around them.

A `d` whose row is not known has no place here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_cdc.messages import columnwise
from lakehouse_cdc.messages.change import Settings
from lakehouse_cdc.messages.columnwise import (
    ColumnWriter,
    Pieces,
    Stretch,
    Texts,
    Whole,
    Written,
    joined,
    numbers,
    quoted_texts,
    written,
)
from lakehouse_cdc.messages.debezium.columns import Unscaled, as_signed, form_of
from lakehouse_cdc.messages.debezium.source import Source
from lakehouse_cdc.messages.texts import Piece
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.schema.table import TableSchema

_MOST_US = 9_000_000_000_000_000  # whose nanoseconds are a number of 64 bits
_BYTES = 16  # of a decimal as Arrow has it
_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_EQUALS, _QUOTE = 0x3D, 0x22
_LONGEST = -(-_BYTES // 3) * 4 + 2  # characters of 16 bytes in base64, with quotes


def writer(schema: TableSchema, settings: Settings) -> ColumnWriter:
    """The messages of a table, without schemas: `envelope.around` has what goes around each."""
    forms = {column.name: form_of(column, exact=settings.exact).piece for column in schema.captured}
    pieces, key_pieces = Pieces(forms, _WHOLE), Pieces({name: forms[name] for name in schema.key}, _WHOLE)
    source = Source(schema, settings)

    def messages(rows: Stretch, now_us: int) -> Written:
        values = joined(
            ['{"before":', rows.objects(pieces, rows.before), ',"after":', rows.objects(pieces, rows.after),
             ',"source":', *_blocks(source, rows), ',"transaction":null,"op":"', rows.ops,
             f'","ts_ms":{now_us // 1000},"ts_us":{now_us},"ts_ns":{now_us * 1000}}}'],
            len(rows),
        )  # fmt: skip
        return written(rows, rows.keys(key_pieces), values, settings)

    return messages


def _blocks(source: Source, rows: Stretch) -> list[Any]:
    """Parts that are `Source.block` of many changes. Raises ValueError for a time that nanoseconds do not reach."""
    us, n = rows.commit_us, len(rows)
    if n and not -_MOST_US < us.min() <= us.max() < _MOST_US:
        raise ValueError("a time that nanoseconds do not reach")
    is_read = pc.equal(rows.ops, Op.READ.value)
    gtids = quoted_texts(pc.if_else(is_read, pa.nulls(n, pa.string()), rows.gtids))
    return [
        source.begin, numbers(us // 1000), ',"snapshot":"', pc.if_else(is_read, "true", "false"),
        f'","db":{source.database},"sequence":null,"ts_us":', numbers(us), ',"ts_ns":', numbers(us * 1000),
        f',"table":{source.table},"server_id":0,"gtid":', gtids, ',"file":', quoted_texts(rows.files),
        ',"pos":', numbers(rows.pos), ',"row":', rows.ordinals, ',"thread":null,"query":null}',
    ]  # fmt: skip


def _unscaled(piece: Piece, column: Any) -> Texts | None:
    """`Unscaled` of all, by their bytes: how many each takes, then base64 of those that take as many."""
    assert isinstance(piece, Unscaled)
    if not pa.types.is_decimal128(column.type) or column.type.scale != piece.scale:
        return None
    n = len(column)
    held = np.frombuffer(column.buffers()[1], np.uint8)[_BYTES * column.offset : _BYTES * (column.offset + n)]
    big = held.reshape(n, _BYTES)[:, ::-1]
    unlike = big ^ np.where(big[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)  # of a byte that only says the sign, 0
    first = np.argmax(unlike != 0, axis=1)
    sizes = _BYTES - first + (unlike[np.arange(n), first] >= 0x80)
    sizes[~unlike.any(axis=1)] = 1
    text, lengths = np.full((n, _LONGEST), _QUOTE, np.uint8), -(-sizes // 3) * 4 + 2
    for size in np.unique(sizes):
        rows, groups = np.flatnonzero(sizes == size), -(-int(size) // 3)
        padded = np.zeros((len(rows), 3 * groups), np.uint32)
        padded[:, :size] = big[rows, _BYTES - size :]
        three = padded[:, 0::3] << 16 | padded[:, 1::3] << 8 | padded[:, 2::3]
        letters = np.stack([_ALPHABET[three >> shift & 63] for shift in (18, 12, 6, 0)], axis=2).reshape(len(rows), -1)
        letters[:, 4 * groups - (3 * groups - size) :] = _EQUALS
        text[rows, 1 : 1 + 4 * groups] = letters
    missing = column.is_null().to_numpy(zero_copy_only=False)
    lengths[missing] = 0
    ends = np.zeros(n + 1, np.int32)
    np.cumsum(lengths, out=ends[1:])
    content = text[np.arange(_LONGEST) < lengths[:, None]]
    valid = pa.py_buffer(np.packbits(~missing, bitorder="little")) if missing.any() else None
    return pa.Array.from_buffers(pa.string(), n, [valid, pa.py_buffer(ends), pa.py_buffer(content)])


def _as_signed(_: Piece, column: Any) -> Texts | None:
    """The low 64 bits are it."""
    if not pa.types.is_decimal128(column.type) or column.type.scale:
        return None
    words = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset : 2 * (column.offset + len(column))]
    low, high = words[0::2], words[1::2]
    if high.any():  # no number of 64 bits
        return None
    return pa.array(low, mask=column.is_null().to_numpy(zero_copy_only=False)).cast(pa.string())


_WHOLE: dict[Any, Whole] = {**columnwise.WHOLE, Unscaled: _unscaled, as_signed: _as_signed}
