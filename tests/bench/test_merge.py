"""The benchmark measures what it says, and sees when a table is wrong."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pyspark.sql import SparkSession

from bench.check import require_right
from bench.lake import Lake
from bench.machine import machine
from bench.merge import QUICK, prepared, run
from bench.report import write
from bench.rows import KEYS, Sample


@pytest.mark.long
@pytest.mark.timeout(0)
def test_a_small_run_is_right_and_says_what_it_cost(spark: SparkSession, tmp_path: Path) -> None:
    runs = run(tmp_path / "tables", QUICK)
    assert [(one.scd, one.keys) for one in runs] == [(scd, keys) for scd in (1, 2) for keys in KEYS]
    for one in runs:
        assert one.seconds > 0
        assert 0 < one.bytes_written < one.table_bytes
        assert one.share == pytest.approx(one.bytes_written / one.table_bytes, abs=1e-5)
        assert one.files_read >= 1
        assert one.files_touched >= 1
    data = {"machine": machine(), "changes": QUICK.changes, "runs": [asdict(one) for one in runs]}
    write(tmp_path, "merge", data)
    assert (tmp_path / "RESULTS.md").read_text().count("\n| ") == 1 + len(runs)
    drawn = [ElementTree.parse(tmp_path / f"merge-scd{scd}.svg").findall("{*}circle") for scd in (1, 2)]
    assert sum(map(len, drawn)) == len(runs)
    # one row less, and one that holds something else
    lake = Lake(spark, prepared(spark, tmp_path / "tables", 2_000), 1)
    require_right(spark, lake, 2_000, {}, 1)
    for wrong in ("DELETE FROM {} WHERE id = 8", "UPDATE {} SET status = 'lost' WHERE id = 10"):
        spark.sql(wrong.format(lake.silver.sql))
        with pytest.raises(AssertionError, match="and should hold"):
            require_right(spark, lake, 2_000, {}, 1)


@pytest.mark.parametrize("keys", KEYS)
def test_a_sample_holds_so_many_changes(keys: str) -> None:
    sample = Sample.draw("near" if keys == "near" else "random", 1_000, 100, seed=1)
    every = [*sample.updated, *sample.deleted, *sample.inserted]
    assert (len(sample.updated), len(sample.deleted), len(sample.inserted)) == (80, 10, 10)
    assert len(set(every)) == 100
    assert {i % 2 for i in sample.inserted} == {1}
    assert (max(every) - min(every) < 2 * 100) == (keys == "near")
