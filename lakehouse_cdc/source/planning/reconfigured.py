"""Tables that the configuration treats otherwise than before: altered by us, as by an ALTER of the source.

The configuration speaks of columns by the names that they have at the end of the log. What it hides, it hides at once:
at the position of the offset that the stream continues from, one turn further (`Offset.next_turn`), with nothing of the
log in between. So no row is written any more under settings that the user has taken back. What it shows, that was
hidden, is shown where the end of the log is reached, for a column may have got another name on the way, and be hidden
by that. Until then the offset names the earlier configurations (`Offset.settings`).

All that was emitted has the old schema, and all that comes the new one. Silver follows as at any change of the schema,
and the rows are read again where values are not kept. A table that is not selected any more is left as one that was
dropped: what was emitted stays.

Reads of the batch before may not be confirmed yet, and what confirms them is in the log after this position. Such
tables are put back as if DDL had crossed their reads: their last chunks are read once more.

Guards: tests/source/test_reconfigured.py.
"""

from __future__ import annotations

from dataclasses import replace

from lakehouse_cdc.model.ddl_effect import Effect
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.table_state import TableState
from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.schema.types import check_table
from lakehouse_cdc.source.ddl.transitions import followed, with_cursors_put_back
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.state.planned_configuration import digest
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.source.state.table_settings import TableSettings, changed


def under(start: Offset, options: SourceOptions, store: SchemaStore, planned_under: str | None) -> Offset | None:
    """`start`, planned under the configuration with that digest, as what another one continues from.

    None where an earlier release planned it, and did not say under which settings.
    """
    if planned_under is None or store.settings(planned_under) is None:
        return None
    if planned_under == digest(options):
        return start
    return replace(start, settings=tuple(dict.fromkeys([*start.settings, planned_under])))


def changes(
    offset: Offset, options: SourceOptions, store: SchemaStore, *, at_the_tip: bool = True
) -> dict[str, SchemaChange]:
    """What becomes of each table of `offset` that is configured otherwise than under `Offset.settings`.

    Of a table that is not selected any more it is a change that leaves it. Raises DefiniteError for what cannot be.
    """
    before = [TableSettings.from_json(text) for one in offset.settings if (text := store.settings(one)) is not None]
    selection, now = Selection(options.tables), TableSettings.of(options)
    made = {}
    for name, state in sorted(offset.captured.items()):
        if not state.published:
            continue  # it begins as it is configured
        schema = store.get(state.schema)
        if not selection.matches(name):
            made[name] = SchemaChange.leaving(None, schema)
        elif (change := changed(schema, before, now, showing=at_the_tip)) is not None:
            check_table(change.schema)
            made[name] = change
    return made


def hidden(start: Offset, options: SourceOptions, store: SchemaStore) -> Offset | None:
    """The end of a batch that begins at `start` and does nothing but what cannot wait; None where that is nothing."""
    made = changes(start, options, store, at_the_tip=False)
    if not made:
        return None

    def keyless(state: TableState) -> bool:
        return not store.get(state.schema).range_key

    unconfirmed = {name for name, state in start.tables.items() if state.unconfirmed}
    offset = with_cursors_put_back(start.next_turn(), (), keyless, made.keys() | unconfirmed)
    return _altered(offset, made, options, store)


def shown(start: Offset, offset: Offset, options: SourceOptions, store: SchemaStore) -> Offset:
    """`offset`, at the end of the log, in the batch that begins at `start`, with all tables as they are configured."""
    if not offset.settings or offset.ddl:
        return offset
    made = changes(offset, options, store)
    if made and offset.position == start.position:
        offset = offset.next_turn()
    return replace(_altered(offset, made, options, store), settings=())


def _altered(offset: Offset, made: dict[str, SchemaChange], options: SourceOptions, store: SchemaStore) -> Offset:
    effects = tuple(Effect("alter" if c.after else "drop", name, store.put_change(c)) for name, c in made.items())
    return followed(offset, effects, store.change, never=options.snapshot == "never")
