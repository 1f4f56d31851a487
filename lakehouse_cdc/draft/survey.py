"""What of a live source can be captured, and what must be left out for which reason.

The judge is the same as at the first run, the catalog's faults, those of the types and silver's names, so what is
written here is what a run accepts. A table is not given up for the sake of a column: where leaving one out takes a
fault away, the column is excluded instead. That is tried column by column, with the judge itself, so no text of a fault
is interpreted; the key's columns are never tried, since without them there is no table. A table that no such exclusion
helps is left out. Nothing goes without being named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.own_columns import DEFAULT
from lakehouse_cdc.model.table_name import pattern_of
from lakehouse_cdc.mysql.catalog import Catalog, read_catalog
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.estimates import Estimate, estimates
from lakehouse_cdc.schema import types
from lakehouse_cdc.schema.column_choice import Choice
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.schema.table import TableSchema

_OF_SILVER = frozenset(name.lower() for name in DEFAULT.all_forms)


@dataclass(frozen=True)
class Survey:
    """The tables that can be captured, by `database.table`, and what cannot.

    `excluded` has the columns left out of a table (table -> column -> reason), `left_out` the tables (table -> reason).
    `sizes` are the server's estimates, of all tables or, where it was not asked, none.
    """

    tables: Mapping[str, TableSchema]
    excluded: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, Estimate] = field(default_factory=dict)

    def without(self, reasons: Mapping[str, str]) -> Survey:
        """The same with more tables left out, for these reasons."""
        return Survey(
            {name: table for name, table in self.tables.items() if name not in reasons},
            {name: columns for name, columns in self.excluded.items() if name not in reasons},
            {**self.left_out, **reasons},
            self.sizes,
        )

    def require_some(self) -> None:
        """Raise DefiniteError if no table is left."""
        if not self.tables:
            first = next(iter(self.left_out.values()), "nothing matches")
            raise codes.SELECTION_UNMATCHED.error(
                f"no table can be captured: {first}", where="--tables", hint="choose other tables"
            )


def survey(session: Session, patterns: Sequence[str]) -> Survey:
    """Look at the tables that match. Raises DefiniteError where a pattern matches none, as `doctor` reports it."""
    catalog = read_catalog(session, Selection(patterns), Choice(generated="fail"))  # to be excluded by name
    for fault in catalog.faults:
        if fault.where not in catalog.tables:
            raise fault
    excluded: dict[str, Mapping[str, str]] = {}
    left_out = {name: f"{name} {why}" for name, why in catalog.uncaptured.tables.items()}
    for name, schema in catalog.tables.items():
        faults = _faults(catalog, schema)
        columns, remaining = _without_columns(session, schema, faults)
        if remaining:
            left_out[name] = "; ".join(remaining)
        elif columns:
            excluded[name] = columns
    sizes = estimates(session)
    return Survey(
        catalog.tables, excluded, sizes={name: sizes.get(name, Estimate()) for name in catalog.tables}
    ).without(left_out)


def _faults(catalog: Catalog, schema: TableSchema) -> list[str]:
    """All that forbids to capture a table."""
    of_catalog = [fault.what for fault in catalog.faults if fault.where == schema.name]
    of_silver = [
        f"column {column.name} of {schema.name} has the name of one that silver adds"
        for column in schema.captured
        if column.name.lower() in _OF_SILVER
    ]
    return [*of_catalog, *(fault.what for fault in types.faults(schema)), *of_silver]


def _without_columns(session: Session, schema: TableSchema, faults: list[str]) -> tuple[dict[str, str], list[str]]:
    """The columns whose absence takes faults away, each with the first of them, and the faults that stay."""
    excluded: dict[str, str] = {}
    for column in schema.columns if faults else ():
        if column.name in schema.key:
            continue
        name = pattern_of(schema.name)
        fewer = read_catalog(session, Selection([name]), Choice({name: [*excluded, column.name]}, generated="fail"))
        left = _faults(fewer, fewer.tables[schema.name]) if schema.name in fewer.tables else faults
        if gone := [fault for fault in faults if fault not in left]:
            excluded[column.name], faults = gone[0], left
    return excluded, faults
