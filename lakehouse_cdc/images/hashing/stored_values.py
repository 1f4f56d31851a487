"""Masks on values that are in bronze already: the same text, through the same code, as where a row is read.

A column with a mask is read as text where its type can be (`schema.masks.unmasked`); without one it is in bronze as a
date, a time or a decimal. So the text is made here, as the server prints it, and the mask itself is that of the kernels
(`masking`), which also print all other numbers. Guards: tests/images/test_stored_values.py, which compares with rows
that a server sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from lakehouse_cdc.images.bytes_io import SPARE, Bytes, Step, pointer
from lakehouse_cdc.images.compiled import compiled
from lakehouse_cdc.images.hashing.masking import MASK_ROOM, hashing, keeping, write_masked
from lakehouse_cdc.images.hashing.sha256 import WORK
from lakehouse_cdc.model import variant
from lakehouse_cdc.schema.masks import NULL, fingerprint, hashed_under, kept
from lakehouse_cdc.schema.table import Column

Masking = Callable[[bytes], bytes]  # a VARIANT value to what the mask makes of it
NULL_VALUE: Final = bytes([variant.header(variant.NULL)])
_NAMELESS = variant.metadata([])
_DAY = {variant.header(variant.DATE)}
_MOMENTS = {variant.header(variant.TIMESTAMP), variant.header(variant.TIMESTAMP_NTZ)}
_DECIMALS = {variant.header(kind) for kind in (variant.DECIMAL4, variant.DECIMAL8, variant.DECIMAL16)}
_SECONDS = len("2024-02-29T23:59:59")


def masking(column: Column, mask: str, salt: str) -> Masking:
    """What `mask`, as a schema holds it, makes of values of the column that were written without a mask.

    `salt` must be that of the mask, where that is a hash.
    """
    if mask == NULL:
        return lambda _: NULL_VALUE
    parts = kept(mask)
    assert parts is not None or hashed_under(mask) == fingerprint(salt), mask
    page = np.frombuffer(hashing(salt) if parts is None else keeping(*parts), np.uint8)
    work = np.zeros(WORK, np.int64)

    def masked(value: bytes) -> bytes:
        if value == NULL_VALUE:
            return value
        text = _as_text(value, column)
        out = np.frombuffer(bytearray(text) + bytes(len(text) + MASK_ROOM + SPARE), np.uint8)
        return out[: _write(out, len(text), page, work)].tobytes()

    return masked


def masked_text(text: str, column: Column, mask: str, salt: str) -> str:
    """The same of a text."""
    masked = variant.decode(masking(column, mask, salt)(variant.encode(text)[0]), _NAMELESS)
    assert isinstance(masked, str)
    return masked


@compiled
def _write(out: Bytes, end: int, page: Bytes, work: Step) -> int:
    return int(write_masked(pointer(out), 0, end, pointer(page), pointer(work)))


def _as_text(value: bytes, column: Column) -> bytes:
    """The value as the server prints it, where the kernels would have read it as text; else as it is."""
    first = value[0]
    if first in _DECIMALS:
        text = f"{variant.decode(value, _NAMELESS):f}"
    elif first in _DAY:
        text = str(np.datetime64(int.from_bytes(value[1:], "little", signed=True), "D"))
    elif first in _MOMENTS:
        moment = str(np.datetime64(int.from_bytes(value[1:], "little", signed=True), "us"))
        fraction = 1 + column.fraction if column.fraction else 0
        text = moment[: _SECONDS + fraction].replace("T", " ")
    elif column.type == "year" and first == variant.header(variant.INT16):
        text = f"{int.from_bytes(value[1:], 'little', signed=True):04}"
    else:
        return value
    return variant.encode(text)[0]
