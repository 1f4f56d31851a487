"""What several suites of silver share."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.silver.apply import applier, table_applier
from lakehouse_cdc.silver.batch.batch_from_files import parts_of
from lakehouse_cdc.silver.batch.contents import TableBatch, split


@pytest.fixture
def parts_both_ways() -> Iterator[None]:
    """Each time a batch is taken apart, Delta's log and Spark must say the same."""

    def compared(
        spark: SparkSession, layout: Layout, versions: Versions, table: str | None = None
    ) -> dict[str, TableBatch]:
        rows = versions.rows(spark, layout.changes)
        wanted = split(rows if table is None else rows.where(rows["source_table"] == table))
        with patch("lakehouse_cdc.silver.batch.batch_from_files.split", side_effect=AssertionError("Spark was asked")):
            found = parts_of(spark, layout, versions, table)
        assert found == wanted
        return found

    with patch.object(applier, "parts_of", compared), patch.object(table_applier, "parts_of", compared):
        yield
