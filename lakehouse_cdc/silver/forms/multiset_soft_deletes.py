"""The form of rows without a key as they are now, with deleted copies marked; `writers.copies` applies a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from lakehouse_cdc.silver.definition.form import COPIES, DELETES, SCD, Writer, WriterArguments
from lakehouse_cdc.silver.forms.multiset import CopiesForm
from lakehouse_cdc.silver.forms.soft_deletes import SoftDeletes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class MultisetSoftDeletes(CopiesForm, SoftDeletes):
    """As many copies of a row as the source has, and, marked, as many more as it has had at once."""

    name = "multiset_soft_deletes"
    title = "type 1 with soft deletes of rows without a key"
    comment = "as it is now, each copy of a row by itself, with those that are gone, and since when"
    properties: ClassVar[Mapping[str, str]] = {SCD: "1", DELETES: "soft", COPIES: "numbered"}

    def writer(self, session: SparkSession, arguments: WriterArguments) -> Writer:
        """Adds copies, takes back marks, and marks."""
        from lakehouse_cdc.silver.forms.writers.copies import CopiesSoftWriter

        return CopiesSoftWriter(self, arguments)


MULTISET_SOFT_DELETES = MultisetSoftDeletes()
