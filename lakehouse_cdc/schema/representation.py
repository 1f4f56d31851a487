"""How the configuration wants columns carried, where that is not the type map's default.

The choice is written into the schema itself (`Column.carried`), so that every reader of a row, at any time, makes the
same of it: an offset names its schemas, and a changed configuration never changes rows that were planned before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.table_name import matches
from lakehouse_cdc.schema.table import Carried, Column, TableSchema
from lakehouse_cdc.schema.type_registry import AS_TEXT
from lakehouse_cdc.schema.unique_key import is_unique_key

ZeroDates = Literal["fail", "null", "text"]
TypeMap = Literal["native", "lakeflow"]
DATES = ("date", "datetime", "timestamp")
_LAKEFLOW = ("datetime", "year", "json")  # and TIME, ENUM and SET, which always are text


@dataclass(frozen=True)
class Rules:
    """What the user says. `types` maps patterns on `database.table` to columns, and these to `text` or `native`.

    `zero_dates`: what becomes of dates that no calendar has (0000-00-00, 2024-02-00, 2024-02-31): `fail` stops the
    stream, `null` makes them NULL, `text` carries all columns of dates as text. `type_map` `lakeflow` carries as text
    what Lakeflow Connect does.
    """

    zero_dates: ZeroDates = "fail"
    type_map: TypeMap = "native"
    types: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def carry(schema: TableSchema, rules: Rules) -> TableSchema:
    """The schema with each column carried as the rules say. Raises ConfigError for an override that cannot be."""
    unknown = _overrides(schema, rules).keys() - {column.name.lower() for column in schema.columns}
    if unknown:
        raise codes.TYPE_CHOICE_INVALID.error(
            f"{schema.name} has no column {min(unknown)}",
            where=f"tables.{schema.name}.types",
            hint=f"correct the name, or remove it: the table has {', '.join(c.name for c in schema.columns)}",
        )
    return carried_by(schema, rules)


def carry_on(schema: TableSchema, before: TableSchema, origin: Mapping[str, str], rules: Rules) -> TableSchema:
    """The schema that a DDL made of `before`; `origin` has the old name of each column that there was.

    A column that was left out, or masked, stays so under another name, and one whose type has not changed is carried
    as it was; the others are carried as the rules say. Raises ConfigError for an override that cannot be.
    """
    old = {column.name: column for column in before.columns}
    columns = []
    for column in carried_by(schema, rules).columns:
        was = old.get(origin.get(column.name, ""), column)
        carried = was.carried if was.type == column.type and column.name not in schema.key else column.carried
        captured = column.captured and was.captured
        columns.append(replace(column, captured=captured, carried=carried, mask=was.mask or column.mask))
    return replace(schema, columns=tuple(columns))


def _overrides(schema: TableSchema, rules: Rules) -> dict[str, str]:
    """Column, in lower case -> what the user says of it."""
    choices: dict[str, str] = {}
    for pattern, columns in rules.types.items():
        if matches(schema.name, pattern):
            choices |= {name.lower(): choice for name, choice in columns.items()}
    return choices


def carried_by(schema: TableSchema, rules: Rules) -> TableSchema:
    """The schema with each column carried as the rules say; an override of a column that is not there says nothing."""
    overrides = _overrides(schema, rules)
    if is_unique_key(schema) and any(_otherwise(column, rules, overrides) for column in schema.key_columns):
        schema = schema.declared
    return replace(
        schema,
        columns=tuple(
            replace(column, carried=_carried(column, rules, overrides.get(column.name.lower()), schema))
            for column in schema.columns
        ),
    )


def _otherwise(column: Column, rules: Rules, overrides: Mapping[str, str]) -> bool:
    """Whether the user wants a column carried so that it cannot be part of a key."""
    return column.name.lower() in overrides or (rules.zero_dates == "null" and column.type in DATES)


def _carried(column: Column, rules: Rules, override: str | None, schema: TableSchema) -> Carried:
    if override == "text":
        if column.type not in AS_TEXT:
            raise codes.TYPE_CHOICE_INVALID.error(
                f"column {column.name} {column.declared} cannot be carried as text",
                where=f"tables.{schema.name}.types",
                hint=f"that is for {', '.join(AS_TEXT)}",
            )
        return "text"
    if column.name in schema.key:
        return ""  # keys are compared by the server, by their own type
    if override is None and rules.type_map == "lakeflow" and column.type in _LAKEFLOW:
        return "text"
    if column.type in DATES and (rules.zero_dates == "null" or (rules.zero_dates == "text" and override is None)):
        return rules.zero_dates
    return ""
