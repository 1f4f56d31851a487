"""Doubles to text: the server's digits and form, and the proof that 128 bits are enough for them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pymysql
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse_cdc.images.numbers.doubles import LEAST_POWER, MOST_POWER, power, scale
from tests.support.images.json_bytes import JsonTable, convert, doubles


@pytest.fixture
def table(session: pymysql.Connection[Any], database: str) -> JsonTable:
    return JsonTable(session, database)


def printed(x: float) -> str:
    """A double in the server's form, with Python's digits."""
    mantissa, _, exponent = repr(abs(x)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or 0) - len(whole + fraction) + len((whole + fraction).lstrip("0"))
    digits = (whole + fraction).strip("0")
    sign = "-" if np.signbit(x) else ""
    if not digits:
        return f"{sign}0.0"
    if point < -14 or (point > 15 and point >= len(digits)):
        return f"{sign}{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"


FloatArray = npt.NDArray[np.float64]


def random_doubles(seed: int, n: int) -> FloatArray:
    """Random bits; powers of two and their neighbours; few digits; small multiples of powers of ten."""
    dice = np.random.default_rng(seed)
    bits = dice.integers(0, 1 << 64, n, dtype=np.uint64)
    powers = (bits & ~np.uint64((1 << 52) - 1)) + dice.integers(0, 3, n).astype(np.uint64) - np.uint64(1)
    decimals = dice.integers(-(10**17), 10**17, n) // 10 ** dice.integers(0, 17, n) / 10.0 ** dice.integers(0, 30, n)
    tens = dice.integers(-1000, 1000, n) * 10.0 ** dice.integers(-323, 305, n)
    values = np.concatenate([bits.view(np.float64), powers.view(np.float64), decimals, tens])
    finite: FloatArray = values[np.isfinite(values)]
    return finite


FIGURES = ("1", "1.5", "9.999999999999999", "1.2345678901234567")
EDGES = [0.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 123456789012345680000.0, 9007199254740993.0]
EDGES += [float(f"{figures}e{n}") for n in range(-324, 308) for figures in FIGURES]


def test_doubles(table: JsonTable) -> None:
    """Against the server, and many more against Python's digits in the server's form."""
    edges = np.concatenate([EDGES, np.negative(EDGES)])
    document = doubles(np.concatenate([edges, random_doubles(1, 10_000)]))
    assert table.printed([document]) == [convert(document)]
    for values in (edges, random_doubles(2, 50_000)):
        text = convert(doubles(values)) or b""
        assert text.decode()[1:-1].split(", ") == [printed(x) for x in values.tolist()]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=200))
def test_chosen_doubles(table: JsonTable, values: list[float]) -> None:
    document = doubles(values)
    assert table.printed([document]) == [convert(document)]


def nearest(factor: Fraction, most: int) -> Fraction:
    """How near to an integer one of `most` multiples of `factor` comes that is none: by continued fractions."""
    p, q, p1, q1 = 1, 0, 0, 1
    num, den, least = factor.numerator, factor.denominator, Fraction(1)
    while den:
        whole = num // den
        p, q, p1, q1 = whole * p + p1, whole * q + q1, p, q
        if q > most:
            break
        if q == factor.denominator:
            return Fraction(1, q)
        least = abs(factor * q - p)
        num, den = den, num - whole * den
    return least


def test_128_bits_are_enough() -> None:
    """What the docstring of `doubles` states: of the powers of ten, and of all factors and products."""
    for n in range(LEAST_POWER, MOST_POWER + 1):
        exact = Fraction(10) ** n
        binary = exact.numerator.bit_length() - exact.denominator.bit_length()
        binary -= exact < Fraction(2) ** binary
        assert 0 <= power(n) - exact * Fraction(2) ** (127 - binary) < 1
        assert power(n).bit_length() == 128
    of_exponent: Any = scale
    for q in range(-1074, 972):
        for least in (False, True):
            k, h = of_exponent.py_func(q, least)
            width = Fraction(2) ** q * (Fraction(3, 4) if least else 1)
            assert Fraction(10) ** k <= width < Fraction(10) ** (k + 1)
            assert LEAST_POWER <= -k <= MOST_POWER
            assert Fraction(2) ** (h - q - 1) <= Fraction(10) ** -k < Fraction(2) ** (h - q)
            assert h >= 0
            assert (1 << 55) + 2 << h < 1 << 60
            unit = Fraction(2) ** q / Fraction(10) ** k
            of_least = [((1 << 54) + more, 1) for more in (-1, 0, 2)]  # where c is 2^52
            for factor, most in of_least if least else [(2, (1 << 54) + 1)]:
                assert nearest(unit * factor, most) > Fraction(1, 1 << 66)
