"""The type map: what a MySQL type becomes as VARIANT in bronze and as a Delta column in silver.

The registry (`type_registry`) decides; a type that is not in it is refused by name before the first row is read.
Widths follow the declared type, never the value, so the snapshot and the binlog give the same bytes for the same row.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.schema.charsets import CHARSETS
from lakehouse_cdc.schema.column_choice import WITHOUT_VALUE
from lakehouse_cdc.schema.engines import CSV
from lakehouse_cdc.schema.masks import gives_text, kept, unmasked
from lakehouse_cdc.schema.representation import DATES
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import TYPES, Kind
from lakehouse_cdc.schema.unique_key import tells_zeros_apart

MAX_DECIMAL = 38  # digits of a Delta and of a VARIANT decimal


@dataclass(frozen=True)
class Mapped:
    """The kind of a column, and the precision and scale of a decimal."""

    kind: Kind
    precision: int = 0
    scale: int = 0

    @property
    def silver(self) -> str:
        """The Spark SQL type of the silver column."""
        names = {Kind.INT8: "tinyint", Kind.INT16: "smallint", Kind.INT32: "int", Kind.INT64: "bigint"}
        if self.kind is Kind.DECIMAL:
            return f"decimal({self.precision},{self.scale})"
        return names.get(self.kind, str(self.kind.value))

    @property
    def image(self) -> str:
        """The Spark SQL type that a value in bronze's VARIANT images is cast to."""
        return "string" if self.kind is Kind.JSON else self.silver


def mapped(column: Column) -> Mapped | None:
    """What the column becomes, or None where this version cannot carry it."""
    if gives_text(column):
        return Mapped(Kind.STRING) if mapped(unmasked(column)) is not None else None
    if column.carried == "text":
        return Mapped(Kind.STRING)
    if column.type == "decimal":
        precision, scale = column.precision or 10, column.scale or 0
        return Mapped(Kind.DECIMAL, precision, scale) if precision <= MAX_DECIMAL else Mapped(Kind.STRING)
    if column.type == "bit":
        if column.length == 1:
            return Mapped(Kind.BOOLEAN)
        return Mapped(Kind.DECIMAL, 20, 0) if column.length == 64 else Mapped(Kind.INT64)
    declared = TYPES.get(column.type)
    if declared is None or declared.kind is None or (declared.has_charset and column.charset not in CHARSETS):
        return None
    kind = declared.unsigned if column.unsigned and declared.unsigned is not None else declared.kind
    return Mapped(kind, 20, 0) if kind is Kind.DECIMAL else Mapped(kind)


def require(column: Column, table: str) -> Mapped:
    """`mapped`, or a DefiniteError that names the column and its type."""
    entry = mapped(column)
    if entry is None:
        raise _unsupported(column, table)
    return entry


def _unsupported(column: Column, table: str) -> DefiniteError:
    name = column.charset or ("binary" if column.type in ("enum", "set") else "")
    charset = f" character set {name}" if name else ""
    return codes.TYPE_UNSUPPORTED.error(
        f"column {column.name} of {table} has type {column.declared}{charset}, which is not supported yet",
        where=table,
        hint=f"{_leave_out(table)} or exclude the column",
    )


def _leave_out(table: str) -> str:
    return f'leave the table out ("!{table}" under source.tables)'


def faults(schema: TableSchema) -> list[DefiniteError]:
    """All that forbids to capture this table exactly.

    That is each captured column that `mapped` does not know, that has no value to capture, or another one in each
    session (a TIMESTAMP in a file of text), or a mask that its type cannot have, and each column of the key that is
    excluded, masked, a number of which an index has both zeros, or an ENUM whose values are not distinguished by their
    labels. A table needs no key to be captured.
    """
    name = schema.name
    problems = [_unsupported(column, name) for column in schema.captured if mapped(column) is None]
    problems += [
        codes.TABLE_UNSUPPORTED.error(
            f"column {column.name} of {name} {WITHOUT_VALUE[column.generated]}",
            where=name,
            hint=f"set source.generated to skip, exclude the column, or {_leave_out(name)}",
        )
        for column in schema.captured
        if column.generated in WITHOUT_VALUE
    ]
    problems += [fault for column in schema.captured if (fault := _mask_fault(column, name)) is not None]
    problems += [
        codes.TABLE_UNSUPPORTED.error(
            f"column {column.name} of {name} is a TIMESTAMP of the engine CSV: each time zone reads another value",
            where=name,
            hint=f"exclude the column, give the table another engine, or {_leave_out(name)}",
        )
        for column in schema.captured
        if schema.engine == CSV and column.type == "timestamp"
    ]
    problems += [
        codes.TABLE_UNSUPPORTED.error(
            f"the key of {name} holds {column.name} {column.declared}: MEMORY has 0.0 and -0.0 as two keys",
            where=name,
            hint=f"take key out of tables.{name}, give the table another engine, or {_leave_out(name)}",
        )
        for column in schema.key_columns
        if tells_zeros_apart(schema, column)
    ]
    of_key = "key" if schema.key_given else "primary key"
    problems += [fault for column in schema.key_columns if (fault := _key_fault(column, name, of_key)) is not None]
    return problems


def _key_fault(column: Column, table: str, of_key: str) -> DefiniteError | None:
    if not column.captured:
        what = f"column {column.name} is part of the {of_key} of {table} and cannot be excluded"
        return codes.KEY_UNUSABLE.error(what, where=table, hint="take it out of exclude")
    if column.mask:
        what = f"column {column.name} is part of the {of_key} of {table} and cannot be masked: it identifies the rows"
        return codes.KEY_UNUSABLE.error(what, where=table, hint=f"take it out of masks, or {_leave_out(table)}")
    holds = f"the {of_key} of {table} holds {column.name} {column.declared}"
    if column.carried and not (column.carried == "text" and column.type in DATES):
        return codes.KEY_UNUSABLE.error(
            f"{holds}, which cannot be carried as {column.carried}", where=table, hint="see types"
        )
    if column.type == "enum" and "" in column.values:
        hint = f"give it labels without the empty one, which a value that was refused has; or {_leave_out(table)}"
        return codes.KEY_UNUSABLE.error(f"{holds}: an ENUM with an empty label", where=table, hint=hint)
    return None


def can_be_masked(column: Column) -> bool:
    """Whether its type can have its mask."""
    return mapped(column) is not None and _mask_fault(column, "") is None


def _mask_fault(column: Column, table: str) -> DefiniteError | None:
    """A hash, or a part, of what has no text."""
    kind = mapped(unmasked(column)) if gives_text(column) else None
    if kind is None:
        return None
    if kind.kind is Kind.FLOATS or (kind.kind is Kind.BINARY and kept(column.mask) is not None):
        what = f"column {column.name} of {table} is of type {column.declared}, which has no characters to mask"
        others = "null" if kind.kind is Kind.FLOATS else "null or hash"
        return codes.MASK_UNUSABLE.error(what, where=table, hint=f"mask it by {others}, or exclude it")
    return None


def check_table(schema: TableSchema) -> None:
    """Refuse, by name, a table that cannot be captured exactly: raises the first of its `faults`."""
    for fault in faults(schema):
        raise fault
