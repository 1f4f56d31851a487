"""Some keys of a table read again, beside the stream: when a request for that is taken up, and what becomes of it.

The keys that differ, and nothing else, is what a repair reads: no range of keys around them. A range has an order,
which only the server knows, and holds rows that are right; and the source cannot know which keys silver has too much
in it. A list of keys needs neither. What a batch emits for it is a function of the list and W alone: for each of the
keys its row as of W, or, where there is none, a `d` (see `reading.key_read`). A list is as long as the number of keys
that differ; beyond `model.key_repair.MOST_KEYS` the whole table is read again instead.

The list is stored, immutable, before anybody asks for it, and the offset of the batch that reads it names it, so a
replay reads the same keys at the same W. A request is honoured once, as one for a whole table is (see `requests`).
A read that meets DDL after W emits nothing; the next offset, which knows, owes the keys still, and a later one has
them read once more. That is all in the offset: the request's file is gone by then.

Keys mean what they did as long as the key's columns are what they were. Where they are not, the whole table is read
again. A request is void where the table is not followed any more, or has been read as a whole since.
"""

from __future__ import annotations

from collections.abc import Collection

from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.state_machine import advance, advanced
from lakehouse_cdc.model.table_events import RepairAsked, RepairRetried, RereadAsked
from lakehouse_cdc.model.table_state import RepairPending, TableState
from lakehouse_cdc.source.requests.requests import Signals
from lakehouse_cdc.source.state.state_store import SchemaStore


def taken_up(start: Offset, offset: Offset, signals: Signals, store: SchemaStore, *, near: bool) -> Offset:
    """`offset`, which follows `start`, with the keys to read that are asked for or owed, `near` the end of the log.

    A table that is just being read has to be complete first.
    """
    for name, (fingerprint, noted) in signals.repairs().items():
        state, before = offset.tables.get(name), start.tables.get(name)
        done = before is not None and noted == str(before.repaired)
        if state is None or not state.captured or done or (state.since or 0) != store.repair(fingerprint).since:
            signals.drop_repair(name)
        elif near and state.complete and not state.repair_asked and (before is None or before.complete):
            seq = offset.next_reading(state)
            same_key = _same_key(fingerprint, state, store)
            state = advanced(state, RepairAsked(fingerprint, seq) if same_key else RereadAsked(seq))
            signals.note_repair(name, fingerprint, str(state.repaired))
            offset = offset.with_table(name, state)
    for name, state in offset.captured.items():
        if near and isinstance(state.repair, RepairPending) and state.complete:
            seq = offset.next_reading(state)
            same_key = _same_key(state.repair.keys, state, store)
            offset = offset.with_table(name, advance(state, RepairRetried(seq) if same_key else RereadAsked(seq)))
    return offset


def _same_key(fingerprint: str, state: TableState, store: SchemaStore) -> bool:
    """Whether the keys of a repair still mean what they did."""
    then, now = store.get(store.repair(fingerprint).schema), store.get(state.schema)
    return then.key_columns == now.key_columns and bool(now.range_key)


def pending(noted: Collection[str], then: TableState, last: TableState) -> bool:
    """Whether a table whose state was `then` will be repaired: it is asked for, or was read after that.

    `noted` is what requests for it say; `last` is its newest state.
    """
    if any(seq not in (str(then.since), str(then.repaired)) for seq in noted):
        return True
    if (last.since, last.repaired) != (then.since, then.repaired) or last.repair_asked:
        return True
    return then.in_repeated_pass and not then.complete
