"""From images to the record batches of bronze.

Columns are built whole, from numpy and Arrow buffers; no row becomes a Python object. `seq` needs 128 bits: its high
part (epoch, file number) is constant in a file and is added once, the rest is `pos * 10^11 + ordinal`, multiplied in
two 32-bit halves with the carry done by hand.

What most rows of a batch share (the names of an image's fields above all, which are longer than many an image) is
in it once: such columns are dictionaries with an index a row. Parquet has them so, too; Spark's rows do not (`plain`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse_cdc.model.bronze_arrow import ARROW, SHARED
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.seq import EPOCH, FILE, POS, RANK, Rank, Seq

_VARIANT, _POSITION = SHARED.field("key").type, SHARED.field("position").type
Pair = tuple[pa.Array, pa.Array]  # key and after values of n rows
_LOW32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


@dataclass(frozen=True)
class Stamp:
    """What all rows that are emitted at one position share.

    `reading` tells readings of a table apart that are made at one position, where nothing was written in between, and
    `turn` is that of the `model.offset.Offset`.
    """

    epoch: int
    server_uuid: str
    position: Position
    gtid: str
    commit_ts: int
    reading: int = 0
    turn: int = 0

    def seq(self, rank: Rank) -> int:
        """The packed seq at this position."""
        return Seq(self.epoch, self.position.number, self.position.pos + self.turn, rank, self.reading).pack()


def shared(value: str | bytes | None, n: int) -> pa.Array:
    """n times the same text or bytes; None is NULL, as a text."""
    at = pa.nulls(n, pa.int32()) if value is None else pa.array(np.zeros(n, np.int32))
    return pa.DictionaryArray.from_arrays(at, pa.array(["" if value is None else value]))


def among(at: pa.Array, values: Sequence[str | None] | Sequence[bytes]) -> pa.Array:
    """Of n indices into `values`, what these say, as a dictionary; of None NULL, as a text."""
    if None in values:
        unknown = np.array([value is None for value in values])
        if unknown.all():
            return shared(None, len(at))
        at = pa.array(at.to_numpy(), mask=unknown[at.to_numpy()])
        return pa.DictionaryArray.from_arrays(at, pa.array([value or "" for value in values]))
    return pa.DictionaryArray.from_arrays(at, pa.array(values))


def variants(values: pa.Array, metadata: pa.Array) -> pa.Array:
    """A VARIANT column of n values and n metadata; a row whose value is null is NULL, not a variant null."""
    if not values.null_count:
        return pa.StructArray.from_arrays([values, metadata], fields=list(_VARIANT))
    # the children of a NULL struct must still be there
    return pa.StructArray.from_arrays(
        [values.fill_null(b"\x00"), metadata], fields=list(_VARIANT), mask=values.is_null()
    )


def no_variants(n: int) -> pa.Array:
    """n NULLs."""
    empty = pa.array([b""]).take(pa.array(np.zeros(n, np.int32)))
    return pa.StructArray.from_arrays([empty, shared(b"", n)], fields=list(_VARIANT), mask=pa.repeat(True, n))


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as Spark takes them."""
    columns = [_plain(column, field.type) for column, field in zip(batch.columns, ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW)


def _plain(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_struct(kind):
        return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    inner = [_plain(column.field(i), field.type) for i, field in enumerate(kind)]
    return pa.StructArray.from_arrays(inner, fields=list(kind), mask=column.is_null())


def decimals(low: npt.NDArray[np.uint64], high: npt.NDArray[np.uint64]) -> pa.Array:
    """DECIMAL(38, 0) from two little-endian 64-bit words per value."""
    words = np.empty((len(low), 2), dtype=np.uint64)
    words[:, 0], words[:, 1] = low, high
    return pa.Array.from_buffers(pa.decimal128(38, 0), len(low), [None, pa.py_buffer(words)])


def event_seqs(epoch: int, file_number: int, pos: npt.NDArray[np.int64], ordinal: npt.NDArray[np.int64]) -> pa.Array:
    """The seqs of change events of one file: rank EVENT, `pos` their end positions. Shape [n] each."""
    base = epoch * EPOCH + file_number * FILE + Rank.EVENT * RANK
    p, factor = pos.astype(np.uint64), np.uint64(POS)
    # p * 10^11 in 32-bit halves: (p1 * 2^32 + p0) * (f1 * 2^32 + f0)
    p0, p1, f0, f1 = p & _LOW32, p >> _32, factor & _LOW32, factor >> _32
    low_low, middle1, middle2 = p0 * f0, p0 * f1, p1 * f0
    middle = (low_low >> _32) + (middle1 & _LOW32) + (middle2 & _LOW32)
    low = (low_low & _LOW32) | (middle << _32)
    high = p1 * f1 + (middle1 >> _32) + (middle2 >> _32) + (middle >> _32)
    low, high = _add(low, high, ordinal.astype(np.uint64), np.uint64(0))
    low, high = _add(low, high, np.uint64(base & (2**64 - 1)), np.uint64(base >> 64))
    return decimals(low, high)


def _add(
    low: npt.NDArray[np.uint64], high: npt.NDArray[np.uint64], b: npt.ArrayLike, b_high: np.uint64
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    total = low + np.asarray(b, dtype=np.uint64)
    return total, high + b_high + (total < low).astype(np.uint64)


def constant_seqs(seq: int, n: int) -> pa.Array:
    """n times the same seq."""
    return decimals(np.full(n, seq & (2**64 - 1), dtype=np.uint64), np.full(n, seq >> 64, dtype=np.uint64))


def positions(server_uuid: str, file: str, pos: npt.NDArray[np.int64], gtid: pa.Array) -> pa.Array:
    """The position column of n rows of one file."""
    n = len(pos)
    children = [shared(server_uuid, n), shared(file, n), pa.array(pos, pa.int64()), gtid]
    return pa.StructArray.from_arrays(children, fields=list(_POSITION))


def at_one_position(
    stamp: Stamp,
    rank: Rank,
    op: str,
    table: str,
    schema_id: str,
    key: pa.Array,
    after: pa.Array,
    before: pa.Array | None = None,
) -> pa.RecordBatch:
    """Rows that all are at `stamp`: snapshot rows, schemas, the end of a repeated pass."""
    n = len(after)
    gtid = shared(stamp.gtid or None, n)
    where = positions(stamp.server_uuid, stamp.position.file, np.full(n, stamp.position.pos, dtype=np.int64), gtid)
    columns = [
        constant_seqs(stamp.seq(rank), n),
        shared(op, n),
        shared(table, n),
        key,
        no_variants(n) if before is None else before,
        after,
        pa.array(np.full(n, stamp.commit_ts, dtype=np.int64)).cast(ARROW.field("commit_ts").type),
        where,
        shared(schema_id, n),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SHARED)
