"""Offsets as Spark stores them: small, however many tables there are.

Spark writes the offset of every micro-batch, and some thousand tables would make each a quarter of a megabyte. Few of
them are being read at a time; the others are at rest, done or not begun. So the states of tables at rest are in a
file beside the checkpoint, named by its fingerprint, and the offset holds the fingerprint and the exceptions: tables
that are elsewhere, with their state, and tables that are no more, with null. A file is immutable and written before
the offset that names it, so an offset means the same at any replay.

The ends of the stretches that a batch consists of are in a file, too, each with the tables that are another than at the
end after it. Such an offset has a version of its own, since a release that does not know of them would miss rows.

A new file is written when the exceptions at rest outgrow a sixteenth of the old one. A table comes to rest once for
each time that it is read, so all files together hold a constant times what the last one holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from lakehouse_cdc.model.offset import OF_STRETCHES, Offset
from lakehouse_cdc.source.state.state_store import SchemaStore

_FEW = 16  # exceptions that are always carried in the offset itself
_PART = 16


def stored(offset: Offset, before: Mapping[str, Any], store: SchemaStore) -> dict[str, Any]:
    """The JSON of `offset`, small; `before` is the stored offset that it follows ({} where it is the first)."""
    data = offset.to_json()
    tables: dict[str, Any] = data["tables"]
    if offset.between:
        data |= {"version": OF_STRETCHES, "between": store.put_between(_differing(offset))}
    moving = {"moved_from", "repair"}
    resting = {n: state for n, state in tables.items() if not state["cursor"] and not moving & state.keys()}
    fingerprint = before.get("states")
    held = store.states(fingerprint) if fingerprint else {}
    differ = [name for name in held.keys() | resting.keys() if held.get(name) != tables.get(name)]
    if len(differ) > max(_FEW, len(held) // _PART):
        fingerprint, held = store.put_states(resting), resting
    if not fingerprint:
        return data
    return {**data, "tables": _exceptions(tables, held), "states": fingerprint}


def restored(data: Mapping[str, Any], store: SchemaStore) -> Offset | None:
    """The offset of which `data` was stored; None for `{}`.

    Raises DefiniteError where a file that it names is gone, or a later release has written it.
    """
    if fingerprint := data.get("states"):
        data = {**data, "tables": _applied(store.states(fingerprint), data["tables"])}
    offset = Offset.from_json(data)
    if offset is None or not (between := data.get("between")):
        return offset
    ends: list[Offset] = []
    tables = data["tables"]
    for end in reversed(store.between(between)):
        tables = _applied(tables, end["tables"])
        one = Offset.from_json({**end, "tables": tables})
        assert one is not None
        ends.insert(0, one)
    return replace(offset, between=tuple(ends))


def _differing(offset: Offset) -> list[dict[str, Any]]:
    """The ends in `between`, each with the tables of which the state is another than at the end after it."""
    every = [end.to_json() for end in (*offset.between, offset)]
    return [{**end, "tables": _exceptions(end["tables"], after["tables"])} for end, after in pairwise(every)]


def _exceptions(tables: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """What `tables` are other than `known` ones: their states, and null for tables that are no more."""
    changed = {name: state for name, state in tables.items() if known.get(name) != state}
    return {**changed, **dict.fromkeys(known.keys() - tables.keys())}


def _applied(known: Mapping[str, Any], exceptions: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `_exceptions`."""
    return {name: state for name, state in {**known, **exceptions}.items() if state is not None}
