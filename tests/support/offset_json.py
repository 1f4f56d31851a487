"""Stored offsets of version 1 at random, as JSON: every shape in which a stream writes one."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

SEQS = st.integers(1, 10**37).map(str)
_KEYS = st.lists(
    st.none() | st.integers(-(2**63), 2**64) | st.text(max_size=5) | st.floats(-9, 9), min_size=1, max_size=2
)
_FILES = st.integers(1, 999_999).map(lambda n: f"binlog.{n:06}")
_POSITIONS = st.tuples(_FILES, st.integers(4, 2**40)).map(list)
_WORDS = st.text("abc-019:,", max_size=12)


# the order in which they are written
_FIELDS = (
    "schema", "cursor", "done", "mode", "since", "floor", "moved_from", "passed", "dropped", "quarantined", "repair",
    "repaired",
)  # fmt: skip


def _shape(cursor: st.SearchStrategy[Any], done: st.SearchStrategy[bool], **more: Any) -> st.SearchStrategy[Json]:
    """States with these fields."""
    schema = st.sampled_from(["a" * 16, "b" * 16])
    return st.fixed_dictionaries({"schema": schema, "cursor": cursor, "done": done, **more}).map(_in_order)


def _in_order(state: Json) -> Json:
    return {name: state[name] for name in _FIELDS if name in state}


def _from_floor(state: Json, floor: Any) -> Json:
    return state if floor is None else _in_order({**state, "floor": floor})


_NONE: st.SearchStrategy[list[Any]] = st.just([])
_DONE, _UNFINISHED = st.just(True), st.just(False)
_AGAIN = {"mode": st.just("again"), "since": SEQS}
_BEFORE: list[dict[str, Any]] = [{}, {"since": SEQS}]  # a table of that name that there was before
_REPAIR = st.sampled_from(["c" * 16, "d" * 16])
_REPAIRS: list[dict[str, Any]] = [{}, {"repair": _REPAIR}, {"repair": _REPAIR, "repaired": SEQS}, {"repaired": SEQS}]
_WAITING = [_shape(_NONE, _UNFINISHED)]
_READING = [
    shape
    for reading, cursor in (({}, _KEYS), (_AGAIN, _NONE | _KEYS))
    for shape in (
        _shape(cursor, _UNFINISHED, **reading),
        _shape(_KEYS, _UNFINISHED, **reading, moved_from=_NONE | _KEYS),
        _shape(_NONE | _KEYS, _UNFINISHED, **reading, passed=_KEYS | st.just(True)),
        _shape(_NONE, _DONE, **reading, moved_from=_NONE | _KEYS),
    )
]
_READ = [
    _shape(_NONE, _DONE, **reading, **repair)
    for reading in (_AGAIN, *_BEFORE, *({"mode": st.just("never"), **before} for before in _BEFORE))
    for repair in _REPAIRS
]
_LEFT = [
    shape
    for before in _BEFORE
    for shape in (
        _shape(_NONE, _DONE, **before, dropped=_DONE),
        _shape(_NONE, st.booleans(), **before, quarantined=st.text(min_size=1, max_size=9)),
    )
]
_CAPTURED = st.one_of(*_WAITING, *_READING, *_READ)

STATES: st.SearchStrategy[Json] = st.builds(_from_floor, _CAPTURED, st.none() | _POSITIONS) | st.one_of(*_LEFT)

_PREPARED = st.one_of(
    st.tuples(_WORDS, _FILES, st.just(4), st.just(90), st.integers(0, 9)).map(list),
    st.tuples(_WORDS, _FILES, st.just(4), st.just(90), st.integers(0, 9), _FILES, st.just(200)).map(list),
    st.tuples(
        _WORDS, _FILES, st.just(4), st.just(90), st.integers(0, 9), st.none(), st.none(), st.lists(_WORDS, max_size=2)
    ).map(list),
)
_KINDS = st.sampled_from(["create", "truncate", "again", "alter", "drop", "quarantine"])
_EFFECTS = st.tuples(_KINDS, _WORDS).map(list) | st.tuples(_KINDS, _WORDS, _REPAIR).map(list)
_STARTS = st.tuples(_POSITIONS, _WORDS, st.dictionaries(_WORDS, st.just("") | _REPAIR, min_size=1, max_size=2))


@st.composite
def offsets(draw: st.DrawFn) -> Json:
    """One offset, its keys in the order in which they are written."""
    data: Json = {"version": 1, "epoch": draw(st.integers(1, 99)), "server_uuid": draw(_WORDS)}
    data["created"] = draw(st.integers(0, 2**32))
    data["file"], data["pos"] = draw(_POSITIONS)
    data |= {"gtid": draw(_WORDS), "last_gtid": draw(_WORDS), "commit_ts": draw(st.integers(0, 2**52))}
    if draw(st.booleans()):
        data["bounds"] = [draw(st.integers(0, 2**52)), draw(st.integers(1, 2**52))]
    data["floor"] = draw(_POSITIONS)
    data["tables"] = dict(sorted(draw(st.dictionaries(_WORDS, STATES, max_size=4)).items()))
    if prepared := draw(st.lists(_PREPARED, max_size=2)):
        data["prepared"] = prepared
    if effects := draw(st.lists(_EFFECTS, max_size=2)):
        data["ddl"] = effects
    if draw(st.booleans()):
        data["references"] = draw(_REPAIR)
    if draw(st.booleans()):
        data["texts"] = [draw(st.integers(0, 9)), draw(st.integers(1, 9))]
    if draw(st.booleans()):
        data["unbroken"] = draw(st.integers(1, 99))
    if draw(st.booleans()):
        data["anonymous"] = True
    if starts := draw(st.lists(_STARTS, max_size=2)):
        data["starts"] = [[*position, gtids, dict(sorted(tables.items()))] for position, gtids, tables in starts]
    return data
