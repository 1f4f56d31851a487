"""Offsets as Spark stores them: small, however many tables there are.

Spark writes the offset of every micro-batch, and some thousand tables would make each a quarter of a megabyte. Few of
them are being read at a time; the others are at rest, done or not begun. So the states of tables at rest are in a
file beside the checkpoint, named by its fingerprint, and the offset holds the fingerprint and the exceptions: tables
that are elsewhere, with their state, and tables that are no more, with null. A file is immutable and written before
the offset that names it, so an offset means the same at any replay.

A new file is written when the exceptions at rest outgrow a sixteenth of the old one. A table comes to rest once for
each time that it is read, so all files together hold a constant times what the last one holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.source.state.state_store import SchemaStore

_FEW = 16  # exceptions that are always carried in the offset itself
_PART = 16


def stored(offset: Offset, before: Mapping[str, Any], store: SchemaStore) -> dict[str, Any]:
    """The JSON of `offset`, small; `before` is the stored offset that it follows ({} where it is the first)."""
    data = offset.to_json()
    tables: dict[str, Any] = data["tables"]
    moving = {"moved_from", "repair"}
    resting = {n: state for n, state in tables.items() if not state["cursor"] and not moving & state.keys()}
    fingerprint = before.get("states")
    held = store.states(fingerprint) if fingerprint else {}
    differ = [name for name in held.keys() | resting.keys() if held.get(name) != tables.get(name)]
    if len(differ) > max(_FEW, len(held) // _PART):
        fingerprint, held = store.put_states(resting), resting
    if not fingerprint:
        return data
    changed = {name: state for name, state in tables.items() if held.get(name) != state}
    gone = dict.fromkeys(held.keys() - tables.keys())
    return {**data, "tables": {**changed, **gone}, "states": fingerprint}


def restored(data: Mapping[str, Any], store: SchemaStore) -> Offset | None:
    """The offset of which `data` was stored; None for `{}`.

    Raises DefiniteError where its file of states is gone, or another release has written it.
    """
    fingerprint = data.get("states")
    if not fingerprint:
        return Offset.from_json(data)
    tables = {**store.states(fingerprint), **data["tables"]}
    return Offset.from_json({**data, "tables": {name: state for name, state in tables.items() if state is not None}})
