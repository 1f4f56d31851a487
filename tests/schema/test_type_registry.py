"""Every module that reads by type knows every type of the registry; a part that is missing is named, with its type."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from lakehouse_cdc.images import opcodes
from lakehouse_cdc.images.layout import binlog_type, extent
from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.images.typed.columns import arrow_type
from lakehouse_cdc.mysql.binlog import tablemap
from lakehouse_cdc.mysql.binlog.cursor import Cursor
from lakehouse_cdc.mysql.literals import form, selected
from lakehouse_cdc.schema import type_registry
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import SPATIAL, TYPES, Kind, MySqlType
from lakehouse_cdc.schema.types import mapped, require
from lakehouse_cdc.sql.ddl.alter import altered
from lakehouse_cdc.sql.ddl.column_type import Given
from lakehouse_cdc.verify import columns as verified

DECLARED = {"enum": "ENUM('a')", "set": "SET('a')"}  # others by their names
LENGTHS = ("char", "varchar", "binary", "varbinary")
# statements that add a column of these are not parsed: the catalog is asked, and the table is read again
NOT_IN_DDL = ("geomcollection", "geometrycollection", "vector", *type_registry.MARIADBS)
PARTS: dict[str, Callable[[Column], object]] = {}


def part(check: Callable[[Column], object]) -> Callable[[Column], object]:
    """A check of one part, by its name; it raises, or returns False or None, where the part is missing."""
    PARTS[check.__name__.replace("_", " ")] = check
    return check


@part
def type_map(column: Column) -> object:
    return mapped(column)


@part
def layout_in_the_binlog(column: Column) -> object:
    kind = binlog_type(column)
    return kind is not None and extent(kind)


@part
def metadata_in_table_maps(column: Column) -> object:
    kind = binlog_type(column)
    assert kind is not None
    code, metadata = kind
    return tablemap._metadata(code, Cursor(metadata, ""), "") == metadata


@part
def readers_of_its_kind(column: Column) -> object:
    programs = ProgramSet.of([TableSchema("d", "t", (column,), ())])
    ops = {int(programs.binlog.steps[0, opcodes.OP]), int(programs.wire.steps[0, opcodes.OP])}
    return opcodes.BINARY not in ops or require(column, "d.t").kind is Kind.BINARY


@part
def arrow_type_of_the_first_load(column: Column) -> object:
    found = require(column, "d.t")
    return found.kind is Kind.JSON or arrow_type(found)


@part
def key_component(column: Column) -> object:
    return TYPES[column.type].key is None or (form(column) and selected(column))


@part
def definition_in_ddl(column: Column) -> object:
    if column.type in NOT_IN_DDL:
        return True
    text = DECLARED.get(column.type, column.type + ("(9)" if column.type in LENGTHS else ""))
    table = TableSchema("d", "t", (Column("id", "int"),), ("id",))
    found = altered(f"ALTER TABLE t ADD n {text}", table, Given("utf8mb4", False, True))
    return found.schema.columns[-1].type == column.type


@part
def verification(column: Column) -> object:
    found = verified.form(column)
    if require(column, "d.t").kind is Kind.FLOATS:
        return pa.types.is_list(found)
    return pa.types.is_binary(found) == (require(column, "d.t").kind is Kind.BINARY)


def column_of(row: MySqlType) -> Column:
    charset = "utf8mb4" if row.has_charset else None
    values = ("a",) if row.name in ("enum", "set") else ()
    length = {"bit": 2}.get(row.name, 9 if row.name in LENGTHS else None)
    return Column("n", row.name, charset=charset, values=values, length=length)


def missing(row: MySqlType) -> Iterator[str]:
    """What the package lacks of a type."""
    for name, check in PARTS.items():
        if (lacking := failure(check, column_of(row))) is not None:
            yield f"{row.name}: {name}{lacking}"


def failure(check: Callable[[Column], object], column: Column) -> str | None:
    """How a check fails, None if it does not."""
    try:
        return None if check(column) else ""
    except Exception as error:  # whatever it is, that part is missing
        return f" ({type(error).__name__}: {error})"


@pytest.mark.parametrize("row", TYPES.values(), ids=list(TYPES))
def test_every_part_of_a_type_is_there(row: MySqlType) -> None:
    assert list(missing(row)) == []


def test_a_part_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = MySqlType("quaternion", Kind.FLOATS, 200, (200, b"\x04"), None)
    monkeypatch.setitem(TYPES, odd.name, odd)
    found = {line.partition(" (")[0] for line in missing(odd)}
    assert found == {
        f"quaternion: {name}"
        for name in (
            *("layout in the binlog", "metadata in table maps", "readers of its kind"),
            *("definition in ddl", "verification"),
        )
    }


def test_names_are_unique_and_spatial_types_alike() -> None:
    assert len(TYPES) == len(type_registry._ROWS)
    assert {(TYPES[name].kind, TYPES[name].wire, TYPES[name].binlog, TYPES[name].key) for name in SPATIAL} == {
        (Kind.BINARY, 255, (255, b"\x04"), None)
    }
