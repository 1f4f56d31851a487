"""Positions are ordered by the file's number, and only within one log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.position import Position, file_name
from lakehouse_cdc.model.seq import Rank, Seq, unpack

files = st.integers(1, 2_000_000) | st.integers(999_990, 1_000_010)  # where names get a digit more
numbers = st.tuples(files, st.integers(4, 2**40))


@given(numbers, numbers)
def test_order_is_by_number_then_byte(a: tuple[int, int], b: tuple[int, int]) -> None:
    one, two = (Position(file_name("mysql-bin", n), pos) for n, pos in (a, b))
    assert (one < two) == (a < b)
    assert (one == two) == (a == b)
    assert (one >= two) == (a >= b)


def test_six_digits_grow_to_seven() -> None:
    assert Position("bin.999999", 500) < Position("bin.1000000", 4)


def test_another_base_name_is_another_log() -> None:
    with pytest.raises(DefiniteError, match="two different logs"):
        _ = Position("old-bin.000001", 4) < Position("new-bin.000002", 4)


def test_a_name_without_number_is_refused() -> None:
    with pytest.raises(DefiniteError, match="not the name of a binlog file"):
        _ = Position("mysql-bin.index", 4).number


parts = st.tuples(
    st.integers(0, 9999), st.integers(0, 10**10 - 1), st.integers(0, 10**13 - 1), st.sampled_from(list(Rank)),
    st.integers(0, 10**10 - 1),
)  # fmt: skip


@given(parts, parts)
def test_seq_keeps_the_order_of_its_parts(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    one, two = Seq(*a).pack(), Seq(*b).pack()
    assert (one < two) == (a < b)
    assert unpack(one) == Seq(*a)
    assert one < 10**38


@pytest.mark.parametrize("part", ["epoch", "file", "pos", "rank", "ordinal"])
def test_a_part_that_does_not_fit_is_refused(part: str) -> None:
    for value in (-1, 10**14):
        with pytest.raises(DefiniteError, match=part):
            Seq(**{**dict.fromkeys(Seq._fields, 0), part: value}).pack()
