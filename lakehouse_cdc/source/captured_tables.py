"""The tables that match, as the server has them now, and the states that they begin with."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from lakehouse_cdc.errors import ConfigError, DefiniteError, codes
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.table_events import TableDiscovered, TableRefused
from lakehouse_cdc.model.table_state import TableState
from lakehouse_cdc.mysql import catalog
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.key_range import place
from lakehouse_cdc.schema import types
from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.schema.column_choice import left_out, require_masks, require_same_choice
from lakehouse_cdc.schema.declared_key import with_key
from lakehouse_cdc.schema.representation import carried_by, carry, carry_on
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.types import check_table
from lakehouse_cdc.schema.unique_key import is_unique_key, keyed_by_unique
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.state.state_store import SchemaStore

_log = logging.getLogger(__name__)


class Tables:
    """The tables of one stream."""

    def __init__(self, options: SourceOptions, selection: Selection, store: SchemaStore) -> None:
        self.options, self._store = options, store
        self.selection = selection

    def matching(
        self, session: Session, *, known: Collection[str] = (), renamed: bool = False
    ) -> tuple[Mapping[str, TableSchema], Mapping[str, DefiniteError]]:
        """Their schemas, and why some of them cannot be captured. Tables in `known` may be gone.

        `renamed`: columns that the configuration names may have other names by now. Raises DefiniteError for what is
        wrong with the configuration.
        """
        there = catalog.read_catalog(session, self.selection, self.options.choice, known=known)
        faults: dict[str, DefiniteError] = {}
        for fault in there.faults:
            if fault.where not in there.tables:
                if renamed and fault.code is codes.COLUMN_CHOICE_UNMATCHED:
                    continue
                raise fault
            faults.setdefault(fault.where, fault)
        tables = dict(there.tables)
        for name, schema in there.tables.items():
            try:
                tables[name] = with_key(schema, self.options.keys)
            except ConfigError as error:  # noqa: PERF203
                faults.setdefault(name, error)
        carried = carried_by if renamed else carry
        tables = {name: carried(schema, self.options.rules) for name, schema in tables.items()}
        for name, schema in tables.items():
            for fault in types.faults(schema):
                faults.setdefault(name, fault)
        return tables, faults

    def now(self, session: Session, name: str, *, masking: TableSchema | None = None) -> TableSchema:
        """One table as the catalog has it, columns chosen and masked by their names; nothing else is configured.

        `masking` says which columns are masked beside those that the user names: they had other names once. Raises
        DefiniteError where the table is gone, or cannot be captured.
        """
        choice = self.options.choice if masking is None else self.options.choice.masking(masking)
        visible = catalog.read_catalog(session, self.selection, choice)
        for fault in visible.faults:
            if fault.where == name:
                raise fault
        if (why := visible.uncaptured.all.get(name)) is not None:
            raise codes.TABLE_UNSUPPORTED.error(
                f"{name} {why}", where=name, hint=f'leave it out ("!{name}" under source.tables)'
            )
        if name not in visible.tables:
            raise codes.TABLE_GONE.error(
                "the table is gone", where=name, hint=f'leave it out ("!{name}" under source.tables)'
            )
        return visible.tables[name]

    def fresh(self, session: Session, name: str) -> TableSchema:
        """One table as the catalog has it, with the user's choices. Raises DefiniteError as `now`, and `configured`."""
        schema = carry(with_key(self.now(session, name), self.options.keys), self.options.rules)
        check_table(schema)
        return schema

    def configured(self, schema: TableSchema, before: TableSchema, origin: Mapping[str, str]) -> TableSchema:
        """What a DDL made of `before`, with the user's choices; `origin` has the old names of columns that there were.

        Raises DefiniteError for a type or a key that cannot be carried.
        """
        # a column that was included stays so under another name
        everything = replace(schema, columns=tuple(replace(c, captured=True) for c in schema.columns))
        keyed = with_key(self.options.choice.chosen(everything, origin), self.options.keys)
        carried = carry_on(keyed, before, origin, self.options.rules)
        if is_unique_key(carried) and not keyed_by_unique(carried.declared).key:
            # one of its columns is hidden since it was, under another name
            carried = carry_on(keyed.declared, before, origin, self.options.rules)
        check_table(carried)
        if left_out(carried).keys() - left_out(before).keys():
            _notice(carried)
        return carried

    def require_same_choice(self, known: Mapping[str, TableState], now: Mapping[str, TableSchema]) -> None:
        """Raise DefiniteError where a table of `now` is configured otherwise than it was."""
        for name in known.keys() & now.keys():
            require_same_choice(self._store.get(known[name].schema), now[name])

    def same_choice(self, known: Mapping[str, TableState], now: Mapping[str, TableSchema]) -> set[str]:
        """The tables of `known` that are not configured otherwise now, or are gone."""
        same = set(known)
        for name in known.keys() & now.keys():
            try:
                require_same_choice(self._store.get(known[name].schema), now[name])
            except DefiniteError:  # noqa: PERF203
                same.discard(name)
        return same

    def require_masks(self, known: Mapping[str, TableState], now: Mapping[str, TableState]) -> None:
        """Raise DefiniteError where a masked column may have got another name unseen, in a gap of the log."""
        for name in known.keys() & now.keys():
            before, after = (self._store.get(states[name].schema) for states in (known, now))
            require_masks(before, after, SchemaChange.by_names(None, before, after).origin)

    def lost_mask(self, before: TableState | None, now: TableSchema) -> DefiniteError | None:
        """Why a table is not to be captured by itself where one of its name, of which bronze has rows, has gone."""
        if before is None or not before.published:
            return None
        schema = self._store.get(before.schema)
        try:
            require_masks(schema, now, SchemaChange.by_names(None, schema, now).origin)
        except DefiniteError as fault:
            return fault
        return None

    def refused(self, schema: TableSchema, reason: str) -> TableRefused:
        """The event that a table cannot be captured; its schema is stored."""
        return TableRefused(reason, self._store.put(schema))

    def captured_at(self, schema: TableSchema, *, seq: int, floor: Position | None = None) -> TableDiscovered:
        """The event that a table is to be captured; its schema is stored."""
        _notice(schema)
        return TableDiscovered(self._store.put(schema), self.options.snapshot != "never", seq, floor)


def _notice(schema: TableSchema) -> None:
    if columns := left_out(schema):
        _log.warning(
            "%s: %s; left out", schema.name, "; ".join(f"column {name} {why}" for name, why in columns.items())
        )


def wait_for_ddl(session: Session, tables: Iterable[TableSchema]) -> None:
    """Return when DDL that is under way has ended, and is in the binlog: it keeps everybody from the table."""
    for schema in tables:
        with suppress(DefiniteError):  # it may be gone by then
            session.query(f"SELECT 1 FROM {place(schema)} LIMIT 0")
