"""The tables of bronze: made once, and never anybody else's."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.bronze import tables
from lakehouse_cdc.bronze.tables import CHANGES, BronzeMaker, create_bronze
from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.lake.commits import history
from lakehouse_cdc.lake.tables import create, exists, read
from lakehouse_cdc.model import bronze_row
from lakehouse_cdc.model.table_layout import Layout


def layout_in(folder: Path, pipeline: str = "shop") -> Layout:
    return Layout(pipeline, bronze="b", path=str(folder / "it's a lake"))


def test_tables_are_made_once_in_the_shape_of_the_contract(spark: SparkSession, tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    create_bronze(spark, layout)
    create_bronze(spark, layout)
    assert len(history(spark, layout.changes)) == 1
    contract = spark.createDataFrame([], bronze_row.SCHEMA).schema
    assert [(f.name, f.dataType) for f in read(spark, layout.changes).schema] == [
        (f.name, f.dataType) for f in contract
    ]
    with pytest.raises(Exception, match="DELTA_CANNOT_MODIFY_APPEND_ONLY"):
        spark.sql(f"DELETE FROM {layout.changes.sql}")


def test_a_table_of_another_pipeline_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    theirs, ours = layout_in(tmp_path, "theirs"), layout_in(tmp_path, "ours")
    create(spark, theirs.schemas, [("a", "int")], pipeline="theirs", comment="", properties={})
    with pytest.raises(DefiniteError, match="belongs to the pipeline theirs"):
        create_bronze(spark, ours)
    assert not exists(spark, ours.changes)
    spark.sql(f"CREATE TABLE {ours.changes.sql} (seq INT) USING delta")
    with pytest.raises(DefiniteError, match="belongs to somebody else"):
        create_bronze(spark, ours)
    assert len(history(spark, ours.changes)) == 1


def test_a_table_of_another_shape_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    create(spark, layout.changes, CHANGES[:-1], pipeline="shop", comment="", properties={})
    with pytest.raises(DefiniteError, match="other columns than expected: schema_id"):
        create_bronze(spark, layout)
    assert not exists(spark, layout.schemas)


def test_a_folder_with_something_else_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    folder = Path(layout.changes.path or "")
    folder.mkdir(parents=True)
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(DefiniteError, match="not a Delta table"):
        create_bronze(spark, layout)
    assert [p.name for p in folder.iterdir()] == ["thesis.txt"]


def test_tables_made_beside_other_work_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """They are there when it ends, and another pipeline's are refused before anything begins."""
    layout = layout_in(tmp_path)
    with BronzeMaker(spark, layout) as making:
        for table in (layout.changes, layout.schemas):
            making.wait(table)
            assert exists(spark, table)
    with BronzeMaker(spark, layout):
        pass
    assert len(history(spark, layout.changes)) == len(history(spark, layout.schemas)) == 1
    with pytest.raises(DefiniteError, match="belongs to the pipeline shop"):
        BronzeMaker(spark, layout_in(tmp_path, "other"))


def test_why_a_table_could_not_be_made_is_what_is_said(spark: SparkSession, tmp_path: Path) -> None:
    """Also when something else fails first for want of it; but an interruption stays one."""
    layout = layout_in(tmp_path)
    unmade = patch.object(tables, "create", side_effect=OSError("no room"))
    with unmade, pytest.raises(OSError, match="no room"), BronzeMaker(spark, layout):
        raise RuntimeError("there is no such table")
    with unmade, pytest.raises(OSError, match="no room"), BronzeMaker(spark, layout) as making:
        making.wait(layout.schemas)
    with unmade, pytest.raises(KeyboardInterrupt), BronzeMaker(spark, layout):
        raise KeyboardInterrupt
