"""The form of rows as they are now, with the deleted ones marked; `writers.soft_deletes` is how a batch is applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from lakehouse_cdc.model.own_columns import OwnColumns
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.definition.form import DELETES, SCD, Form, Writer, WriterArguments, form_named

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_cdc.model.table_layout import Table
    from lakehouse_cdc.silver.batch.contents import SchemaBoundary


class SoftDeletes(Form):
    """Rows as they are now and, marked with the time of their deletion, those that are deleted."""

    name = "soft_deletes"
    title = "type 1 with soft deletes"
    comment = "as it is now, with the rows that are gone, and since when"
    properties: ClassVar[Mapping[str, str]] = {SCD: "1", DELETES: "soft"}
    marks_deletes = True
    by_deltalake = True
    not_verified = "rows that are marked as deleted are not compared: the source has them no more"
    auto_cdc_refusal = ("deletes: soft", "AUTO CDC deletes a row or keeps it, but does not mark it")

    def columns(self, own: OwnColumns) -> tuple[tuple[str, str], ...]:
        """When the row was deleted."""
        return ((own.deleted_at, "timestamp"),)

    def null_in_first_load(self, own: OwnColumns) -> frozenset[str]:
        """No row is deleted."""
        return frozenset({own.deleted_at})

    def ended(self, own: OwnColumns) -> str | None:
        """When the row was deleted."""
        return own.deleted_at

    def for_schema(self, schema: TableSchema) -> Form:
        """Without a key it is of copies of rows."""
        return self if schema.key else form_named("multiset_soft_deletes")

    def writer(self, session: SparkSession, arguments: WriterArguments) -> Writer:
        """Updates and marks."""
        from lakehouse_cdc.silver.forms.writers.soft_deletes import SoftWriter

        return SoftWriter(self, arguments)

    def resolve_equal_keys(self, session: SparkSession, table: Table, change: SchemaBoundary) -> None:
        """All are deleted; but the marked ones alone where only one of them is current."""
        from lakehouse_cdc.silver.forms.writers.key_change import equal_keys

        current = self.is_current(table.own)
        if (equal := equal_keys(session, table, change, current)) is not None:
            equal.when_matched_delete(f"m.current_rows > 1 OR NOT (t.{current})").execute(session)


SOFT_DELETES = SoftDeletes()
