"""A batch that comes after newer ones: neither rows nor versions of them move backwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Change, fold
from lakehouse_cdc.model.history import histories
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.definition.engine import Configured
from lakehouse_cdc.silver.definition.form import Form
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.forms import CURRENT, HISTORY
from tests.support.bronze_writer import Lake
from tests.support.silver.changes import N, apply, begin, delete, insert, table
from tests.support.silver.engines import here, spark_at_length
from tests.support.silver.schema_changes import update

ONE = table("one", N)
LATE = [update(ONE, 3, {"id": 1, "n": 1}, n=2)]
NEWER = [update(ONE, 4, {"id": 1, "n": 2}, n=3), update(ONE, 5, {"id": 1, "n": 3}, n=4)]


def one_late(
    spark: SparkSession,
    folder: Path,
    form: Form,
    engine: Configured = "spark",
    late: Sequence[Change] = LATE,
    newer: Sequence[Change] = NEWER,
) -> Lake:
    """A table after three batches, of which the second in bronze comes last."""
    lake = Lake(spark, folder, {ONE.name: ONE})

    def applier() -> Applier:
        return Applier(spark, lake.layout, policy=lambda _: Policy(form=form, engine=engine), run_tasks=here)

    apply(lake, applier(), [begin(ONE), insert(ONE, 2, 1, n=1), insert(ONE, 2, 2, n=1)], None)
    between = lake.commit(late).version
    apply(lake, applier(), [*newer], between)
    versions = Versions(between - 1, between)
    applier().apply(versions, lake.note(versions, query="late"))
    return lake


@pytest.mark.parametrize("engine", ["spark", "auto"])
def test_an_older_update_moves_no_row_backwards(spark: SparkSession, tmp_path: Path, engine: Configured) -> None:
    lake = one_late(spark, tmp_path, CURRENT, engine)
    assert lake.silver("shop.one") == fold(lake.written)


@spark_at_length
def test_versions_are_those_of_the_order_whatever_order_they_come_in(
    spark: SparkSession, tmp_path: Path, engine: Configured
) -> None:
    lake = one_late(spark, tmp_path, HISTORY, engine)
    assert lake.history("shop.one") == histories(lake.written)


@spark_at_length
def test_a_delete_that_met_no_row_counts_as_its_row_comes_late(
    spark: SparkSession, tmp_path: Path, engine: Configured
) -> None:
    """The newer batch changed nothing, and yet the table has to know that it was there."""
    gone = replace(delete(ONE, 4, 5), before={"id": 5, "n": 7})
    lake = one_late(spark, tmp_path, HISTORY, engine, [insert(ONE, 3, 5, n=7)], [gone])
    assert lake.history("shop.one") == histories(lake.written)
