"""The tables that match, as the server has them now, and the states that they begin with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.offset import TableState
from lakehouse_cdc.mysql import catalog
from lakehouse_cdc.mysql.keys import KeySpace
from lakehouse_cdc.mysql.session import Session
from lakehouse_cdc.schema.carry import carry
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.types import check_table
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.schemas import SchemaStore


class Tables:
    """The tables of one stream."""

    def __init__(self, options: SourceOptions, selection: Selection, store: SchemaStore) -> None:
        self._options, self._store = options, store
        self.selection = selection

    def read(self, session: Session) -> Mapping[str, TableSchema]:
        """Their schemas. Raises DefiniteError for a type that cannot be carried."""
        found = catalog.read_tables(session, self.selection, self._options.exclude)
        tables = {name: carry(schema, self._options.rules) for name, schema in found.items()}
        for schema in tables.values():
            check_table(schema)
        return tables

    def unstarted(self, schema: TableSchema) -> TableState:
        """The state of a table of which nothing has been read."""
        never = self._options.snapshot == "never"
        return TableState(self._store.put(schema), done=never, mode="never" if never else "first")


def wait_for_ddl(session: Session, tables: Iterable[TableSchema]) -> None:
    """Return when DDL that is under way has ended, and is in the binlog: it keeps everybody from the table."""
    for schema in tables:
        with suppress(DefiniteError):  # it may be gone by then
            session.query(f"SELECT 1 FROM {KeySpace(schema).table} LIMIT 0")
