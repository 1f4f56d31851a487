"""The VARIANT codec: its own inverse, read by pyspark's decoder, and equal to bytes written down from the format."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.variant_utils import VariantUtils

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.variant import decode, encode, metadata, moment_text

# pyspark's own decoder; it is annotated to give str, but it gives any value
to_python: Callable[[bytes, bytes], Any] = VariantUtils.to_python

DECIMALS = st.builds(
    lambda unscaled, scale: Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale)),
    st.integers(-(10**38) + 1, 10**38 - 1),
    st.integers(0, 38),
)
ZONED = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(lambda d: d.replace(tzinfo=timezone.utc))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    DECIMALS,
    st.floats(allow_nan=False),
    st.text(max_size=200),
    st.binary(max_size=300),
    st.dates(),
    st.datetimes(),
    ZONED,
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner, max_size=5)
)


def same(a: Any, b: Any) -> bool:
    """Equality that tells 1 from True and from 1.0, and -0.0 from 0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b) and (not isinstance(a, float) or math.copysign(1, a) == math.copysign(1, b))


@given(VALUES)
def test_what_is_encoded_is_decoded(value: Any) -> None:
    assert same(decode(*encode(value)), value)


@given(VALUES)
def test_pyspark_reads_the_same(value: Any) -> None:
    def plain(v: Any) -> Any:  # pyspark rounds decimals to 28 digits: compare the others here
        if isinstance(v, Decimal):
            return None
        if isinstance(v, dict):
            return {k: plain(x) for k, x in v.items()}
        return [plain(x) for x in v] if isinstance(v, list) else v

    assert same(to_python(*encode(plain(value))), plain(value))


@given(DECIMALS)
def test_pyspark_reads_the_same_decimal(value: Decimal) -> None:
    encoded, names = encode(value)
    assert +to_python(encoded, names) == +value


@settings(max_examples=10)
@given(st.dictionaries(st.text(max_size=3), st.integers(), min_size=250, max_size=300))
def test_large_objects(value: dict[str, int]) -> None:
    value = {k: v % 2**63 for k, v in value.items()}
    assert decode(*encode(value)) == to_python(*encode(value)) == value


@given(st.dates() | st.datetimes() | ZONED)
def test_dates_and_times_as_text(value: date | datetime) -> None:
    plain = value.replace(tzinfo=None) if isinstance(value, datetime) else value
    text = plain.isoformat(" ", "microseconds") if isinstance(plain, datetime) else plain.isoformat()
    assert moment_text(encode(value)[0]) == text


def test_dates_of_the_year_zero_as_text() -> None:
    for days, text in (
        (-719528, "0000-01-01"),
        (-719468, "0000-03-01"),
        (-719163, "0000-12-31"),
        (-719162, "0001-01-01"),
    ):
        day, second = days.to_bytes(4, "little", signed=True), (days * 86400 + 1) * 10**6
        assert moment_text(bytes([11 << 2]) + day) == text
        assert moment_text(bytes([13 << 2]) + second.to_bytes(8, "little", signed=True)) == f"{text} 00:00:01.000000"


@given(st.binary(max_size=40), st.binary(max_size=20))
def test_any_bytes_give_a_value_or_a_definite_error(value: bytes, names: bytes) -> None:
    for dictionary in (names, metadata(["a", "b"])):
        with suppress(DefiniteError):
            decode(value, dictionary)


@given(VALUES, st.data())
def test_a_value_that_is_cut_short_is_refused(value: Any, data: st.DataObject) -> None:
    encoded, names = encode(value)
    with pytest.raises(DefiniteError):
        decode(encoded[: data.draw(st.integers(0, len(encoded) - 1))], names)


def test_spark_reads_the_same(spark: SparkSession) -> None:
    value = {
        "none": None,
        "yes": True,
        "ints": [1, 300, -70000, 2**40],
        "decimals": [Decimal("-1.50"), Decimal("12345678901.5"), Decimal("1" * 38)],
        "text": "é" * 40,
        "day": date(1582, 10, 15),
        "local": datetime(1, 1, 1, 0, 0, 0, 1),
        "utc": datetime(2024, 2, 29, 12, tzinfo=timezone.utc),
        "nested": {"日": {"b": -0.5}},
    }
    fields = [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
    row = pa.StructArray.from_arrays([pa.array([part], pa.binary()) for part in encode(value)], fields=fields)
    frame = spark.createDataFrame(pa.table({"v": row}))
    read = frame.selectExpr(
        "v",
        "v:none IS NULL OR is_variant_null(v:none) AS none",
        "v:ints::array<bigint> AS ints",
        "v:decimals[0]::decimal(5,2) AS small",
        "v:decimals[2]::decimal(38,0) AS large",
        "v:text::string AS text",
        "v:day::date AS day",
        "unix_micros(v:utc::timestamp) AS utc",
        "v:nested['日'].b::double AS deep",
    ).collect()[0]
    assert decode(read.v.value, read.v.metadata) == value
    assert (read.none, read.ints, read.small, read.large) == (True, value["ints"], Decimal("-1.50"), Decimal("1" * 38))
    assert (read.text, read.day, read.deep) == (value["text"], value["day"], -0.5)
    assert read.utc == 1709208000000000


def test_the_bytes_of_the_format() -> None:
    assert encode({"b": 1, "a": "x"}) == (
        bytes([0b000000_10, 2, 0, 1, 0, 2, 4, 1 << 2 | 1, ord("x"), 3 << 2, 1]),
        bytes([0x11, 2, 0, 1, 2]) + b"ab",
    )
    assert encode("y" * 64)[0] == bytes([16 << 2, 64, 0, 0, 0]) + b"y" * 64
    assert encode(Decimal("-1.50"))[0] == bytes([8 << 2, 2, 0x6A, 0xFF, 0xFF, 0xFF])
    assert encode(date(1970, 1, 2))[0] == bytes([11 << 2, 1, 0, 0, 0])
    assert encode(datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))))[0] == bytes([12 << 2] + [0] * 8)
    assert decode(bytes([14 << 2]) + b"\x00\x00\x00\x80", metadata([])) == 0.0


@pytest.mark.parametrize("size", [255, 256, 65535, 65536, 2**24])
def test_offsets_at_the_edge_of_a_width(size: int) -> None:
    value = {"long": "z" * (size - 6), "empty": ""}  # header, length and the empty string's header: 6
    assert decode(*encode(value)) == to_python(*encode(value)) == value


def test_names_sort_by_their_bytes() -> None:
    names = ["é", "z", "Z", "a", "\uffee", "日"]
    assert decode(*encode({n: n for n in names})) == {n: n for n in names}
    assert list(decode(*encode(dict.fromkeys(names)))) == sorted(names, key=lambda n: n.encode("utf-16-be"))


@pytest.mark.parametrize("value", [10**38, Decimal("NaN"), Decimal("1e-39"), Decimal("1e38")])
def test_what_does_not_fit_is_refused(value: Any) -> None:
    with pytest.raises(DefiniteError):
        encode(value)


def test_two_fields_of_one_name_are_refused() -> None:
    with pytest.raises(DefiniteError):
        metadata(["a", "a"])
