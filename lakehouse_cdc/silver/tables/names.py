"""Which source table a silver table is of, where the names of several meet.

With the default `silver_name`, `a.t` and `b.t` would both be the silver table `t`, and a catalog does not tell `t` from
`T`. A silver table is of the source table whose rows came first, which it says in a property from its first commit on;
within one batch the first by name comes first. The others have no silver table: their rows are in bronze alone, until
each is given a name of its own (`tables.<pattern>.silver_name`).

The choice is the same whenever a batch is repeated: tables that share names are written one after the other, and where
one fails, those after it wait for the repetition (see `apply.applier`). Guarded by tests/silver/test_names.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lakehouse_cdc.errors import TableError, codes
from lakehouse_cdc.lake.ownership import owned
from lakehouse_cdc.model.own_columns import DEFAULT, OwnColumns
from lakehouse_cdc.model.table_layout import Layout, Table
from lakehouse_cdc.model.table_name import pattern_of
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.definition.policy import Policy

if TYPE_CHECKING:
    from lakehouse_cdc.lake.readers.port import TableReader

SOURCE = "lakehouse_cdc.source_table"
PREFIX = "lakehouse_cdc.metadata_prefix"  # of the columns that silver adds; absent in tables of earlier releases
SEVERAL = "*"  # the source table of a silver table that several go into


def mark_of(table: Table, name: str) -> str:
    """What the silver table of `name` says of its source table."""
    return name if table.part is None else SEVERAL


def require_own(reader: TableReader, layout: Layout, table: Table, name: str) -> Mapping[str, str]:
    """The properties of a table, which is there: the silver table of the source table `name`, or its tombstones.

    Raises TableError where it is another source table's, DefiniteError where it is not this pipeline's.
    """
    mark = name if table == layout.tombstones(name) else mark_of(table, name)
    properties = owned(reader.properties(table), table, layout.pipeline)
    if properties.get(SOURCE) != mark:
        raise _taken(table, name, properties.get(SOURCE))
    return properties


def own_table(reader: TableReader, layout: Layout, name: str) -> Table | None:
    """The silver table of the source table `name`, None where there is none, or it is another source table's.

    Its own columns are those that it was made with. Raises DefiniteError where it is not this pipeline's.
    """
    table = layout.silver_table(name)
    properties = _properties(reader, layout, table)
    if properties.get(SOURCE) != mark_of(table, name):
        return None
    return replace(table, own=OwnColumns(properties.get(PREFIX, DEFAULT.prefix)))


def known_source_tables(reader: TableReader, layout: Layout) -> set[str]:
    """The source tables that bronze, which must be there, has met."""
    return {row["source_table"] for row in reader.rows(layout.schemas, ["source_table"])}


class SilverNames:
    """The silver tables of one pipeline, by source table, and who goes without.

    `source_tables` are all that the pipeline has met, and `policy` is what is configured for each.
    """

    def __init__(
        self,
        layout: Layout,
        source_tables: Iterable[str] = (),
        policy: Callable[[str], Policy] = lambda _: Policy(),
    ) -> None:
        self._layout, self._policy = layout, policy
        self._met: frozenset[str] = frozenset()
        self._groups: Mapping[str, tuple[str, ...]] = {}
        self.add(source_tables)

    def add(self, source_tables: Iterable[str]) -> None:
        """Source tables that the pipeline meets."""
        if not self._met.issuperset(met := frozenset(source_tables)):
            self._met |= met
            self._groups = self._layout.sharing_names(self._met)

    def turns(self, source_tables: Iterable[str]) -> list[list[str]]:
        """These tables in lists: those of one list share names, and are to be written one after the other."""
        lists: dict[tuple[str, ...], list[str]] = {}
        for name in sorted(source_tables):
            lists.setdefault(self._groups.get(name, (name,)), []).append(name)
        return list(lists.values())

    def taken(self, reader: TableReader, name: str) -> TableError | None:
        """Why `name` can have no silver table: another source table's, or the ledger, has its name."""
        layout, table = self._layout, self._layout.silver_table(name)
        names = layout.silver_names_of(name)
        if layout.takes_ledger(name):
            return _taken(layout.ledger, name, None)
        if name not in self._groups or own_table(reader, layout, name) is not None:
            return None
        others = {layout.silver_table(other) for other in self._groups[name] if names & layout.silver_names_of(other)}
        for other in sorted(others, key=str):
            source = _properties(reader, layout, other).get(SOURCE)
            if source not in (None, mark_of(table, name), name):
                return _taken(other, name, source)
        return None

    def without(self, reader: TableReader, schemas: Sequence[TableSchema]) -> TableError | None:
        """Why the rows of a table are in bronze alone, where it has no silver table; None if it can have one.

        `schemas` are all that bronze has met of it, in order, at least one.
        """
        name = schemas[-1].name
        return self.taken(reader, name) or self._policy(name).refusal(schemas, self._layout.silver_table(name))


def _properties(reader: TableReader, layout: Layout, table: Table) -> Mapping[str, str]:
    return owned(reader.properties(table), table, layout.pipeline) if reader.exists(table) else {}


def _taken(table: Table, name: str, source: str | None) -> TableError:
    whose = "the ledger" if source is None else "one of several tables" if source == SEVERAL else f"that of {source}"
    return codes.SILVER_NAME_AMBIGUOUS.error(
        f"the silver table {table.name} is {whose}, so {name} has none",
        where=name,
        hint=f'set silver_name for it under tables: "{pattern_of(name)}": '
        f'{{silver_name: "{{database}}__{{table}}"}}, and run again',
        table=name,
    )
