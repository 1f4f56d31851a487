"""Row images as Arrow's columns, by the table's schema (see `images.typed.rows`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse_cdc.images.typed import rows
from lakehouse_cdc.model import variant
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.type_registry import Kind
from lakehouse_cdc.schema.types import Mapped, require

_BLOCK_ROWS = 32_768  # at once; of so many the columns fit into a cache
_BLOCK_BYTES = 64 << 20
_ALIGNED = 64
_PLAIN = {
    Kind.INT8: (variant.INT8, pa.int8()),
    Kind.INT16: (variant.INT16, pa.int16()),
    Kind.INT32: (variant.INT32, pa.int32()),
    Kind.INT64: (variant.INT64, pa.int64()),
    Kind.FLOAT: (variant.FLOAT, pa.float32()),
    Kind.DOUBLE: (variant.DOUBLE, pa.float64()),
    Kind.DATE: (variant.DATE, pa.date32()),
    Kind.DATETIME: (variant.TIMESTAMP_NTZ, pa.timestamp("us")),
    Kind.TIMESTAMP: (variant.TIMESTAMP, pa.timestamp("us", "UTC")),
}
_VARYING = {
    Kind.STRING: (rows.WRITTEN, variant.LONG_STRING, pa.string()),
    Kind.BINARY: (rows.RAW, variant.BINARY, pa.binary()),
    Kind.FLOATS: (rows.FLOATS, variant.ARRAY, pa.list_(pa.field("element", pa.float32()))),
}
_DECIMALS = ((9, variant.DECIMAL4, 4), (18, variant.DECIMAL8, 8), (38, variant.DECIMAL16, 16))


class NotOurs(Exception):
    """Bytes that none of our writers has made of a row of that schema."""


def arrow_type(mapped: Mapped) -> pa.DataType | None:
    """What a column of that kind is in Arrow; None for JSON, which images hold as a text that is yet to be read."""
    if mapped.kind is Kind.DECIMAL:
        return pa.decimal128(mapped.precision, mapped.scale)
    if mapped.kind is Kind.BOOLEAN:
        return pa.bool_()
    return {kind: kinds[-1] for kind, kinds in (*_PLAIN.items(), *_VARYING.items())}.get(mapped.kind)


class ImageColumns:
    """Reads row images of one schema, none of whose captured columns is JSON."""

    def __init__(self, schema: TableSchema) -> None:
        kinds = [require(column, schema.name) for column in schema.captured]
        self._types: list[Any] = [arrow_type(kind) for kind in kinds]
        assert None not in self._types, schema.name
        ranks = {name: i for i, name in enumerate(sorted((c.name for c in schema.captured), key=str.encode))}
        columns = [_column(kind, ranks[c.name]) for kind, c in zip(kinds, schema.captured, strict=True)]
        self._columns = np.array(columns, dtype=np.uint64).view(np.int64).reshape(-1, rows.COLUMN_FIELDS)
        self._forms = self._columns[:, rows.FORM].tolist()

    def read(self, images: Any, chosen: npt.NDArray[np.int64]) -> Iterator[list[Any]]:
        """The captured columns, in the table's order, of the images at those places of a `pa.BinaryArray`.

        They come in blocks of rows. Raises NotOurs for an image that is NULL, or not as the row's schema says.
        """
        if images.null_count and not images.is_valid().to_numpy(zero_copy_only=False)[chosen].all():
            raise NotOurs("an image is NULL")
        _, offsets, data = images.buffers()
        ends = np.frombuffer(offsets, np.int32)[images.offset : images.offset + len(images) + 1].astype(np.int64)
        content = np.frombuffer(data if data is not None and data.size else b"\0", np.uint8)
        content.setflags(write=False)  # one type, for which the kernels are compiled
        at = 0
        sums = np.cumsum(ends[chosen + 1] - ends[chosen])
        while at < len(chosen):
            before = sums[at - 1] if at else 0
            until = int(np.searchsorted(sums, before + _BLOCK_BYTES, "right"))
            until = max(at + 1, min(at + _BLOCK_ROWS, until))
            yield self._block(content, ends, chosen[at:until])
            at = until

    def _block(self, data: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64], chosen: npt.NDArray[np.int64]) -> Any:
        n, places, size, varying = len(chosen), [], 0, 0
        for form, width in zip(self._forms, self._columns[:, rows.SIZE].tolist(), strict=True):
            places.append(varying if form >= rows.VARYING else size)
            if form >= rows.VARYING:
                varying += 1
            else:
                size += -(-n * (rows.EXACT_BYTES if form == rows.EXACT else width) // _ALIGNED) * _ALIGNED
        fixed, valid = np.empty(max(1, size), np.uint8), np.empty(len(places) * n, np.uint8)
        starts, sizes = (np.empty(max(1, varying * n), np.int64) for _ in range(2))
        numbers = np.array(places, np.int64)
        read = rows.read_images(data, ends, chosen, self._columns, numbers, fixed, valid, starts, sizes)
        if read != n:
            raise NotOurs(f"image {chosen[read]} is not as its schema says")
        arrays = []
        for c, (form, place, kind) in enumerate(zip(self._forms, places, self._types, strict=True)):
            there = valid[c * n : (c + 1) * n].view(np.bool_)
            nulls = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
            if form >= rows.VARYING:
                mine = slice(place * n, (place + 1) * n)
                arrays.append(_gathered(kind, form, data, starts[mine], sizes[mine], nulls))
            else:
                arrays.append(_laid_out(kind, form, fixed[place:], n, nulls))
        return arrays


def _column(mapped: Mapped, rank: int) -> list[int]:
    """The fields of a column that the kernel reads by, as unsigned numbers."""
    if mapped.kind is Kind.BOOLEAN:
        return [rows.FLAG, rank, 0, 1, 0, 0, 0]
    if mapped.kind is Kind.DECIMAL:
        primitive, size = next((p, s) for digits, p, s in _DECIMALS if mapped.precision <= digits)
        most = 10**mapped.precision
        head = variant.header(primitive)
        return [rows.EXACT, rank, head, size, mapped.scale, most & (1 << 64) - 1, most >> 64]
    if mapped.kind in _VARYING:
        form, primitive, _ = _VARYING[mapped.kind]
        return [form, rank, variant.header(primitive), 0, 0, 0, 0]
    primitive, kind = _PLAIN[mapped.kind]
    return [rows.PLAIN, rank, variant.header(primitive), kind.bit_width // 8, 0, 0, 0]


def _laid_out(kind: Any, form: int, fixed: npt.NDArray[np.uint8], n: int, nulls: Any) -> Any:
    if form == rows.FLAG:
        return pa.Array.from_buffers(kind, n, [nulls, pa.py_buffer(np.packbits(fixed[:n], bitorder="little"))])
    width = kind.bit_width // 8
    return pa.Array.from_buffers(kind, n, [nulls, pa.py_buffer(fixed[: n * width])])


def _gathered(
    kind: Any,
    form: int,
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    nulls: Any,
) -> Any:
    """A column of texts, binaries or arrays, from where their contents lie. Raises NotOurs for what is no text."""
    n = len(starts)
    ends = np.zeros(n + 1, np.int32)
    np.cumsum(sizes, out=ends[1:])
    total = int(ends[-1])
    out = np.empty(4 * total if form == rows.FLOATS else total, np.uint8)
    content = out if total else np.zeros(1, np.uint8)
    if form == rows.FLOATS:
        rows.gather_floats(data, starts, sizes, content)
        elements = pa.Array.from_buffers(pa.float32(), total, [None, pa.py_buffer(out)])
        return pa.Array.from_buffers(kind, n, [nulls, pa.py_buffer(ends)], children=[elements])
    rows.gather(data, starts, sizes, content)
    array = pa.Array.from_buffers(kind, n, [nulls, pa.py_buffer(ends), pa.py_buffer(out)])
    if form == rows.WRITTEN and total and out.max() >= 0x80:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise NotOurs("a text is not in UTF-8") from error
    return array
