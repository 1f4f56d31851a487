"""SHA-256 (FIPS 180-4) and HMAC (RFC 2104) over bytes in a buffer.

A HMAC is two hashes, each of which begins with a block made of the key alone. What these two blocks leave, the
key's states, is computed once (`key_states`); then a short value takes two blocks, not four. Numbers of 32 bits are
held in 64, so sums are cut after the fact. The constants are computed from their definition: the first bits of the
fractions of square roots and cube roots of the first primes.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np

from lakehouse_cdc.images.bytes_io import Bytes, Step, at_offset, big, little, pointer
from lakehouse_cdc.images.compiled import compiled, part

BLOCK, DIGEST_WORDS, ROUNDS = 64, 8, 64
STATES_BYTES = 2 * 4 * DIGEST_WORDS  # the inner hash's and the outer's
WORK = ROUNDS + 2 * DIGEST_WORDS  # what `work` holds: the schedule of a block, the state, and a digest
_STATE, _DIGEST = ROUNDS, ROUNDS + DIGEST_WORDS
_32_BITS = 0xFFFFFFFF


def _cube_root(number: int) -> int:
    low, high = 0, 1 << (number.bit_length() // 3 + 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**3 <= number else (low, middle - 1)
    return low


_PRIMES = [n for n in range(2, 312) if all(n % d for d in range(2, n))]
_FIRST = np.array([math.isqrt(p << 64) & _32_BITS for p in _PRIMES[:DIGEST_WORDS]], dtype=np.int64)
_ROUND = np.array([_cube_root(p << 96) & _32_BITS for p in _PRIMES], dtype=np.int64)
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)


def key_states(key: bytes) -> bytes:
    """The states that a HMAC under `key` begins with, as `write_hmac` takes them."""
    block = (hashlib.sha256(key).digest() if len(key) > BLOCK else key).ljust(BLOCK, b"\0")
    states = b""
    for pad in (0x36, 0x5C):
        work = np.zeros(WORK, np.int64)
        _begin(np.frombuffer(bytearray(byte ^ pad for byte in block), np.uint8), work)
        states += work[_STATE : _STATE + DIGEST_WORDS].astype("<u4").tobytes()
    return states


@compiled
def _begin(block: Bytes, work: Step) -> None:
    """The state of `work` after a first block."""
    words, data = pointer(work), pointer(block)
    for i in range(DIGEST_WORDS):
        words[_STATE + i] = _FIRST[i]
    for i in range(16):
        words[i] = big(data, 4 * i, 4)
    _compress(words)


@part
def write_hmac(data: Bytes, at: int, size: int, states: Bytes, work: Step, out: Bytes, to: int) -> int:
    """The HMAC of `size` bytes as 64 hexadecimal digits; the position after. It may be written over the bytes."""
    _absorb(data, at, size, states, work)
    for i in range(DIGEST_WORDS):
        work[_DIGEST + i] = work[_STATE + i]
    _open(at_offset(states, 4 * DIGEST_WORDS), work)
    for i in range(16):
        work[i] = work[_DIGEST + i] if i < DIGEST_WORDS else 0
    work[DIGEST_WORDS], work[15] = 1 << 31, 8 * (BLOCK + 4 * DIGEST_WORDS)
    _compress(work)
    for i in range(DIGEST_WORDS):
        for j in range(8):
            out[to + 8 * i + j] = _HEX[work[_STATE + i] >> (28 - 4 * j) & 15]
    return to + 8 * DIGEST_WORDS


@part
def _open(states: Bytes, work: Step) -> None:
    for i in range(DIGEST_WORDS):
        work[_STATE + i] = little(states, 4 * i, 4)


@part
def _absorb(data: Bytes, at: int, size: int, states: Bytes, work: Step) -> None:
    """The inner hash: whole blocks, then what is left with a bit and the length (the key's block counts) after."""
    _open(states, work)
    end = at + size
    while end - at >= BLOCK:
        for i in range(16):
            work[i] = big(data, at + 4 * i, 4)
        _compress(work)
        at += BLOCK
    left = end - at
    for i in range(16):
        work[i] = _word(data, at, left, 4 * i)
    if left >= BLOCK - 8:  # no room for the length
        _compress(work)
        for i in range(16):
            work[i] = 0
    work[14], work[15] = (BLOCK + size) >> 29, ((BLOCK + size) << 3) & _32_BITS
    _compress(work)


@part
def _word(data: Bytes, at: int, left: int, place: int) -> int:
    """Four bytes of the last block, of which data has `left`."""
    word = 0
    for i in range(place, place + 4):
        word = word << 8 | (np.int64(data[at + i]) if i < left else 0x80 if i == left else 0)
    return word


@part
def _turned(word: int, bits: int) -> int:
    turned: int = (word >> bits | word << (32 - bits)) & _32_BITS
    return turned


@part
def _compress(work: Step) -> None:
    """One block, whose 16 words are in place."""
    for i in range(16, ROUNDS):
        a, b = work[i - 15], work[i - 2]
        low = _turned(a, 7) ^ _turned(a, 18) ^ a >> 3
        high = _turned(b, 17) ^ _turned(b, 19) ^ b >> 10
        work[i] = (work[i - 16] + low + work[i - 7] + high) & _32_BITS
    a, b, c, d = work[_STATE], work[_STATE + 1], work[_STATE + 2], work[_STATE + 3]
    e, f, g, h = work[_STATE + 4], work[_STATE + 5], work[_STATE + 6], work[_STATE + 7]
    for i in range(ROUNDS):
        one = h + (_turned(e, 6) ^ _turned(e, 11) ^ _turned(e, 25)) + (e & f ^ (e ^ _32_BITS) & g) + _ROUND[i] + work[i]
        two = (_turned(a, 2) ^ _turned(a, 13) ^ _turned(a, 22)) + (a & b ^ a & c ^ b & c)
        h, g, f, e, d, c, b, a = g, f, e, (d + one) & _32_BITS, c, b, a, (one + two) & _32_BITS
    work[_STATE], work[_STATE + 1] = (work[_STATE] + a) & _32_BITS, (work[_STATE + 1] + b) & _32_BITS
    work[_STATE + 2], work[_STATE + 3] = (work[_STATE + 2] + c) & _32_BITS, (work[_STATE + 3] + d) & _32_BITS
    work[_STATE + 4], work[_STATE + 5] = (work[_STATE + 4] + e) & _32_BITS, (work[_STATE + 5] + f) & _32_BITS
    work[_STATE + 6], work[_STATE + 7] = (work[_STATE + 6] + g) & _32_BITS, (work[_STATE + 7] + h) & _32_BITS
