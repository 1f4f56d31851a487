"""The form of rows without a key as they are now, each copy a row; `writers.multiset` is how a batch is applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.own_columns import OwnColumns
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.definition.form import DELETES, SCD, Form, Writer, WriterArguments, form_named

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_cdc.model.table_layout import Table
    from lakehouse_cdc.silver.batch.contents import SchemaBoundary


class Multiset(Form):
    """Rows as they are now of a table without a key: as many copies of a row as the source has."""

    name = "multiset"
    title = "type 1 of rows without a key"
    comment = "as it is now, each copy of a row by itself"
    properties: ClassVar[Mapping[str, str]] = {SCD: "1", DELETES: "copies"}
    needs_key = False
    counts_copies = True
    auto_cdc_refusal = ("a table without a key", "AUTO CDC finds a row by its key")

    def columns(self, own: OwnColumns) -> tuple[tuple[str, str], ...]:
        """The digest of the row, and which of the rows with that digest it is, from 1 on."""
        return (own.row_hash, "string"), (own.row_copy, "int")

    def indexed(self, own: OwnColumns) -> tuple[str, ...]:
        """The digest, by which rows are looked for."""
        return (own.row_hash,)

    def for_schema(self, schema: TableSchema) -> Form:
        """A key tells rows apart."""
        return form_named("current") if schema.key else self

    def require_fit(self, schema: TableSchema) -> None:
        """Only tables without a key: a key tells the rows of others apart."""
        if schema.key:
            raise codes.MULTISET_WITH_KEY.error(
                f"{schema.name} has the key ({', '.join(schema.key)}), and {self.name} is for tables without one",
                where=schema.name,
                hint=f"take form out of tables.{schema.name}; the next run builds the silver table again",
            )

    def writer(self, session: SparkSession, arguments: WriterArguments) -> Writer:
        """Puts copies on top of those that are equal, and takes them from there."""
        from lakehouse_cdc.silver.forms.writers.multiset import MultisetWriter

        return MultisetWriter(self, arguments)

    def resolve_equal_keys(self, session: SparkSession, table: Table, change: SchemaBoundary) -> None:
        """Nothing: there is no key."""


MULTISET = Multiset()
