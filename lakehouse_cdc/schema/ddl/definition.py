"""A column's definition: its type, and the attributes behind it. The list of these is closed, as that of types is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakehouse_cdc.schema.ddl.column_type import ColumnType, Given
from lakehouse_cdc.schema.ddl.fill import Literal, filled
from lakehouse_cdc.schema.ddl.literals import number, parentheses, text, value
from lakehouse_cdc.schema.lexer import NotUnderstood, Reader
from lakehouse_cdc.schema.table import Column


@dataclass(frozen=True)
class Definition:
    """A column, and what else its definition says: `place` is FIRST (''), after a column, or None where it is not said.

    `fill`: whether a new column holds something else than NULL in the rows that are there already; then `filled` is the
    text of that, where it is proven. `numbered`: it is AUTO_INCREMENT, so that a server numbers the rows that hold 0 or
    NULL.
    """

    column: Column
    primary: bool = False
    fill: bool = False
    filled: str | None = None
    numbered: bool = False
    place: str | None = None


def definition(reader: Reader, given: Given) -> Definition:
    """`name type attributes [FIRST | AFTER column]`, up to the end. Raises NotUnderstood."""
    name = reader.identifier()
    column, said = ColumnType(reader, given).column(name)
    found = Definition(column)
    default: Literal | None = None
    nullable: bool | None = None
    while reader.at < len(reader.tokens):
        if reader.skip("NOT", "NULL"):
            nullable = False
        elif reader.skip("NULL"):
            nullable = True
        elif reader.skip("DEFAULT"):
            null = reader.skip("NULL")
            default = None if null else value(reader)
            found = replace(found, fill=not null)
        else:
            found = _said(reader, found)
    found = replace(found, numbered=found.numbered or said == "SERIAL")
    if found.primary or found.numbered:
        nullable = False
    if nullable is None:
        nullable = _nullable(column, given)
    column = replace(column, nullable=nullable)
    said_default, fill = found.fill, found.fill or not nullable
    proven = fill and not found.numbered and (default is not None or not said_default)
    return replace(found, column=column, fill=fill, filled=filled(column, default, given.session) if proven else None)


def _said(reader: Reader, found: Definition) -> Definition:
    """What the attribute at the cursor adds."""
    if reader.either("PRIMARY KEY", "KEY"):
        return replace(found, primary=True)
    if reader.either("AUTO_INCREMENT", "SERIAL DEFAULT VALUE"):
        return replace(found, numbered=True)
    if reader.skip("FIRST"):
        return replace(found, place="")
    if reader.skip("AFTER"):
        return replace(found, place=reader.identifier())
    if not _attribute(reader):
        raise NotUnderstood
    return found


def _nullable(column: Column, given: Given) -> bool:
    """Where the definition does not say it."""
    if column.type == "timestamp":
        if given.timestamps_nullable is None:
            raise NotUnderstood
        return given.timestamps_nullable
    return True


def _attribute(reader: Reader) -> bool:
    """Go past an attribute that changes nothing of the column's schema."""
    if reader.skip("UNIQUE"):
        reader.skip("KEY")
    elif reader.skip("COMMENT"):
        text(reader)
    elif reader.either("COLUMN_FORMAT", "STORAGE"):
        reader.identifier()
    elif reader.either("ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"):
        reader.skip("=")
        text(reader)
    elif reader.skip("SRID"):
        number(reader)
    elif reader.skip("ON", "UPDATE"):
        value(reader)
    elif reader.word() in ("CONSTRAINT", "CHECK"):
        check(reader)
    else:
        return reader.either("VISIBLE", "INVISIBLE", "NOT SECONDARY")
    return True


def check(reader: Reader) -> None:
    """`[CONSTRAINT [name]] CHECK (...) [[NOT] ENFORCED]`."""
    if reader.skip("CONSTRAINT") and reader.word() != "CHECK":
        reader.identifier()
    reader.expect("CHECK")
    parentheses(reader)
    reader.either("ENFORCED", "NOT ENFORCED")
