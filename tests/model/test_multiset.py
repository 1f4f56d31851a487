"""Rows without a key under random histories: what is rolled back, and what bronze folds to, is the multiset at W."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.multiset import remaining, rollback
from lakehouse_cdc.model.seq import Rank, Seq

Log = list[tuple[str | None, str | None]]  # before, after
Rows = Counter[str]
Rule = Callable[[Log], Rows]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """A history of a table in which rows are alike more often than not."""
    rows: Rows = Counter()
    log: Log = []
    for _ in range(draw(st.integers(0, 14))):
        there = sorted(rows.elements())
        before = draw(st.sampled_from(there)) if bool(there) and draw(st.booleans()) else None
        after = draw(st.sampled_from("ab" if before is None else ["a", "b", None]))
        log.append((before, after))
        rows = after_all([(before, after)], rows)
    return log


def after_all(log: Log, rows: Rows | None = None) -> Rows:
    rows = Counter(rows)
    for before, after in log:
        if before is not None:
            assert rows[before]
            rows[before] -= 1
        if after is not None:
            rows[after] += 1
    return +rows


def signed(rows: Rows) -> Rows:
    return Counter({row: n for row, n in rows.items() if n})


def at_w(rule: Rule, data: st.DataObject, *, proven: bool = True) -> tuple[Rows, Rows]:
    """The rows that a read of a view gives for W, and those that stood there.

    `proven`: the view is one of which it is known what it holds; else it holds less than what is taken back.
    """
    log = data.draw(logs())
    low, seen, high = sorted(data.draw(st.lists(st.integers(0, len(log)), min_size=3, max_size=3)))
    got = after_all(log[:seen])
    got.update(rule(data.draw(st.permutations(log[low : seen if proven else high]))))
    return signed(got), after_all(log[:low])


@given(st.data())
def test_the_rows_are_those_at_w(data: st.DataObject) -> None:
    got, want = at_w(rollback, data)
    assert got == want


def of_rows_that_came(log: Log) -> Rows:
    return rollback([(None, after) for _, after in log])


def of_rows_that_went(log: Log) -> Rows:
    return rollback([(before, None) for before, _ in log])


def of_kinds(log: Log) -> Rows:
    return Counter({row: 1 if n > 0 else -1 for row, n in rollback(log).items()})


@pytest.mark.parametrize(
    ("rule", "proven"), [(of_rows_that_came, True), (of_rows_that_went, True), (of_kinds, True), (rollback, False)]
)
def test_each_guard_is_needed(rule: Rule, proven: bool) -> None:
    """Take one out, and the same property finds a counterexample: also without a count below zero."""

    @settings(max_examples=2000, phases=[Phase.generate], database=None)
    @given(st.data())
    def wrong(data: st.DataObject) -> None:
        got, want = at_w(rule, data, proven=proven)
        assert got == want or any(n < 0 for n in got.values())

    with pytest.raises(AssertionError):
        wrong()


def test_columns_that_are_left_out_do_not_matter() -> None:
    @given(st.data())
    def of_projections(data: st.DataObject) -> None:
        log = data.draw(logs())
        low = data.draw(st.integers(0, len(log)))
        to_one = {None: None, "a": "x", "b": "x"}
        got = Counter(to_one[row] for row in after_all(log).elements())
        got.update(rollback([(to_one[before], to_one[after]) for before, after in log[low:]]))
        assert signed(got) == Counter(to_one[row] for row in after_all(log[:low]).elements())  # type: ignore[arg-type]

    of_projections()


def seq(position: int, rank: Rank = Rank.EVENT, ordinal: int = 0) -> int:
    return Seq(1, 1, 10 * position, rank, ordinal).pack()


def changes(log: Log, first: int = 0) -> list[Change]:
    ops = {(True, True): Op.UPDATE, (True, False): Op.DELETE, (False, True): Op.INSERT}
    return [
        Change(seq(at), ops[before is not None, after is not None], "t", None, before, after)
        for at, (before, after) in enumerate(log, start=first + 1)
    ]


def read(log: Log, at: int, reading: int = 0) -> list[Change]:
    return [
        Change(seq(at, Rank.READ, reading), Op.READ, "t", None, None, row) for row in after_all(log[:at]).elements()
    ]


@given(st.data())
def test_bronze_folds_to_the_rows_at_each_place(data: st.DataObject) -> None:
    """A read, all that comes behind it, and another read, that begins anew, also where it finds nothing."""
    log = data.draw(logs())
    first, again, end = sorted(data.draw(st.lists(st.integers(0, len(log)), min_size=3, max_size=3)))
    bronze = read(log, first) + changes(log, 0)[first:end]
    assert remaining(data.draw(st.permutations(bronze))) == after_all(log[:end])
    # what was read first may be wrong: it is gone behind the second
    lost = read(log, first)[: data.draw(st.integers(0, 3))] + changes(log, 0)[first:end]
    bronze = [*lost, *read(log, again, 1), Change(seq(end + 1), Op.END, "t", after=seq(again, Rank.READ, 1))]
    assert remaining(data.draw(st.permutations(bronze))) == after_all(log[:end])


def test_a_truncation_takes_all() -> None:
    log: Log = [(None, "a"), (None, "a")]
    bronze = [*changes(log), Change(seq(3, Rank.SCHEMA), Op.TRUNCATE, "t"), *changes([(None, "b")], 3)]
    assert remaining(bronze) == {"b": 1}
    assert remaining(changes([(None, "a"), ("b", None)])) == {"a": 1, "b": -1}
