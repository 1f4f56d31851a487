"""A batch that comes after newer ones: neither rows nor versions of them move backwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import fold
from lakehouse_cdc.model.history import histories
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.definition.engine import Configured
from lakehouse_cdc.silver.definition.form import Form
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.forms import CURRENT, HISTORY
from tests.support.bronze_writer import Lake
from tests.support.silver.changes import N, apply, begin, insert, table
from tests.support.silver.engines import here
from tests.support.silver.schema_changes import update


def one_late(spark: SparkSession, folder: Path, form: Form, engine: Configured = "spark") -> Lake:
    """A table after three batches, of which the second in bronze comes last."""
    one = table("one", N)
    lake = Lake(spark, folder, {one.name: one})

    def applier() -> Applier:
        return Applier(spark, lake.layout, policy=lambda _: Policy(form=form, engine=engine), run_tasks=here)

    apply(lake, applier(), [begin(one), insert(one, 2, 1, n=1), insert(one, 2, 2, n=1)], None)
    late = lake.commit([update(one, 3, {"id": 1, "n": 1}, n=2)]).version
    newer = [update(one, 4, {"id": 1, "n": 2}, n=3), update(one, 5, {"id": 1, "n": 3}, n=4)]
    apply(lake, applier(), newer, late)
    versions = Versions(late - 1, late)
    applier().apply(versions, lake.note(versions, query="late"))
    return lake


@pytest.mark.parametrize("engine", ["spark", "auto"])
def test_an_older_update_moves_no_row_backwards(spark: SparkSession, tmp_path: Path, engine: Configured) -> None:
    lake = one_late(spark, tmp_path, CURRENT, engine)
    assert lake.silver("shop.one") == fold(lake.written)


def test_versions_are_those_of_the_order_whatever_order_they_come_in(spark: SparkSession, tmp_path: Path) -> None:
    lake = one_late(spark, tmp_path, HISTORY)
    assert lake.history("shop.one") == histories(lake.written)
