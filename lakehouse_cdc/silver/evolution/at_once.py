"""What the steps of a change of the schema come to, for a table that takes them in one commit; pure.

Spark takes each step as a commit of its own, and renames, drops and widens without the rows, by features of Delta's.
A table without these features takes all of them at once, where its rows are few enough to be written again: then no
reader sees what lies in between, no name has two meanings, and nothing is left for another attempt (see `plan`).

The result is the same as Spark's: a rename or a drop changes no value, a wider type holds each value of the other, and
a constant is one that the column holds just as it is written (see `sql.ddl.defaults`). Any other step, and a constant
that is read otherwise here, is Spark's.

Guards: tests/silver/test_at_once.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_cdc.lake.table_state import Field, delta_type
from lakehouse_cdc.silver.evolution.steps import AddColumn, DropColumn, Enter, Fill, Finish, RenameColumn, Step, Widen

_WHOLE = re.compile(r"-?[0-9]+")
_BOOLEANS = {"0": False, "1": True}


@dataclass(frozen=True)
class _Column:
    """One of the table as it is to be, and the name of that which it was, None for a new one."""

    field: Field
    was: str | None

    @property
    def name(self) -> str:
        return str(self.field["name"])


@dataclass(frozen=True)
class AtOnce:
    """The table's columns after all steps; what rows hold in some where they have NULL; whether rows change."""

    columns: tuple[_Column, ...]
    constants: Mapping[str, str]
    changes_rows: bool

    @property
    def fields(self) -> list[Field]:
        """As Delta's schema has them."""
        return [column.field for column in self.columns]

    def knows(self, kinds: Mapping[str, pa.DataType]) -> bool:
        """Whether each constant is a value of its column's type."""
        return all(constant(text, kinds[name]) is not None for name, text in self.constants.items())

    def rows(self, rows: pa.Table, kinds: Mapping[str, pa.DataType], ended: str | None) -> pa.Table:
        """The rows, in the columns of before, as they are to be; `kinds` are the types that some columns get.

        Constants are given to rows that have NULL in the column, or field of one, `ended`. Raises pa.ArrowException
        where a value has no place in the type.
        """
        current = None if ended is None else _values(rows, ended).is_null()
        arrays, names = [], []
        for column in self.columns:
            held = None if column.was is None else rows.column(column.was)
            kind = kinds.get(column.name, None if held is None else held.type)
            assert kind is not None, column.name
            values = pa.chunked_array([pa.nulls(len(rows), kind)]) if held is None else held.cast(kind)
            if column.name in self.constants:
                lacking = values.is_null() if current is None else pc.and_(values.is_null(), current)
                values = pc.if_else(lacking, constant(self.constants[column.name], kind), values)
            arrays.append(values)
            names.append(column.name)
        return pa.table(arrays, names=names)


def at_once(fields: Iterable[Field], steps: Sequence[Step], comments: Mapping[str, str]) -> AtOnce | None:
    """What the steps make of those columns; None where one of them is Spark's. New columns have those comments."""
    columns, constants, changes_rows = [_Column(field, field["name"]) for field in fields], dict[str, str](), False
    for step in steps:
        match step:
            case Enter() | Finish():
                pass
            case AddColumn(name, kind, after):
                at = 0 if after is None else 1 + _place(columns, after)
                columns.insert(at, _Column(_field(name, kind, comments.get(name, "")), None))
            case RenameColumn(name, to):
                at, changes_rows = _place(columns, name), True
                columns[at] = _Column({**columns[at].field, "name": to}, columns[at].was)
            case DropColumn(name):
                del columns[_place(columns, name)]
                changes_rows = True
            case Widen(name, kind):
                at, changes_rows = _place(columns, name), True
                columns[at] = _Column({**columns[at].field, "type": delta_type(kind)}, columns[at].was)
            case Fill(filled):
                changes_rows = True
                constants |= {name: text for name, _, text in filled}
            case _:
                return None
    return AtOnce(tuple(columns), constants, changes_rows)


def constant(text: str, kind: pa.DataType) -> pa.Scalar | None:
    """The text of a constant as a value of the type; None where the type does not hold it just so."""
    try:
        if pa.types.is_string(kind):
            return pa.scalar(text, kind)
        if pa.types.is_boolean(kind):
            return pa.scalar(_BOOLEANS[text], kind) if text in _BOOLEANS else None
        if pa.types.is_decimal(kind):
            return pa.scalar(Decimal(text), kind)
        if _WHOLE.fullmatch(text) and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            return pa.scalar(int(text), pa.int64()).cast(kind)
    except pa.ArrowInvalid:
        pass
    return None


def _values(rows: pa.Table, path: str) -> Any:
    name, *inner = path.split(".")
    column = rows.column(name)
    return pc.struct_field(column, inner) if inner else column


def _place(columns: Sequence[_Column], name: str) -> int:
    return [column.name for column in columns].index(name)


def _field(name: str, kind: str, comment: str) -> Field:
    """A column of that type, as Delta's schema has it."""
    metadata = {"comment": comment} if comment else {}
    return {"name": name, "type": delta_type(kind), "nullable": True, "metadata": metadata}
