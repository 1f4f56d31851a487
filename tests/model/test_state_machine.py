"""Each row of the state machine by examples, and that every pair without a row is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any, get_args

import pytest

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.state_machine import TABLE, advance, advanced
from lakehouse_cdc.model.table_events import (
    EVENTS,
    ChunkPlanned,
    DdlCrossed,
    EpochBegun,
    Event,
    LastChunkPlanned,
    ReadsConfirmed,
    RepairAsked,
    RepairRetried,
    RereadAsked,
    RowsChanged,
    SchemaChanged,
    ServerReplaced,
    TableBorn,
    TableDeselected,
    TableDiscovered,
    TableDropped,
    TableRecorded,
    TableRefused,
    TableTruncated,
)
from lakehouse_cdc.model.table_state import (
    PHASES,
    Absent,
    CaughtUp,
    Complete,
    Dropped,
    FirstPass,
    Phase,
    PutBack,
    Quarantined,
    Reading,
    Repair,
    Repaired,
    RepairPending,
    RepairRead,
    RepeatedPass,
    Streaming,
    TableState,
    Unconfirmed,
    Waiting,
    with_all_keys,
)


@contextmanager
def refused(match: str | None = None) -> Iterator[None]:
    with pytest.raises(DefiniteError, match=match) as error:
        yield
    assert error.value.code is codes.TRANSITION_REFUSED


FLOOR, EARLIER_FLOOR = Position("b.000002", 4), Position("b.000001", 4)
FIRST, SECOND, NEXT = FirstPass(), RepeatedPass(7), RepeatedPass(9)
AGAIN = Reading(NEXT, [])  # a new pass, which begins at seq 9
DISCOVERED, DISCOVERED_BARE = (
    TableDiscovered("new", snapshots=True, seq=9),
    TableDiscovered("new", snapshots=False, seq=9),
)
BORN, BORN_WITHOUT = TableBorn("new", snapshots=True, floor=FLOOR), TableBorn("new", snapshots=False, floor=FLOOR)
KEPT = SchemaChanged("new", values_kept=True, key_order_kept=True, seq=9, floor=FLOOR)
LOST = replace(KEPT, values_kept=False)
OTHER_ORDER = replace(KEPT, key_order_kept=False)
CHANGED, TRUNCATED = RowsChanged(9, FLOOR), TableTruncated(FLOOR)
REFUSED, DROPPED = TableRefused("why", "refused"), TableDropped()
CONFIRMED, CROSSED, CROSSED_WITHOUT_KEY = ReadsConfirmed(), DdlCrossed(), DdlCrossed(9)
ELSEWHERE, ELSEWHERE_WITHOUT_KEY = ServerReplaced(), ServerReplaced(9)
MIDDLE, BACK = Reading(FIRST, [5]), PutBack(FIRST, [2], [5])
MOVED, AT_END = Unconfirmed(FIRST, [5], [2]), CaughtUp(FIRST, [2])
READ, NO_SNAPSHOT = Complete(SECOND), Streaming(7)
GONE, ASIDE, NEVER_SEEN = Dropped(7), Quarantined("old", True, 7), Quarantined("old", False)
SETTLED: list[Phase] = [Waiting(), MIDDLE, BACK, READ, NO_SNAPSHOT]


def staying(event: Event, *phases: Phase) -> list[tuple[Phase, Event, Phase]]:
    return [(phase, event, phase) for phase in phases]


EXAMPLES: list[tuple[Phase, Event, Phase]] = [
    # a table is captured
    *((phase, DISCOVERED, Waiting()) for phase in (Absent(), Waiting(), NEVER_SEEN)),
    *((phase, DISCOVERED, AGAIN) for phase in (GONE, ASIDE)),
    *((phase, DISCOVERED_BARE, Streaming()) for phase in (Absent(), Waiting(), GONE, ASIDE, NEVER_SEEN)),
    (Absent(), BORN, Complete(FIRST)),
    (GONE, BORN, Complete(FirstPass(earlier=7))),
    (Absent(), BORN_WITHOUT, Streaming()),
    (GONE, BORN_WITHOUT, Streaming(earlier=7)),
    (Absent(), TableRecorded("new"), Complete(FIRST)),
    (Waiting(), EpochBegun(9), AGAIN),
    (Streaming(), EpochBegun(9), Streaming()),
    # it is not captured any more
    *((phase, DROPPED, Dropped()) for phase in (MIDDLE, MOVED, BACK, AT_END)),
    *((phase, DROPPED, Dropped(7)) for phase in (READ, NO_SNAPSHOT, GONE, ASIDE)),
    (Waiting(), DROPPED, Absent()),
    (NEVER_SEEN, DROPPED, Absent()),
    *((phase, REFUSED, Quarantined("why", False)) for phase in (Absent(), Waiting(), NEVER_SEEN)),
    *((phase, REFUSED, Quarantined("why", True)) for phase in (MIDDLE, BACK)),
    *((phase, REFUSED, Quarantined("why", True, 7)) for phase in (READ, NO_SNAPSHOT, GONE, ASIDE)),
    (Waiting(), TableDeselected(), Absent()),
    # DDL
    *staying(KEPT, *SETTLED),
    *((phase, event, AGAIN) for phase in (MIDDLE, BACK) for event in (LOST, OTHER_ORDER)),
    (READ, LOST, AGAIN),
    (READ, OTHER_ORDER, READ),  # there is no cursor that could mean something else
    *staying(LOST, Waiting(), NO_SNAPSHOT),
    *((phase, CHANGED, AGAIN) for phase in (MIDDLE, BACK, READ)),
    *staying(CHANGED, Waiting(), NO_SNAPSHOT),
    *staying(TRUNCATED, *SETTLED),
    # chunks
    (Waiting(), ChunkPlanned([6]), Unconfirmed(FIRST, [6], [])),
    (MIDDLE, ChunkPlanned([6]), Unconfirmed(FIRST, [6], [5])),
    (AGAIN, ChunkPlanned([6]), Unconfirmed(NEXT, [6], [])),
    (BACK, ChunkPlanned([6]), Unconfirmed(FIRST, [6], [2])),
    (MOVED, ChunkPlanned([6]), Unconfirmed(FIRST, [6], [2])),  # another one in the same batch
    (Waiting(), LastChunkPlanned(), CaughtUp(FIRST, [])),
    (MIDDLE, LastChunkPlanned(), CaughtUp(FIRST, [5])),
    (BACK, LastChunkPlanned(), CaughtUp(FIRST, [2])),
    (MOVED, LastChunkPlanned(), CaughtUp(FIRST, [2])),
    # what became of them
    (MOVED, CONFIRMED, MIDDLE),
    (AT_END, CONFIRMED, Complete(FIRST)),
    *((MOVED, event, BACK) for event in (CROSSED, ELSEWHERE)),
    *((AT_END, event, PutBack(FIRST, [2], True)) for event in (CROSSED, ELSEWHERE)),
    *((phase, event, AGAIN) for phase in (MOVED, AT_END) for event in (CROSSED_WITHOUT_KEY, ELSEWHERE_WITHOUT_KEY)),
    *(row for event in (CONFIRMED, CROSSED, ELSEWHERE) for row in staying(event, *SETTLED, GONE, ASIDE)),
    # requests
    *((phase, RereadAsked(9), AGAIN) for phase in (READ, NO_SNAPSHOT)),
    *staying(RepairAsked("keys", 9), READ, NO_SNAPSHOT),
]
PENDING_EXAMPLES = staying(RepairRetried(9), READ, NO_SNAPSHOT)  # where keys are pending


def state_of(phase: Phase, repair: Repair | None = None) -> TableState | None:
    return None if isinstance(phase, Absent) else TableState("old", phase, EARLIER_FLOOR, repair)


def phase_of(state: TableState | None) -> Phase:
    return Absent() if state is None else state.phase


@pytest.mark.parametrize(("phase", "event", "after"), EXAMPLES)
def test_a_row(phase: Phase, event: Event, after: Phase) -> None:
    assert phase_of(advance(state_of(phase), event)) == after
    assert type(after) in TABLE[type(phase), type(event)].to


@pytest.mark.parametrize(("phase", "event", "after"), PENDING_EXAMPLES)
def test_a_row_of_a_table_with_pending_keys(phase: Phase, event: Event, after: Phase) -> None:
    assert phase_of(advance(state_of(phase, RepairPending("keys")), event)) == after


def test_the_examples_are_all_rows_and_lead_to_every_phase_that_a_row_names() -> None:
    reached: dict[Any, set[type[Phase]]] = {}
    for phase, event, after in [*EXAMPLES, *PENDING_EXAMPLES]:
        reached.setdefault((type(phase), type(event)), set()).add(type(after))
    assert reached == {pair: set(row.to) for pair, row in TABLE.items()}


def test_all_phases_and_events_are_listed() -> None:
    assert set(PHASES) == set(get_args(Phase))
    assert set(EVENTS) == set(get_args(Event))


def test_every_other_pair_is_refused() -> None:
    phases = {type(phase): phase for phase, _, _ in EXAMPLES}
    events = {type(event): event for _, event, _ in [*EXAMPLES, *PENDING_EXAMPLES]}
    others = [pair for pair in product(PHASES, EVENTS) if pair not in TABLE]
    assert len(others) > len(TABLE)
    for phase, event in others:
        with refused(f"{phase.__name__} .* {event.__name__}"):
            advance(state_of(phases[phase]), events[event])


def test_a_table_that_must_be_there_after_an_event_is() -> None:
    assert advanced(None, DISCOVERED).phase == Waiting()
    with refused():
        advanced(state_of(Waiting()), TableDeselected())


# ---------------------------------------------------------------------- what is independent of the phase


Pairs = list[tuple[Phase, Event]]


def test_the_schema_is_that_of_the_event_that_has_one() -> None:
    named: Pairs = [(GONE, DISCOVERED), (GONE, BORN), (Waiting(), KEPT), (Absent(), TableRecorded("new"))]
    for phase, event in named:
        assert advanced(state_of(phase), event).schema == "new"
    assert advanced(None, REFUSED).schema == "refused"
    unnamed: Pairs = [(READ, REFUSED), (READ, CHANGED), (MOVED, CONFIRMED)]
    for phase, event in unnamed:
        assert advanced(state_of(phase), event).schema == "old"


def test_the_floor_is_where_the_table_got_its_shape() -> None:
    shaped: Pairs = [(GONE, BORN), (GONE, replace(DISCOVERED, floor=FLOOR)), (READ, KEPT), (READ, CHANGED)]
    shaped += [(Waiting(), KEPT), (Waiting(), CHANGED), (Waiting(), TRUNCATED)]
    for phase, event in shaped:
        assert advanced(state_of(phase), event).floor == FLOOR
    without: Pairs = [(GONE, DISCOVERED), (READ, REFUSED), (READ, DROPPED), (READ, ELSEWHERE), (MOVED, ELSEWHERE)]
    for phase, event in without:
        assert advanced(state_of(phase), event).floor is None
    same: Pairs = [(MOVED, CONFIRMED), (READ, RereadAsked(9)), (AT_END, CROSSED_WITHOUT_KEY)]
    for phase, event in same:
        assert advanced(state_of(phase), event).floor == EARLIER_FLOOR


@pytest.mark.parametrize(
    ("before", "event", "after"),
    [
        (None, RepairAsked("keys", 9), RepairRead("keys", 9)),
        (Repaired(3), RepairAsked("keys", 9), RepairRead("keys", 9)),
        (RepairRead("keys", 9), CONFIRMED, Repaired(9)),
        (RepairRead("keys", 9), CROSSED, RepairPending("keys")),
        (RepairRead("keys", 9), ELSEWHERE, RepairPending("keys")),
        (RepairPending("keys"), RepairRetried(11), RepairRead("keys", 11)),
        *((repair, TRUNCATED, repair) for repair in (None, RepairPending("keys"), Repaired(3))),
        *((repair, KEPT, repair) for repair in (None, RepairPending("keys"), Repaired(3))),
        *((repair, CONFIRMED, repair) for repair in (None, RepairPending("keys"), Repaired(3))),
        *((repair, CROSSED, repair) for repair in (None, RepairPending("keys"), Repaired(3))),
        *(
            (repair, event, None)
            for event in (LOST, CHANGED, RereadAsked(9), REFUSED, DROPPED)
            for repair in (RepairPending("keys"), Repaired(3))
        ),
    ],
)
def test_a_repair(before: Repair | None, event: Event, after: Repair | None) -> None:
    assert advanced(state_of(READ, before), event).repair == after


@pytest.mark.parametrize(
    ("repair", "event"),
    [
        (RepairPending("keys"), RepairAsked("others", 9)),
        (RepairRead("keys", 3), RepairAsked("others", 9)),
        (None, RepairRetried(9)),
        (Repaired(3), RepairRetried(9)),
        (RepairRead("keys", 3), RepairRetried(9)),
    ],
)
def test_a_repair_in_no_state_for_it_is_refused(repair: Repair | None, event: Event) -> None:
    with refused():
        advance(state_of(READ, repair), event)


def test_a_comparison_takes_a_table_that_is_read_again_as_read() -> None:
    for phase in (AGAIN, Unconfirmed(NEXT, [5], [2]), PutBack(NEXT, [2], True), CaughtUp(NEXT, [2])):
        state = state_of(phase)
        assert state is not None
        assert with_all_keys(state) == replace(state, phase=Complete(NEXT))
    others: list[Phase] = [Waiting(), MIDDLE, MOVED, BACK, AT_END, READ, NO_SNAPSHOT, GONE, ASIDE]
    for other in others:
        state = state_of(other)
        assert state is not None
        assert with_all_keys(state) == state
