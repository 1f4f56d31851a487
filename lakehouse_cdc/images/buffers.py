"""Columns of VARIANT values as kernels write them: offsets and bytes, ready to be an Arrow array without a copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse_cdc.errors import codes

_T = TypeVar("_T", bound=np.generic)
_LARGEST = 2**31 - 1


class Sink(NamedTuple):
    """What a kernel appends values to: value i is `data[offsets[i]:offsets[i + 1]]`, absent where `valid[i]` is 0."""

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    valid: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, rows: int, size: int) -> Sink:
        """Room for `rows` values of `size` bytes together."""
        offsets = np.empty(rows + 1, dtype=np.int64)
        offsets[0] = 0
        return cls(np.empty(size, dtype=np.uint8), offsets, np.empty(rows, dtype=np.uint8))

    def with_rows(self, rows: int) -> Sink:
        """The same content with room for `rows` values."""
        return Sink(self.data, grown(self.offsets, rows + 1), grown(self.valid, rows))

    def with_bytes(self, size: int) -> Sink:
        """The same content with room for `size` bytes."""
        return Sink(grown(self.data, size), self.offsets, self.valid)


def grown(array: npt.NDArray[_T], length: int) -> npt.NDArray[_T]:
    """A longer array that begins with `array`."""
    out: npt.NDArray[_T] = np.empty(length, dtype=array.dtype)
    out[: len(array)] = array
    return out


@dataclass(frozen=True)
class VariantBuffer:
    """n VARIANT values: value i is `data[offsets[i]:offsets[i + 1]]`; `valid` is None where none is absent."""

    offsets: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]
    valid: npt.NDArray[np.bool_] | None

    @classmethod
    def of(cls, sink: Sink, rows: int) -> VariantBuffer:
        """The first `rows` values of a sink; shares its memory."""
        valid = sink.valid[:rows].view(np.bool_)
        offsets = sink.offsets[: rows + 1]
        return cls(offsets, sink.data[: offsets[-1]], None if valid.all() else valid)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> bytes | None:
        """The bytes of one value, or None where it is absent."""
        if self.valid is not None and not self.valid[row]:
            return None
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes()

    def to_arrow(self) -> Any:
        """A `pa.BinaryArray` over the same bytes (the offsets are narrowed to 32 bits): the `value` of a VARIANT.

        Raises DefiniteError for 2 GiB and more, which bounded batches do not reach.
        """
        if len(self.data) > _LARGEST:
            raise codes.BINLOG_TOO_LARGE.error("a batch of row images has more than 2 GiB")
        valid = None if self.valid is None else pa.py_buffer(np.packbits(self.valid, bitorder="little"))
        offsets = pa.py_buffer(self.offsets.astype(np.int32))
        return pa.Array.from_buffers(pa.binary(), len(self), [valid, offsets, pa.py_buffer(self.data)])
