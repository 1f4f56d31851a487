"""The form of every version of a row (SCD type 2); `writers.history` is how a batch is applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from lakehouse_cdc.model.own_columns import END_AT, START_AT, OwnColumns
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.definition.form import ENDED, MOMENT, SCD, Form, Writer, WriterArguments, form_named

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_cdc.model.table_layout import Table
    from lakehouse_cdc.silver.batch.contents import SchemaBoundary


class History(Form):
    """Every version of a row (SCD type 2)."""

    name = "history"
    title = "type 2"
    summary = "in every version"
    comment = f"in every version, from {START_AT} to {END_AT}"
    properties: ClassVar[Mapping[str, str]] = {SCD: "2"}
    has_versions = True
    by_deltalake = True
    not_verified = "ended versions are not compared: the source has only the rows of now"
    scd_type = 2

    def columns(self, own: OwnColumns) -> tuple[tuple[str, str], ...]:
        """From when to when a version was the row."""
        return (START_AT, MOMENT), (END_AT, MOMENT)

    def null_in_first_load(self, own: OwnColumns) -> frozenset[str]:
        """No version has ended."""
        return frozenset({END_AT})

    def ended(self, own: OwnColumns) -> str | None:
        """The seq at which the version ended."""
        return ENDED

    def for_schema(self, schema: TableSchema) -> Form:
        """Without a key it is of copies of rows."""
        return self if schema.key else form_named("multiset_history")

    def writer(self, session: SparkSession, arguments: WriterArguments) -> Writer:
        """Ends and begins versions."""
        from lakehouse_cdc.silver.forms.writers.history import HistoryWriter

        return HistoryWriter(self, arguments)

    def resolve_equal_keys(self, session: SparkSession, table: Table, change: SchemaBoundary) -> None:
        """Their open versions end at the change."""
        from lakehouse_cdc.silver.forms.writers.key_change import equal_keys
        from lakehouse_cdc.silver.forms.writers.versions import moment

        equal = equal_keys(session, table, change, self.is_current(table.own), only_current=True)
        if equal is not None:
            ends = {END_AT: moment(change.seq, change.commit_ts)}
            equal.when_matched_update(None, ends).execute(session)


HISTORY = History()
