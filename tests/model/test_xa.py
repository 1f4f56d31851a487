"""Whoever may begin to read somewhere finds the group of every XA COMMIT behind, told by the offset or by himself."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.model.position import Position, file_name
from lakehouse_cdc.model.xa import Prepared, XaEvent, follow, needed, open_at

_PER_FILE = 6


def place(n: int) -> Position:
    """Rising with n; each file holds some of them."""
    return Position(file_name("bin", n // _PER_FILE), 4 + 10 * (n % _PER_FILE))


def history(rng: random.Random, size: int) -> list[XaEvent]:
    """One thing at each place: some xid is prepared, or decided on; now and then a crash loses what was prepared."""
    open_: set[str] = set()
    events = []
    for n in range(1, size):
        xid, at = rng.choice("abc"), place(n)
        if xid in open_ and rng.random() < 0.9:
            open_.remove(xid)
            events.append(XaEvent(at, xid, None, committed=rng.random() < 0.8))
        else:
            open_.add(xid)
            events.append(XaEvent(at, xid, Prepared(xid, Position(at.file, at.pos - 5), at, n)))
    return events


def between(events: list[XaEvent], low: Position, high: Position) -> list[XaEvent]:
    return [e for e in events if low < e.position <= high]


def truly_open(events: list[XaEvent], at: Position) -> set[Position]:
    """Where the groups begin that are prepared at or before a position and whose next word comes after it, if ever."""
    found = set()
    for n, event in enumerate(events):
        if event.prepared is None or event.position > at:
            continue
        later = next((e for e in events[n + 1 :] if e.xid == event.xid), None)
        if later is None or (later.prepared is None and later.position > at):  # prepared again: a crash lost it
            found.add(event.prepared.begin)
    return found


@given(st.integers(0, 2**32))
def test_every_reader_knows_what_is_open_where_it_begins(seed: int) -> None:
    """Offers and positions that were seen and not offered, restarts, floors at any position that was seen."""
    rng = random.Random(seed)
    events = history(rng, 40)
    start = floor = place(rng.randrange(3))
    known = open_at(follow((), between(events, place(0), start)), start)
    waiting: list[Position] = []
    for n in sorted(rng.sample(range(3, 40), 12)):
        end = place(n)
        waiting.append(end)
        if rng.random() < 0.5:
            at = rng.randrange(len(waiting))
            floor, waiting = waiting[at], waiting[at + 1 :]
        files = [Position(file_name("bin", f), 4) for f in range(start.number + 1, end.number + 1)]
        begins = [start, floor, *files, *waiting]
        listed = needed(follow(known, between(events, start, end)), begins, floor)
        for begin in (start, floor, *files):
            found = [p.begin for p in open_at(listed, begin)]
            assert sorted(found) == sorted(truly_open(between(events, place(0), end), begin))
        assert {p.xid for p in listed if p.decided is None} == {p.xid for p in open_at(listed, end)}
        decided = [e for e in between(events, floor, end) if e.prepared is None]
        assert not decided or any(p.decided is not None for p in listed)
        assert tuple(Prepared.from_json(p.to_json()) for p in listed) == listed
        if rng.random() < 0.6:
            start, known = end, listed
            waiting = [] if rng.random() < 0.3 else waiting


def test_one_that_was_lost_in_a_crash_is_forgotten_when_its_xid_is_used_again() -> None:
    lost, again = (Prepared("x", Position("bin.000001", n), Position("bin.000001", n + 10), 1) for n in (10, 50))
    end = Position("bin.000001", 90)
    events = [XaEvent(p.end, "x", p) for p in (lost, again)]
    assert follow((), events) == [again]
    assert open_at(follow([lost], [events[1], XaEvent(end, "x", None, committed=True)]), end) == ()


@pytest.mark.parametrize("many", [10, 10_000])
def test_an_offset_lists_few_however_many_there_are(many: int) -> None:
    places = [Position("bin.000001", 10 * n) for n in range(2 * many + 2)]
    events = []
    for n, (prepared, decided) in enumerate(pairwise(places[1:])):
        if n % 2 == 0:
            group = Prepared(str(n), places[n], prepared, 1)
            events += [XaEvent(prepared, str(n), group), XaEvent(decided, str(n), None)]
    listed = needed(follow((), events), [places[0]], places[0])
    assert [p.decided for p in listed] == [events[-1].position]  # the sign that there were some
    assert needed(listed, [places[-1]], places[-1]) == ()
