"""The form of rows that are only ever added, of tables without a key; `writers.append` is how a batch is applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from lakehouse_cdc.errors import codes
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.definition.form import DELETES, SCD, Form, Writer, WriterArguments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_cdc.model.table_layout import Table
    from lakehouse_cdc.silver.batch.contents import SchemaBoundary


class Append(Form):
    """Rows without a key, which are only ever added."""

    name = "append"
    title = "type 1 of rows that are only added"
    comment = "as it is now, without a key"
    properties: ClassVar[Mapping[str, str]] = {SCD: "1", DELETES: "none"}
    needs_key = False
    by_deltalake = True
    auto_cdc_refusal = ("a table without a key", "AUTO CDC finds a row by its key")

    def require_fit(self, schema: TableSchema) -> None:
        """Only tables without a key: the rows of others can be updated and deleted."""
        if schema.key:
            raise codes.APPEND_WITH_KEY.error(
                f"{schema.name} has the key ({', '.join(schema.key)}), and append is for tables without one",
                where=schema.name,
                hint=f"take append out of tables.{schema.name}; the next run builds the silver table again",
            )

    def writer(self, session: SparkSession, arguments: WriterArguments) -> Writer:
        """Appends."""
        from lakehouse_cdc.silver.forms.writers.append import AppendWriter

        return AppendWriter(self, arguments)

    def resolve_equal_keys(self, session: SparkSession, table: Table, change: SchemaBoundary) -> None:
        """Nothing: there is no key."""


APPEND = Append()
