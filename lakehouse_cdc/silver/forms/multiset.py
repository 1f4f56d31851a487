"""The form of rows without a key as they are now, each copy a row; `writers.multiset` is how a batch is applied.

And what all forms of such rows have in common.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.own_columns import OwnColumns
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.definition.form import DELETES, SCD, Form, Writer, WriterArguments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_cdc.model.table_layout import Table
    from lakehouse_cdc.silver.batch.contents import SchemaBoundary


class CopiesForm(Form):
    """A form of tables without a key: each copy of a row is a row, and they are numbered."""

    needs_key = False
    counts_copies = True
    by_deltalake = False
    auto_cdc_refusal = ("a table without a key", "AUTO CDC finds a row by its key")

    def columns(self, own: OwnColumns) -> tuple[tuple[str, str], ...]:
        """The digest of the row, its number among those that have that, and those of the form with a key."""
        return (own.row_hash, "string"), (own.row_copy, "int"), *super().columns(own)

    def indexed(self, own: OwnColumns) -> tuple[str, ...]:
        """The digest, by which rows are looked for, and those of the form with a key."""
        return tuple(name for name in super().indexed(own) if name != own.row_copy)

    def require_fit(self, schema: TableSchema) -> None:
        """Only tables without a key: a key tells the rows of others apart."""
        if schema.key:
            raise codes.MULTISET_WITH_KEY.error(
                f"{schema.name} has the key ({', '.join(schema.key)}), and {self.name} is for tables without one",
                where=schema.name,
                hint=f"take form out of tables.{schema.name}; the next run builds the silver table again",
            )

    def resolve_equal_keys(self, session: SparkSession, table: Table, change: SchemaBoundary) -> None:
        """Nothing: there is no key."""


class Multiset(CopiesForm):
    """Rows as they are now of a table without a key: as many copies of a row as the source has."""

    by_deltalake = True
    name = "multiset"
    title = "type 1 of rows without a key"
    comment = "as it is now, each copy of a row by itself"
    properties: ClassVar[Mapping[str, str]] = {SCD: "1", DELETES: "copies"}

    def writer(self, session: SparkSession, arguments: WriterArguments) -> Writer:
        """Puts copies on top of those that are equal, and takes them from there."""
        from lakehouse_cdc.silver.forms.writers.multiset import MultisetWriter

        return MultisetWriter(self, arguments)


MULTISET = Multiset()
