"""What the ledger is: its columns, and whose it is. `ledger` has what a row says, and writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.ownership import owned, require_columns
from lakehouse_cdc.lake.table_state import Columns
from lakehouse_cdc.model.table_layout import Layout

if TYPE_CHECKING:
    from lakehouse_cdc.lake.readers.port import TableReader

COLUMNS: Columns = (
    ("seq", "decimal(38,0)"),
    ("position", "struct<epoch: int, server_uuid: string, file: string, pos: bigint>"),
    ("gtid_set", "string"),
    ("commit_ts", "timestamp"),
    ("bronze_version", "bigint"),
    ("tables", "map<string, bigint>"),
    ("reading", "map<string, decimal(38,0)>"),
    ("query", "string"),
    ("batch", "bigint"),
    ("bounds", "array<struct<seq: decimal(38,0), after: timestamp, by: timestamp>>"),
)
BOUNDS = "bounds"  # which ledgers of earlier releases lack
BRONZE = "lakehouse_cdc.bronze"  # the property with the id of the change table that the rows speak of


def require_ledger(reader: TableReader, layout: Layout) -> bool:
    """Whether there is one. Raises DefiniteError where it is somebody else's, or of a bronze that is no more."""
    table = layout.ledger
    if not reader.exists(table):
        return False
    held, actual = owned(reader.properties(table), table, layout.pipeline), reader.columns(table)
    bounded = any(name == BOUNDS for name, _ in actual)
    require_columns(table, COLUMNS if bounded else COLUMNS[:-1], actual)
    if held.get(BRONZE) != reader.id(layout.changes):
        raise codes.LEDGER_FOREIGN.error(
            "the ledger is of another bronze, which has been moved away or deleted",
            where=str(table),
            hint="move the ledger away: what it says is of no use for this one, and the next run makes it again",
        )
    return True


def bronze_of_ledger(reader: TableReader, layout: Layout) -> str | None:
    """The id of the change table that silver is made from, None where there is no ledger, '' where it does not say."""
    if not reader.exists(layout.ledger):
        return None
    return owned(reader.properties(layout.ledger), layout.ledger, layout.pipeline).get(BRONZE, "")
