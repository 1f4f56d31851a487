"""How the state of a table is stored in an offset of version 1: twelve fields, of which only those that matter.

`cursor`, `done`, `mode` (`first`, `again`, `never`), `since`, `moved_from`, `passed`, `dropped` and `quarantined` are
the phase: each phase is one combination of them, and any other combination is refused, so what is read is written again
byte for byte. `floor`, `repair` and `repaired` are independent of it. A seq is text: it has more digits than a JSON
number keeps. Guard: tests/model/test_offset_json.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.table_state import (
    Absent,
    CaughtUp,
    Complete,
    Cursor,
    Dropped,
    FirstPass,
    Pass,
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
)

_ORDER = (
    "schema", "cursor", "done", "mode", "since", "floor", "moved_from", "passed", "dropped", "quarantined", "repair",
    "repaired",
)  # fmt: skip


def to_json(state: TableState) -> dict[str, Any]:
    """Plain data, in the order in which it is stored."""
    data: dict[str, Any] = {"schema": state.schema, "cursor": [], "done": False, **_of_phase(state.phase)}
    if state.floor is not None:
        data["floor"] = [state.floor.file, state.floor.pos]
    match state.repair:
        case RepairPending(keys):
            data["repair"] = keys
        case RepairRead(keys, seq):
            data |= {"repair": keys, "repaired": str(seq)}
        case Repaired(seq):
            data["repaired"] = str(seq)
    return {name: data[name] for name in _ORDER if name in data}


def from_json(data: Mapping[str, Any]) -> TableState:
    """The inverse of `to_json`. Raises DefiniteError for what it never makes."""
    floor = data.get("floor")
    state = TableState(data["schema"], _phase(data), Position(*floor) if floor else None, _repair(data))
    if to_json(state) != {name: data[name] for name in _ORDER if name in data}:
        raise codes.TABLE_STATE_UNREADABLE.error(
            f"the checkpoint holds a state of a table that no release writes: {dict(data)}"
        )
    return state


# ---------------------------------------------------------------------- writing


def _of_phase(phase: Phase) -> dict[str, Any]:
    """The fields of a phase that differ from the default."""
    match phase:
        case Waiting() | Absent():
            return {}
        case Reading(in_pass, cursor):
            return {"cursor": cursor, **_of_pass(in_pass)}
        case Unconfirmed(in_pass, cursor, moved_from):
            return {"cursor": cursor, "moved_from": moved_from, **_of_pass(in_pass)}
        case PutBack(in_pass, cursor, passed):
            return {"cursor": cursor, "passed": passed, **_of_pass(in_pass)}
        case CaughtUp(in_pass, moved_from):
            return {"done": True, "moved_from": moved_from, **_of_pass(in_pass)}
        case Complete(in_pass):
            return {"done": True, **_of_pass(in_pass)}
        case Streaming(earlier):
            return {"done": True, "mode": "never", **_of_seq(earlier)}
        case Dropped(since):
            return {"done": True, "dropped": True, **_of_seq(since)}
        case Quarantined(reason, published, since):
            return {"done": published, "quarantined": reason, **_of_seq(since)}


def _of_pass(in_pass: Pass) -> dict[str, Any]:
    if isinstance(in_pass, RepeatedPass):
        return {"mode": "again", "since": str(in_pass.since)}
    return _of_seq(in_pass.earlier)


def _of_seq(seq: int | None) -> dict[str, Any]:
    return {} if seq is None else {"since": str(seq)}


# ---------------------------------------------------------------------- reading


def _phase(data: Mapping[str, Any]) -> Phase:
    """The phase, be it a wrong one where the fields do not go together."""
    since = int(data["since"]) if "since" in data else None
    if data.get("dropped"):
        return Dropped(since)
    if reason := data.get("quarantined"):
        return Quarantined(reason, data["done"], since)
    if data.get("mode") == "never":
        return Streaming(since)
    in_pass: Pass = FirstPass(since)
    if data.get("mode") == "again" and since is not None:
        in_pass = RepeatedPass(since)
    return _phase_of_pass(data, in_pass, list(data["cursor"]))


def _phase_of_pass(data: Mapping[str, Any], in_pass: Pass, cursor: Cursor) -> Phase:
    if "moved_from" in data:
        moved_from = data["moved_from"]
        return CaughtUp(in_pass, moved_from) if data["done"] else Unconfirmed(in_pass, cursor, moved_from)
    if "passed" in data:
        return PutBack(in_pass, cursor, data["passed"])
    if data["done"]:
        return Complete(in_pass)
    return Waiting() if in_pass == FirstPass() and not cursor else Reading(in_pass, cursor)


def _repair(data: Mapping[str, Any]) -> Repair | None:
    seq = int(data["repaired"]) if "repaired" in data else None
    if keys := data.get("repair"):
        return RepairPending(keys) if seq is None else RepairRead(keys, seq)
    return None if seq is None else Repaired(seq)
