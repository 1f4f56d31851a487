"""What people wrote about a table and its columns on the server: COMMENT of CREATE TABLE and ALTER TABLE.

A comment is no part of a table's schema (see `schema.table`): no value depends on it, and the log has no row of its
change. So it is asked from the server as it is now, while what it is wanted for may be of an earlier schema, in which a
name is another column's. Those of columns are used where all columns are called as they are on the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakehouse_cdc.schema.table import TableSchema


@dataclass(frozen=True)
class Comments:
    """Those of one table: its own, and by name those of the columns; "" for none. All columns are there, in order."""

    table: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)

    def fit(self, schema: TableSchema) -> bool:
        """Whether that schema has the columns that the comments are of, as far as names say."""
        return [*self.columns] == [column.name for column in schema.columns]

    def before(self, ours: str) -> str:
        """The table's, and what we say of a table that is made of it."""
        return f"{self.table} ({ours})" if self.table else ours


NONE = Comments()
