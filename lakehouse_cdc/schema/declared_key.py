"""The key of a table without a primary key: the one that the user gives, else that of its unique index.

A given key is the user's word that no two rows have the same values there. The source does not rely on it: such a
table is read as one without a key, whole (see `model.multiset`). What the word is for is silver's MERGE, and so
bronze's `key`: an update that changes these columns is a delete of the old key and an insert of the new one there, as
for a primary key. A key that may be NULL tells nothing apart, so its columns must be NOT NULL. Where the table has a
primary key, that one counts; another word is a contradiction, and refused. It wins over a unique index (see
`schema.unique_key`); an empty one says that such a table is to be one without a key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.table_name import last_match
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.unique_key import keyed_by_unique

Keys = Mapping[str, Sequence[str]]  # pattern on `database.table` -> columns; the last one that matches decides


def with_key(schema: TableSchema, keys: Keys) -> TableSchema:
    """`schema`, as the server has it, with its key: that which the user gives it, if any.

    Raises ConfigError, which names the table, for a column that is not there or may be NULL, and for a table with
    another primary key. Without one, a table without a primary key has that of its unique index, if there is one.
    """
    return keyed_by_unique(with_given_key(schema, keys))


def with_given_key(schema: TableSchema, keys: Keys) -> TableSchema:
    """As `with_key`, without the unique index."""
    given = last_match(keys, schema.name)
    if given is None or (schema.primary_key and not given):
        return schema
    if not given:
        return schema if schema.unique is None else replace(schema, key=(), key_given=True)
    by_name = {column.name.lower(): column for column in schema.columns}
    where = schema.name
    if unknown := [name for name in given if name.lower() not in by_name]:
        hint = f"it has {', '.join(column.name for column in schema.columns)}"
        raise codes.KEY_DECLARATION_INVALID.error(
            f"the key of {where} is to hold {unknown[0]}, which is no column of it", where=where, hint=hint
        )
    columns = [by_name[name.lower()] for name in given]
    if len({column.name for column in columns}) < len(columns):
        raise codes.KEY_DECLARATION_INVALID.error(
            f"the key of {where} names a column twice", where=where, hint=f"name each column once in tables.{where}.key"
        )
    if schema.primary_key:
        if {column.name for column in columns} == {*schema.key}:
            return schema
        what = f"{where} has the primary key ({', '.join(schema.primary_key)}), and is to have another key"
        raise codes.KEY_DECLARATION_INVALID.error(what, where=where, hint=f"take key out of tables.{where}")
    if nullable := [column.name for column in columns if column.nullable]:
        hint = "make it NOT NULL, or choose other columns; rows whose key is NULL cannot be distinguished"
        raise codes.KEY_DECLARATION_INVALID.error(
            f"the key of {where} is to hold {nullable[0]}, which may be NULL", where=where, hint=hint
        )
    return replace(schema, key=tuple(column.name for column in columns), key_given=True)
