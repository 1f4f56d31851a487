"""Files of a table's log that a crash leaves half written: Delta overwrites them in place, on a local disk.

These are what Delta can do without, so nothing may depend on them: not the rows, and not that a batch comes in once.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.engines.direct import DirectEngine
from lakehouse_cdc.lake.tables import alter, create, read
from lakehouse_cdc.model.table_layout import Layout, Table
from tests.support.commit_notes import note
from tests.support.delta_library import forget

_COLUMNS = [("a", "bigint")]


def add(spark: SparkSession, table: Table, batch: int) -> None:
    DirectEngine(spark).append(table, _COLUMNS, [{"a": batch}], note(batch), "step", ["a"])


def held(spark: SparkSession, table: Table) -> list[int]:
    return sorted(row["a"] for row in read(spark, table).collect())


@pytest.mark.parametrize(
    ("kept", "sum_of_file"),
    [
        pytest.param(0.5, True, id="half-sum"),
        *(pytest.param(*case, marks=pytest.mark.long) for case in [(0.0, True), (0.0, False), (0.5, False)]),
    ],
)
def test_a_torn_file_beside_the_commits_loses_and_repeats_nothing(
    spark: SparkSession, tmp_path: Path, kept: float, sum_of_file: bool
) -> None:
    table = Layout("tests", bronze="b", silver="s", path=str(tmp_path)).ledger
    create(spark, table, _COLUMNS, pipeline="tests", properties={"delta.checkpointInterval": "3"}, comment="")
    for batch in range(5):
        add(spark, table, batch)
    if sum_of_file:  # Spark keeps one beside each file
        alter(spark, table, f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('a' = 'b')")
    log = Path(str(table.path), "_delta_log")
    torn = [log / "_last_checkpoint", max(log.glob("0*.crc"))]
    for file in torn:
        whole = file.read_bytes()
        assert len(whole) > 50
        file.write_bytes(whole[: int(len(whole) * kept)])
        beside = file.with_name(f".{file.name}.crc")
        assert beside.exists() == sum_of_file
    forget(spark)
    assert held(spark, table) == [*range(5)]
    add(spark, table, 4)  # again
    assert held(spark, table) == [*range(5)]
    for batch in (5, 6, 7):
        add(spark, table, batch)
    assert held(spark, table) == [*range(8)]
    assert json.loads(torn[0].read_text())["version"] == (9 if sum_of_file else 6)  # written again
