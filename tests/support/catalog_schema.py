"""A table's schema as the server's catalog has it, in the form in which tests compare it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

from lakehouse_cdc.schema.column_choice import Choice
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.sql.ddl.alter import Altered


def plain(schema: TableSchema) -> TableSchema:
    columns = [
        replace(c, collation=None, charset="utf8mb3" if c.charset == "utf8" else c.charset) for c in schema.columns
    ]
    charset = "utf8mb3" if schema.charset == "utf8" else schema.charset
    return replace(schema, columns=tuple(columns), charset=charset, hidden_hashes=False)


def said_of(said: Altered, after: TableSchema) -> TableSchema:
    """The schema that is said, without the columns that a stream leaves out where nothing else is configured.

    Where it is not known which unique index can be the key, with that of the catalog. There may be other indexes where
    there are none any more: they are not followed one by one.
    """
    schema = Choice().chosen(plain(said.schema))
    if not said.key_known:
        return replace(schema, unique=after.unique, more_unique=after.more_unique)
    return replace(schema, more_unique=after.more_unique) if schema.more_unique and not after.key else schema


def added(after: TableSchema, said: Altered) -> list[str]:
    """The columns that were not there before, and are captured."""
    return [column.name for column in after.captured if column.name not in said.origin]


def expected(before: TableSchema, after: TableSchema, said: Altered, held: Counter[Any]) -> Counter[Any]:
    """The rows that were `held`, as they are to be now; new columns come last."""
    names = [column.name for column in before.columns]
    old = [names.index(name) for name in said.origin.values()]
    new = [constant(after, name, said.filled.get(name)) for name in added(after, said)]
    return Counter((*(row[i] for i in old), *new) for row in held.elements())


def constant(schema: TableSchema, name: str, text: str | None) -> Any:
    """The value that the client gives for a constant that is known as text."""
    [kind] = [column.type for column in schema.columns if column.name == name]
    if text is None:
        return None
    numbers = {"decimal": Decimal, "float": float, "double": float}
    return numbers.get(kind, int if kind.endswith("int") else str)(text)
