"""GTID sets: parsing is the inverse of printing, containment is a partial order, gaps stay gaps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.gtid import GtidSet, gtid_text

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "4e11fa47-71ca-11e1-9e33-c80aa9429562"

intervals = st.lists(
    st.tuples(st.integers(1, 40), st.integers(0, 5)).map(lambda t: (t[0], t[0] + t[1] + 1)), max_size=5
)
sets = st.dictionaries(st.sampled_from([A, B, f"{A}:tag", f"{B}:x_1"]), intervals, max_size=4).map(GtidSet)

# of one source and a few numbers, so that intervals often overlap in part
close = st.lists(
    st.tuples(st.integers(1, 5), st.integers(0, 3)).map(lambda t: (t[0], t[0] + t[1] + 1)), min_size=1, max_size=2
).map(lambda spans: GtidSet({A: spans}))


def members(s: GtidSet) -> set[tuple[str, int]]:
    """The set in the plainest form: every GTID by itself, read back from the text."""
    out, source = set(), ""
    for part in filter(None, str(s).split(",")):
        uuid, *fields = part.split(":")
        source = uuid
        for field in fields:
            if field[0].isdigit():
                first, _, last = field.partition("-")
                out |= {(source, n) for n in range(int(first), int(last or first) + 1)}
            else:
                source = f"{uuid}:{field}"
    return out


@given(sets)
def test_text_is_read_back(s: GtidSet) -> None:
    assert GtidSet.parse(str(s)) == s


@given(st.tuples(sets, sets) | st.tuples(close, close))
def test_union_and_containment_are_those_of_sets(two: tuple[GtidSet, GtidSet]) -> None:
    a, b = two
    assert members(a.union(b)) == members(a) | members(b)
    assert a.contains(b) == (members(a) >= members(b))
    assert (a == b) == (members(a) == members(b))
    assert a.union(b).contains(a)


@given(sets, st.integers(1, 60))
def test_add(s: GtidSet, n: int) -> None:
    assert members(s.add(A, n)) == members(s) | {(A, n)}


def test_a_gap_is_not_closed() -> None:
    gap = GtidSet.parse(f"{A}:1-7:9-10")
    assert str(gap) == f"{A}:1-7:9-10"
    assert not gap.contains(GtidSet.parse(f"{A}:8"))
    assert str(gap.add(A, 8)) == f"{A}:1-10"


def test_sets_of_two_sources_are_incomparable() -> None:
    a, b = GtidSet.parse(f"{A}:1-5"), GtidSet.parse(f"{B}:1-5")
    assert not a.contains(b)
    assert not b.contains(a)


positions = st.dictionaries(st.sampled_from(["0-1", "0-2", "7-1"]), st.integers(1, 99), max_size=3)


def position(numbers: dict[str, int]) -> GtidSet:
    return GtidSet.parse(",".join(f"{source}-{number}" for source, number in numbers.items()))


@given(positions, positions)
def test_a_position_of_mariadb_contains_what_it_has_reached(a: dict[str, int], b: dict[str, int]) -> None:
    assert str(position(a)) == ",".join(f"{source}-{a[source]}" for source in sorted(a))
    assert position(a).contains(position(b)) == all(a.get(source, 0) >= number for source, number in b.items())
    both = {source: max(a.get(source, 0), b.get(source, 0)) for source in a.keys() | b.keys()}
    assert position(a).union(position(b)) == position(both)


def test_one_gtid_is_written_as_its_server_does() -> None:
    assert gtid_text(A, 5) == f"{A}:5"
    assert gtid_text(f"{A}:tag", 5) == f"{A}:tag:5"
    assert gtid_text("0-1", 5) == "0-1-5"


@pytest.mark.parametrize(
    "text", ["0-1", "0-1-x", "0-1-2-3", f"{A}", f"{A}:", f"{A}:1-", f"{A}:1-2-3", f"{A}:t%g:1", f"{A}:-3"]
)
def test_what_is_not_a_set_is_refused(text: str) -> None:
    with pytest.raises(DefiniteError, match="GTID set"):
        GtidSet.parse(text)


@given(sets, sets)
def test_minus_is_what_the_other_lacks(a: GtidSet, b: GtidSet) -> None:
    assert members(a.minus(b)) == members(a) - members(b)
    assert bool(a.minus(b)) != b.contains(a)
