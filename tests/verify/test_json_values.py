"""Two JSON texts are one value, to the last digit, or they are not; and what a VARIANT can hold of one."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.verify.json_values import of_source, of_variant

_DIGITS = st.text("0123456789", min_size=1, max_size=50)
_DECIMALS = st.builds(lambda a, b, sign: f"{sign}{int(a)}.{b}", _DIGITS, _DIGITS, st.sampled_from(["", "-"]))
_INTEGERS = st.integers(1 - 10**38, 10**38 - 1)  # what a variant can hold
_LEAVES = st.none() | st.booleans() | st.text() | _INTEGERS | st.floats(allow_nan=False, allow_infinity=False)
_VALUES = st.recursive(_LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(_VALUES)
def test_a_document_is_itself_however_it_is_written(value: Any) -> None:
    plain = json.dumps(value)
    spelt = json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True)
    assert of_source(plain).text == of_source(spelt).text == of_variant(plain)
    assert of_source(plain).text == of_source(json.dumps(json.loads(plain))).text


@given(_DECIMALS, _DECIMALS)
def test_numbers_are_equal_as_real_numbers(one: str, other: str) -> None:
    assert (of_variant(one) == of_variant(other)) == (Decimal(one) == Decimal(other))


@given(_DECIMALS)
def test_what_a_variant_cannot_hold_is_the_nearest_double(text: str) -> None:
    found = of_source(f'{{"n": [{text}]}}')
    if found.representable:
        assert found.text == of_variant(f'{{"n": [{text}]}}')
    else:
        assert len(text.replace(".", "").replace("-", "").lstrip("0")) > 17
        assert found.text == of_variant(f'{{"n": [{float(text)!r}]}}')


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("1" * 38, True),
        ("1" * 39, False),
        ("1" + "0" * 60, True),  # a double
        ("0." + "1" * 38, True),
        ("0." + "1" * 39, False),
        ("1e400", False),
        ("1.2345678901234567890123e5", False),  # Spark reads it as a double
        ("5e-324", True),
        ('{"a": 1, "a": 2}', False),
        ('"\\ud83d"', False),
        ('"\\ud83d\\ude00"', True),
    ],
)
def test_what_a_variant_can_hold(text: str, held: bool) -> None:
    assert of_source(text).representable is held


@pytest.mark.parametrize(
    ("printed", "exact"),
    [
        ("9.999999999999999E22", "1e23"),
        ("4.9E-324", "5e-324"),
        ("5.6843418860808015E-14", "5.684341886080802e-14"),
        ("1.0", "1"),
        ('"Infinity"', "1e400"),
    ],
)
def test_a_double_as_java_prints_it(printed: str, exact: str) -> None:
    assert of_variant(printed) == of_source(exact).text
