"""The as-of rule under random interleavings: whatever the SELECT saw between F and H, the rows are those at W."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lakehouse_cdc.model.as_of_rule import Event, truths

State = dict[bytes, bytes]
Rule = Callable[[list[Event]], dict[bytes, bytes | None]]


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[bytes, bytes | None, bytes | None]]:
    """A valid changelog over few keys: (key, before, after)."""
    state: State = {}
    log = []
    for n in range(draw(st.integers(0, 14))):
        key = draw(st.sampled_from([b"a", b"b", b"c"]))
        before = state.get(key)
        after = None if before is not None and draw(st.booleans()) else str(n).encode()
        log.append((key, before, after))
        if after is None:
            del state[key]
        else:
            state[key] = after
    return log


def state_at(log: list[tuple[bytes, bytes | None, bytes | None]], position: int) -> State:
    state: State = {}
    for key, _, after in log[:position]:
        if after is None:
            state.pop(key, None)
        else:
            state[key] = after
    return state


def as_of(rule: Rule, data: st.DataObject, floor_is_settled: bool = True) -> tuple[State, State]:
    log = data.draw(logs())
    bounds = sorted(data.draw(st.lists(st.integers(0, len(log)), min_size=3, max_size=3)))
    floor, low, high = bounds
    # the SELECT sees a prefix: all that is settled, and nothing past H
    seen = state_at(log, data.draw(st.integers(floor if floor_is_settled else 0, high)))
    events = [Event(*log[i], forward=i < low) for i in range(floor, high)]
    rows: dict[bytes, bytes | None] = {**seen, **rule(events)}
    return {k: v for k, v in rows.items() if v is not None}, state_at(log, low)


@given(st.data())
def test_the_rows_are_those_at_w(data: st.DataObject) -> None:
    got, want = as_of(truths, data)
    assert got == want


def without_rollback(events: list[Event]) -> dict[bytes, bytes | None]:
    return truths([e for e in events if e.forward])


def without_forward(events: list[Event]) -> dict[bytes, bytes | None]:
    return truths([e for e in events if not e.forward])


def last_before_image(events: list[Event]) -> dict[bytes, bytes | None]:
    return {**{e.key: e.before for e in events if not e.forward}, **truths([e for e in events if e.forward])}


@pytest.mark.parametrize(
    ("rule", "settled"),
    [(without_rollback, True), (without_forward, True), (last_before_image, True), (truths, False)],
)
def test_each_guard_is_needed(rule: Rule, settled: bool) -> None:
    """Take one out, and the same property finds a counterexample."""

    @settings(max_examples=2000, phases=[Phase.generate], database=None)
    @given(st.data())
    def broken(data: st.DataObject) -> None:
        got, want = as_of(rule, data, settled)
        assert got == want

    with pytest.raises(AssertionError):
        broken()
