"""A column's definition: its type, and what its attributes say. The list of these is closed, as that of types is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakehouse_cdc.schema.table import Column
from lakehouse_cdc.sql.ddl.column_type import ColumnType, Given
from lakehouse_cdc.sql.ddl.defaults import Literal, filled
from lakehouse_cdc.sql.ddl.parsed import Parsed
from lakehouse_cdc.sql.grammar.parser import Node
from lakehouse_cdc.sql.lexer import MAXDB, ORACLE, NotUnderstood


@dataclass(frozen=True)
class Definition:
    """A column, and what else its definition says: `place` is FIRST (''), after a column, or None where it is not said.

    `fill`: whether a new column holds something else than NULL in the rows that are there already; then `filled` is the
    text of that, where it is proven. `numbered`: it is AUTO_INCREMENT in one of its spellings, so that a server numbers
    the rows that hold 0 or NULL. `expression`: it is generated from it; `virtual` where it is not stored. `unique`: it
    gets a UNIQUE index of its own.
    """

    column: Column
    primary: bool = False
    fill: bool = False
    filled: str | None = None
    numbered: bool = False
    place: str | None = None
    expression: str | None = None
    virtual: bool = False
    unique: bool = False


def definition(parsed: Parsed, node: Node, given: Given, place: Node | None = None) -> Definition:
    """What a `column_definition`, and the `place` after it, say. Raises NotUnderstood."""
    if parsed.dialect.has(ORACLE | MAXDB):
        raise NotUnderstood  # where DATE and TIMESTAMP are names of DATETIME
    column = ColumnType(parsed, node, given).column(parsed.name(node.the("column_name")))
    serial = node.the("column_type").find("serial_type") is not None
    computed = node.find("computed")
    attribute_nodes = computed.all("computed_attribute") if computed else node.all("column_attribute")
    attributes = {part.name: part for attribute in attribute_nodes for part in attribute.parts}
    if attributes.keys() - _KNOWN:
        raise NotUnderstood
    primary = "primary" in attributes
    numbered = serial or not attributes.keys().isdisjoint(("auto_increment", "serial_default"))
    nulls = [name for name in attributes if name in ("null", "not_null")]
    numbered_unique = serial or "serial_default" in attributes
    column = replace(column, nullable=not (primary or numbered) and _nullable(column, nulls, given))
    generated = computed.the("generated") if computed else None
    declared, default = _default(parsed, attributes.get("default"))
    fill = declared or not column.nullable or generated is not None
    proven = fill and not numbered and generated is None and (default is not None or not declared)
    return Definition(
        column,
        primary=primary,
        fill=fill,
        filled=filled(column, default, given.session) if proven else None,
        numbered=numbered,
        place=_place(parsed, place),
        expression=_expression(parsed, generated) if generated else None,
        unique=numbered_unique or "unique_attribute" in attributes,
        virtual=generated is not None and not (generated.says("STORED") or generated.says("PERSISTENT")),
    )


# attributes that change the column's schema or its rows, and those that change neither
_TELLING = ("null", "not_null", "default", "primary", "auto_increment", "serial_default", "collation")
_KNOWN = {*_TELLING, "unique_attribute", "on_update", "references", "column_check", "plain"}


def _place(parsed: Parsed, place: Node | None) -> str | None:
    if place is None:
        return None
    return "" if place.says("FIRST") else parsed.name(place.the("identifier"))


def _expression(parsed: Parsed, part: Node) -> str:
    """The text of a generated column's expression, with the quotes of names."""
    written = parsed.written(part.the("parentheses"))
    return " ".join(f"`{t.text.replace('`', '``')}`" if t.form == "quoted" else t.text for t in written)


def _default(parsed: Parsed, part: Node | None) -> tuple[bool, Literal | None]:
    """Whether there is a default other than NULL, and what it is where it is a constant."""
    if part is None or (value := part.the("default_value")).says("NULL"):
        return False, None
    constant = value.find("constant")
    return True, parsed.constant(constant) if constant else None


def _nullable(column: Column, declared: list[str], given: Given) -> bool:
    """What the last NULL or NOT NULL says, or, where there is none, what the server makes of that."""
    if declared:
        return declared[-1] == "null"
    if column.type == "timestamp":
        if given.timestamps_nullable is None:
            raise NotUnderstood
        return given.timestamps_nullable
    return True
