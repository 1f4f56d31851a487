"""The form of rows as they are now (SCD type 1); `writers.current` is how a batch is applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.definition.form import DELETES, SCD, Form, Writer, WriterArguments, form_named

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_cdc.model.table_layout import Table
    from lakehouse_cdc.silver.batch.contents import SchemaBoundary


class Current(Form):
    """Rows as they are now (SCD type 1); a deleted row leaves, and its key goes into the table of tombstones."""

    name = "current"
    title = "type 1"
    comment = "as it is now"
    properties: ClassVar[Mapping[str, str]] = {SCD: "1", DELETES: "hard"}
    has_tombstones = True
    depends_on_order = False
    by_deltalake = True

    def for_schema(self, schema: TableSchema) -> Form:
        """Without a key copies of rows are counted."""
        return self if schema.key else form_named("multiset")

    def writer(self, session: SparkSession, arguments: WriterArguments) -> Writer:
        """Tombstones, then a MERGE."""
        from lakehouse_cdc.silver.forms.writers.current import TableWriter

        return TableWriter(self, session, arguments)

    def resolve_equal_keys(self, session: SparkSession, table: Table, change: SchemaBoundary) -> None:
        """All of them are deleted."""
        from lakehouse_cdc.silver.forms.writers.key_change import equal_keys

        if (equal := equal_keys(session, table, change, self.is_current(table.own))) is not None:
            equal.when_matched_delete().execute(session)


CURRENT = Current()
