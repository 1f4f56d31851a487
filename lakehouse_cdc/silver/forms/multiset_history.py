"""The form of every version of rows without a key; `writers.copies` is how a batch is applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from lakehouse_cdc.model.own_columns import END_AT, START_AT
from lakehouse_cdc.silver.definition.form import COPIES, SCD, Writer, WriterArguments
from lakehouse_cdc.silver.forms.history import History
from lakehouse_cdc.silver.forms.multiset import CopiesForm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class MultisetHistory(CopiesForm, History):
    """Every copy of a row that there has been, with when it came and when it went (SCD type 2)."""

    name = "multiset_history"
    title = "type 2 of rows without a key"
    comment = f"in every version of each copy of a row, from {START_AT} to {END_AT}"
    properties: ClassVar[Mapping[str, str]] = {SCD: "2", COPIES: "numbered"}

    def writer(self, session: SparkSession, arguments: WriterArguments) -> Writer:
        """Ends and begins versions of copies."""
        from lakehouse_cdc.silver.forms.writers.copies import CopiesHistoryWriter

        return CopiesHistoryWriter(self, arguments)


MULTISET_HISTORY = MultisetHistory()
