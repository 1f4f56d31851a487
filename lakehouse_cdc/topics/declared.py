"""What the configuration says of tables, for readers of messages: their columns' types, and their keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lakehouse_cdc.messages.reading import Declared, Reason, Unreadable
from lakehouse_cdc.model.table_name import last_match
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.types import mapped
from lakehouse_cdc.sql.ddl.alter import altered
from lakehouse_cdc.sql.ddl.column_type import Given
from lakehouse_cdc.sql.lexer import NotUnderstood

_TABLE = TableSchema("d", "t", (Column("-", "int"),), ())
_GIVEN = Given(charset="utf8mb4", mariadb=False, timestamps_nullable=True)


def column(name: str, text: str) -> Column:
    """A column of that name, of a type as MySQL writes it, nullable. Raises Unreadable for what is no such type."""
    quoted = name.replace("`", "``")
    try:
        made = altered(f"ALTER TABLE t ADD COLUMN `{quoted}` {text} NULL", _TABLE, _GIVEN).schema.columns
    except NotUnderstood as error:
        raise Unreadable(Reason.UNKNOWN_TYPE, f"{name} has the type {text[:60]}, which is not known") from error
    if len(made) != 2 or made[1].name != name or mapped(made[1]) is None:
        raise Unreadable(Reason.UNKNOWN_TYPE, f"{name} has the type {text[:60]}, which is not known")
    return replace(made[1], collation=None)


@dataclass(frozen=True)
class Declarations:
    """`columns` and `key` of tables, by patterns of which the last that matches decides; plain, so it can be sent."""

    columns: Mapping[str, Mapping[str, str]]
    keys: Mapping[str, tuple[str, ...]]

    def made(self, known: Callable[[str], TableSchema | None] = lambda _: None) -> Declared:
        """For readers; `known` is the schema that a table has by now."""
        columns = {
            pattern: tuple(column(name, text) for name, text in types.items())
            for pattern, types in self.columns.items()
        }
        return Declared(
            lambda table: last_match(columns, table), lambda table: last_match(self.keys, table) or None, column, known
        )
