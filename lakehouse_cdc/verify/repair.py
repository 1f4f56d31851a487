"""From what differs to a request that has it read again: by its keys, where the source can look for each of them.

A key that only silver has, perhaps by somebody's hand, need not be one that the source could hold: no key at all
(NULL), a label that its SET does not have, a TIME that is none. It cannot be asked for, so then the whole table is read
again, as where too many keys differ, where silver is frozen and its keys are not those of the source, or where these
are the user's word (no index finds them).
"""

from __future__ import annotations

from collections.abc import Sequence

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.key_repair import Key, Repair
from lakehouse_cdc.model.table_state import TableState
from lakehouse_cdc.mysql.key_range import KeySpace
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.source.state.state_store import SchemaStore


def stored(store: SchemaStore, state: TableState, table: str, keys: Sequence[Key] | None) -> str | None:
    """The name of the repair of a table, whose keys were found at `state`; None: it has to be read as a whole."""
    repair = None if keys is None else repair_of(store, state, table, keys)
    return None if repair is None else store.put_repair(repair)


def repair_of(store: SchemaStore, state: TableState, table: str, keys: Sequence[Key]) -> Repair | None:
    """The repair of these keys, or None where the source cannot look for each of them."""
    schema = store.get(state.schema)
    if not schema.range_key or not all(_can_be(schema, key) for key in keys):
        return None
    return Repair.of(table, schema.id, state.since or 0, keys)


def _can_be(schema: TableSchema, key: Key) -> bool:
    space = KeySpace(schema)
    try:
        list(space.among([space.cursor(key)]))
    except (DefiniteError, ValueError):
        return False
    return True
