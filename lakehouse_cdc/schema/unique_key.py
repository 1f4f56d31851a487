"""The unique index that is the key of a table without a primary key.

A UNIQUE index over whole columns that are NOT NULL identifies the rows as a primary key does. InnoDB itself orders such
a table by the first one, and the server logs it as the key (seen on MySQL 5.7, 8.0 and 9, and on MariaDB 10.11 and
11.8). It is the key here, too, unless the user gives another, or none (see `schema.declared_key`). An index over a
generated column is none: InnoDB takes none over virtual ones, and a server may not log the value of any.

Nor is it one where the configuration leaves out, masks or carries otherwise one of its columns: then the table is one
without a key, as it is in a schema that an earlier release stored, until a statement alters the table and the catalog
is asked. A table never gets another key without being read again under it.

MEMORY's hash indexes hold 0.0 and -0.0 as two values, which are one to everybody who compares them: there an index over
a FLOAT or DOUBLE is none, not even the primary key. What such a table's indexes are is asked again when it is altered.

Guards: tests/source/test_unique_key.py, tests/source/test_engines.py.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from lakehouse_cdc.schema.engines import MEMORY
from lakehouse_cdc.schema.table import INEXACT, Column, TableSchema, UniqueIndex


def usable(index: UniqueIndex, columns: Collection[Column]) -> bool:
    """Whether an index over whole columns can be a key of a table with these columns."""
    by_name = {column.name: column for column in columns}
    parts = [by_name.get(name) for name in index.columns]
    return bool(parts) and all(part is not None and not part.nullable and not part.generated for part in parts)


def with_unique(schema: TableSchema, indexes: Sequence[UniqueIndex], count: int) -> TableSchema:
    """The schema with the first usable one of `indexes`, which are over whole columns and in the table's order.

    `count` is how many UNIQUE indexes the table has.
    """
    if schema.primary_key:
        return schema
    first = next((index for index in indexes if usable(index, schema.columns)), None)
    return replace(schema, unique=first, more_unique=count > (first is not None))


def keyed_by_unique(schema: TableSchema) -> TableSchema:
    """The schema with its unique index as the key, where it has no other and the index can be one.

    A primary key that holds one row twice is taken from it.
    """
    if schema.primary_key and any(tells_zeros_apart(schema, column) for column in schema.key_columns):
        return replace(schema, key=(), prefixed=False, more_unique=None)
    if schema.key or schema.key_given or schema.unique is None:
        return schema
    by_name = {column.name: column for column in schema.columns}
    parts = [by_name[name] for name in schema.unique.columns]
    if any(not part.captured or part.mask or (part.type == "enum" and "" in part.values) for part in parts):
        return schema
    if any(tells_zeros_apart(schema, part) for part in parts):
        return schema
    return replace(schema, key=schema.unique.columns)


def tells_zeros_apart(schema: TableSchema, column: Column) -> bool:
    """Whether an index of the table may hold 0.0 and -0.0 of this column as two values."""
    return schema.engine == MEMORY and column.type in INEXACT


def is_unique_key(schema: TableSchema) -> bool:
    """Whether the key is that of the unique index."""
    return bool(schema.key) and schema.unique is not None and not schema.key_given
