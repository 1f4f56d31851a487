"""Whose a table is, and whether it has the columns that it should: what is refused, whatever has read the table.

A table carries its pipeline in the property `lakehouse_cdc.pipeline` from its first commit on, so a table without it,
or with another's, belongs to somebody else, whatever its columns are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.lake.table_state import Columns
from lakehouse_cdc.model.table_layout import PIPELINE, Table

BUILT_AGAIN = "move it away to have it built again"


def owned(held: Mapping[str, str], table: Table, pipeline: str) -> Mapping[str, str]:
    """Of the properties that the table has, those that are meant: of a part, its own in the place of the table's.

    Raises DefiniteError unless the table is this pipeline's.
    """
    owner = held.get(PIPELINE)
    if owner != pipeline:
        raise codes.TABLE_FOREIGN.error(
            f"the table belongs to {'the pipeline ' + owner if owner else 'somebody else'}",
            where=str(table),
            hint="drop or move that table, or choose another schema under target",
        )
    if table.part is None:
        return held
    of_part = {name.partition("@")[0]: value for name, value in held.items() if name.partition("@")[2] == table.part}
    return {name: value for name, value in held.items() if "@" not in name} | of_part


def require_columns(
    table: Table, columns: Columns, actual: Sequence[tuple[str, str]], way_out: str = BUILT_AGAIN
) -> None:
    """Raise DefiniteError unless a table of this package's has just the columns that are declared for it.

    `way_out` is what to do with one that has others.
    """
    wanted = [(name, canonical(kind)) for name, kind in columns]
    if wanted != list(actual):
        odd = next(iter(sorted(set(wanted) ^ set(actual))), ("their order", ""))
        raise other_columns(table, odd, way_out)


def canonical(kind: str) -> str:
    """A type as Spark names it, of one as this package declares those of its own tables: in lower case, with spaces."""
    return kind.replace(" ", "")


def other_columns(table: Table, odd: tuple[str, str], way_out: str = BUILT_AGAIN) -> DefiniteError:
    """The error for a table whose columns are not the expected ones; `odd` is one of those that differ."""
    return codes.TABLE_COLUMNS_DIFFER.error(
        f"the table has other columns than expected: {' '.join(odd).strip()} differs",
        where=str(table),
        hint=f"the table was altered by hand or by another release; {way_out}",
    )
