"""Masks in the kernels: SHA-256 is hashlib's, a part is what Python's characters say, and numbers are their text."""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse_cdc.images.bytes_io import Bytes, Step, pointer
from lakehouse_cdc.images.compiled import compiled
from lakehouse_cdc.images.hashing.masking import MASK_ROOM, hashing, keeping, write_masked
from lakehouse_cdc.images.hashing.sha256 import WORK
from lakehouse_cdc.model.variant import DECIMAL16, FLOAT, decode, encode, header, metadata

NONE = metadata([])
SALT = "a salt that nobody knows"


@compiled
def _write(out: Bytes, begin: int, end: int, page: Bytes, work: Step) -> int:
    return int(write_masked(pointer(out), begin, end, pointer(page), pointer(work)))


def masked(value: bytes, page: bytes) -> Any:
    """What the mask makes of a VARIANT value, which stands behind other bytes that stay as they are."""
    front, room = b"front", bytes(MASK_ROOM + 24)
    out = np.frombuffer(bytearray(front + value + room), np.uint8)
    end = _write(
        out, len(front), len(front + value), np.frombuffer(bytearray(page), np.uint8), np.zeros(WORK, np.int64)
    )
    assert out[: len(front)].tobytes() == front
    found = out[len(front) : end].tobytes()
    text = decode(found, NONE)
    assert found == encode(text)[0], "another form than that of a text of this size"
    return text


def digest(text: bytes, salt: str = SALT) -> str:
    return hmac.new(salt.encode(), text, hashlib.sha256).hexdigest()


# around the borders of a block: of the value, of the padding, of a second block
@given(st.integers(0, 300).flatmap(lambda n: st.binary(min_size=n, max_size=n)), st.text(min_size=1, max_size=80))
@example(b"", "k" * 64)
@example(b"x" * 55, "k" * 65)
@example(b"x" * 56, "k")
@example(b"x" * 63, "k")
@example(b"x" * 64, "k")
@example(b"x" * 119, "k")
@example(b"x" * 120, "k")
@example(b"x" * 100_000, "k")
def test_a_hash_is_hashlibs(content: bytes, salt: str) -> None:
    assert masked(encode(content)[0], hashing(salt)) == digest(content, salt)


@given(st.text(max_size=200))
def test_a_text_is_hashed_in_utf8(text: str) -> None:
    assert masked(encode(text)[0], hashing(SALT)) == digest(text.encode())


def partly(text: str, first: int, last: int) -> str:
    """The rule, in Python's words."""
    if len(text) <= first + last:
        return "*" * len(text)
    return text[:first] + "*" * (len(text) - first - last) + text[len(text) - last :]


CHARACTERS = st.characters(exclude_categories=["Cs"]) | st.sampled_from("aé日😀\u0301*")


@given(st.text(CHARACTERS, max_size=90), st.integers(0, 8), st.integers(0, 8))
@example("😀" * 20, 0, 4)
@example("x" * 63, 1, 1)
@example("日" * 22, 0, 1)
@example("1234", 2, 2)
def test_a_part_counts_characters(text: str, first: int, last: int) -> None:
    assert masked(encode(text)[0], keeping(first, last)) == partly(text, first, last)


NUMBERS: list[tuple[bytes, str]] = [
    *((encode(n)[0], str(n)) for n in (0, 7, -1, 127, -128, 300, -32768, 70000, -(2**31), 2**40, 2**63 - 1, -(2**63))),
    *((encode(x)[0], repr(x)) for x in (0.0, -0.5, 0.1, 123456.75)),
    *((encode(x)[0], text) for x, text in ((1e-5, "0.00001"), (1e100, "1e100"))),
    *((struct.pack("<Bf", header(FLOAT), x), text) for x, text in ((0.1, "0.10000000149011612"), (-2.5, "-2.5"))),
    *((struct.pack("<BBQQ", header(DECIMAL16), 0, n, 0), str(n)) for n in (0, 2**64 - 1)),
    (encode(True)[0], "1"),
    (encode(False)[0], "0"),
]


@pytest.mark.parametrize(("value", "text"), NUMBERS, ids=[text for _, text in NUMBERS])
def test_a_number_is_masked_as_its_text(value: bytes, text: str) -> None:
    assert masked(value, hashing(SALT)) == digest(text.encode())
    assert masked(value, keeping(0, 1)) == partly(text, 0, 1)


@given(st.integers(-(2**63), 2**63 - 1))
def test_whole_numbers(number: int) -> None:
    assert masked(encode(number)[0], hashing(SALT)) == digest(str(number).encode())
