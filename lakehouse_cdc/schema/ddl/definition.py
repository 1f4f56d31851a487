"""A column's definition: its type, and what its attributes say. The list of these is closed, as that of types is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakehouse_cdc.schema.ddl.column_type import ColumnType, Given
from lakehouse_cdc.schema.ddl.fill import Literal, filled
from lakehouse_cdc.schema.ddl.parsed import Parsed
from lakehouse_cdc.schema.grammar.parser import Node
from lakehouse_cdc.schema.lexer import MAXDB, ORACLE, NotUnderstood
from lakehouse_cdc.schema.table import Column


@dataclass(frozen=True)
class Definition:
    """A column, and what else its definition says: `place` is FIRST (''), after a column, or None where it is not said.

    `fill`: whether a new column holds something else than NULL in the rows that are there already; then `filled` is the
    text of that, where it is proven. `numbered`: it is AUTO_INCREMENT in one of its spellings, so that a server numbers
    the rows that hold 0 or NULL. `expression`: it is generated from it; `virtual` where it is not stored.
    """

    column: Column
    primary: bool = False
    fill: bool = False
    filled: str | None = None
    numbered: bool = False
    place: str | None = None
    expression: str | None = None
    virtual: bool = False


def definition(parsed: Parsed, node: Node, given: Given, place: Node | None = None) -> Definition:
    """What a `column_definition`, and the `place` after it, say. Raises NotUnderstood."""
    if parsed.dialect.sql_mode & (ORACLE | MAXDB):
        raise NotUnderstood  # where DATE and TIMESTAMP are names of DATETIME
    column = ColumnType(parsed, node, given).column(parsed.name(node.the("column_name")))
    serial = node.the("column_type").find("serial_type") is not None
    attributes = [part for attribute in node.all("column_attribute") for part in attribute.parts]
    said = {part.name for part in attributes}
    if said - _KNOWN:
        raise NotUnderstood
    found = Definition(column, primary="primary" in said)
    found = replace(found, numbered=serial or bool({"auto_increment", "serial_default"} & said))
    default: Literal | None = None
    nullable: bool | None = None
    for part in attributes:
        if part.name in ("null", "not_null"):
            nullable = part.name == "null"
        elif part.name == "default":
            [value] = part.parts
            found = replace(found, fill=not value.says("NULL"))
            constant = value.find("constant")
            default = parsed.constant(constant) if constant else None
        elif part.name == "generated":
            found = replace(found, **_generated(parsed, part))
    if found.primary or found.numbered:
        nullable = False
    if nullable is None:
        nullable = _nullable(column, given)
    said_default, fill = found.fill, found.fill or not nullable or found.expression is not None
    proven = fill and not found.numbered and found.expression is None and (default is not None or not said_default)
    return replace(
        found,
        column=replace(column, nullable=nullable),
        fill=fill,
        filled=filled(column, default) if proven else None,
        place=_place(parsed, place),
    )


# attributes that change the column's schema or its rows, and those that change neither
_TELLING = ("null", "not_null", "default", "generated", "primary", "auto_increment", "serial_default", "collation")
_KNOWN = {*_TELLING, "unique_attribute", "on_update", "references", "column_check", "plain"}


def _place(parsed: Parsed, place: Node | None) -> str | None:
    if place is None:
        return None
    return "" if place.says("FIRST") else parsed.name(place.the("identifier"))


def _generated(parsed: Parsed, part: Node) -> dict[str, object]:
    written = parsed.written(part.the("parentheses"))
    text = " ".join(f"`{t.text.replace('`', '``')}`" if t.form == "quoted" else t.text for t in written)
    return {"expression": text, "virtual": not (part.says("STORED") or part.says("PERSISTENT"))}


def _nullable(column: Column, given: Given) -> bool:
    """Where the definition does not say it."""
    if column.type == "timestamp":
        if given.timestamps_nullable is None:
            raise NotUnderstood
        return given.timestamps_nullable
    return True
