"""One field of many row images as numbers, and which of them may lie in a range: no image becomes an object of Python.

Purpose: a window of the log has the changes of the whole table, and one range of it is asked for. To look at each image
as a row takes some 20 microseconds, hence longer than a busy table takes to write the next one.

Invariant: of an image that is said to lie in the range, or not to, that is so; the others are not known, and are to be
looked at as rows.

Why it holds: a number is taken only from an image that is just as `model.variant` says, an object with all the fields
that were expected, in which this one has a type of the column's form, a decimal its scale. Their order is that of the
values, as `mysql.literals.ordinal` has it. Every other image, and every bound that is no such number, may lie anywhere.

Guards: tests/source/test_field_numbers.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from lakehouse_cdc.images.buffers import VariantBuffer
from lakehouse_cdc.model import variant
from lakehouse_cdc.mysql.literals import form
from lakehouse_cdc.schema.table import Column

_Numbers = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]
_SIZES = {
    variant.INT8: 1, variant.INT16: 2, variant.INT32: 4, variant.INT64: 8, variant.DATE: 4, variant.TIMESTAMP: 8,
    variant.TIMESTAMP_NTZ: 8, variant.DECIMAL4: 4, variant.DECIMAL8: 8, variant.DECIMAL16: 16,
}  # fmt: skip
_DECIMALS = (variant.DECIMAL4, variant.DECIMAL8, variant.DECIMAL16)
_TYPES = {
    "integer": (variant.INT8, variant.INT16, variant.INT32, variant.INT64, *_DECIMALS),
    "decimal": _DECIMALS,
    "date": (variant.DATE,),
    "moment": (variant.TIMESTAMP, variant.TIMESTAMP_NTZ),
}
_UNKNOWN = 255  # no type: what is there is not known
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LEAST, _LARGEST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class FieldRange:
    """[lo, hi) of the numbers of one field, place `place` of `count` in the order of names; None: there is no bound.

    `closed`: `hi` is in it, too. NULL is below all numbers.
    """

    place: int
    count: int
    types: tuple[int, ...]
    scale: int
    lo: int | None
    hi: int | None
    closed: bool = False

    @classmethod
    def of(cls, column: Column, names: list[str], lo: Any, hi: Any, *, closed: bool = False) -> FieldRange | None:
        """Of a column among those of an image, by `names`, and components of a cursor, or None.

        None where its values are not in the order of such numbers.
        """
        types, scale = _TYPES.get(form(column)), column.scale or 0 if form(column) == "decimal" else 0
        if types is None or column.carried or column.values:
            return None
        low, high = (None if bound is None else _number(form(column), scale, bound) for bound in (lo, hi))
        if (low is None) != (lo is None) or (high is None) != (hi is None):
            return None
        place = sorted(names, key=str.encode).index(column.name)
        return cls(place, len(names), types, scale, low, high, closed)

    def holds(self, images: VariantBuffer) -> tuple[_Mask, _Mask]:
        """For each image whether it lies in the range, and whether that is not known; one that is absent does not."""
        numbers, types = _field(images, self.place, self.count, self.scale)
        inside = np.ones(len(images), np.bool_)
        if self.lo is not None:
            inside &= numbers >= self.lo
        if self.hi is not None:
            inside &= (numbers <= self.hi) if self.closed else (numbers < self.hi)
        is_null = types == variant.NULL
        is_number = np.isin(types, self.types)
        sure = is_number & inside if self.lo is not None else (is_number & inside) | is_null
        unknown = ~(is_number | is_null)
        return (sure, unknown) if images.valid is None else (sure & images.valid, unknown & images.valid)


def _number(kind: str, scale: int, value: Any) -> int | None:
    """A component as such a number, None where it is none: a year that Python has not, or more than 64 bits."""
    try:
        if kind == "date":
            return (date.fromisoformat(value) - _EPOCH.date()).days
        if kind == "moment":
            whole, _, part = str(value).partition(".")
            moment = datetime.fromisoformat(whole).replace(tzinfo=timezone.utc)
            return (moment - _EPOCH) // timedelta(microseconds=1) + int(part.ljust(6, "0"))
        number = Decimal(value).scaleb(scale)
    except (ValueError, OverflowError):
        return None
    return int(number) if number == int(number) and _LEAST <= number <= _LARGEST else None


def _field(images: VariantBuffer, place: int, count: int, scale: int) -> tuple[_Numbers, npt.NDArray[np.uint8]]:
    """Of each image the number in a field, and its primitive type (see `model.variant`); else _UNKNOWN."""
    n = len(images)
    numbers, types = np.zeros(n, np.int64), np.full(n, _UNKNOWN, np.uint8)
    start, end = images.offsets[:-1], images.offsets[1:]
    rows = np.flatnonzero(end - start >= 3)
    if not len(rows):
        return numbers, types
    data = _Bytes(images.data)
    at, first = start[rows], data.unsigned(start[rows], 1)
    info = first >> 2
    size, id_size, large = (info & 3) + 1, (info >> 2 & 3) + 1, info >> 4 & 1
    counted = np.where(large == 1, data.unsigned(at + 1, 4), data.unsigned(at + 1, 1))
    offsets = at + 2 + 3 * large + counted * id_size
    field = np.zeros(len(rows), np.int64)
    for width in range(1, 5):
        mine = size == width
        field[mine] = data.unsigned(offsets[mine] + place * width, width)
    field += offsets + (counted + 1) * size
    good = (first & 3 == variant.OBJECT) & (counted == count) & (field < end[rows])
    rows, field = rows[good], field[good]
    head = data.unsigned(field, 1)
    kind = np.where(head & 3 == variant.PRIMITIVE, head >> 2, _UNKNOWN)
    types[rows[kind == variant.NULL]] = variant.NULL
    for primitive, width in _SIZES.items():
        mine = kind == primitive
        begin, into = field[mine] + 1, rows[mine]
        fits = np.ones(len(into), np.bool_)
        if primitive in _DECIMALS:
            fits &= data.unsigned(begin, 1) == scale
            begin = begin + 1
        fits &= begin + width <= end[into]
        numbers[into], narrow = data.signed(begin, width)
        types[into[fits & narrow]] = primitive
    return numbers, types


class _Bytes:
    """Bytes that are read at many places at once, each a little-endian number; zeros follow them."""

    def __init__(self, data: npt.NDArray[np.uint8]) -> None:
        self._data = np.concatenate([data, np.zeros(32, np.uint8)])
        self._last = len(data)

    def unsigned(self, at: _Numbers, width: int) -> _Numbers:
        """Numbers of up to 8 bytes, the highest bit of which is the sign."""
        at = np.minimum(at, self._last)
        out = np.zeros(len(at), np.uint64)
        for i in range(width):
            out |= self._data[at + i].astype(np.uint64) << np.uint64(8 * i)
        return out.view(np.int64)

    def signed(self, at: _Numbers, width: int) -> tuple[_Numbers, _Mask]:
        """Numbers in two's complement, and whether each is within 64 bits."""
        if width > 8:
            low = self.unsigned(at, 8)
            return low, self.unsigned(at + 8, 8) == low >> 63
        shift = 64 - 8 * width
        return self.unsigned(at, width) << shift >> shift, np.ones(len(at), np.bool_)
