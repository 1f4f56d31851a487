"""Deletion vectors that Spark writes mark just the rows that it has deleted, whatever their number and order."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.readers.deletion_vectors import _DIGITS, DeletionVector, vectors_of, z85_decoded
from lakehouse_cdc.lake.readers.direct import DirectReader
from lakehouse_cdc.model.table_layout import Table

ROWS = 200_000  # four containers of 65,536
# what is deleted, by id: few, runs, every other one, most, one at each end, whole containers
CHOICES = {
    "one": "id = 0 OR id = 199999",
    "few": "id % 4099 = 7",
    "runs": "id BETWEEN 1000 AND 60000 OR id BETWEEN 70000 AND 180000",
    "dense": "id % 2 = 1",
    "most": "id % 5 <> 0",
    "containers": "id >= 65536 AND id < 196608",
}


BRIEF = {"few", "runs", "dense"}  # one of each kind of container: an array, runs, a bitmap
CHOSEN = [pytest.param(name, marks=() if name in BRIEF else pytest.mark.long) for name in CHOICES]


@pytest.fixture(scope="module")
def deleted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Table]:
    """The table from which the rows of a choice are deleted."""
    folder = tmp_path_factory.mktemp("vectors")

    @cache
    def made(name: str) -> Table:
        table = Table("s", name, root=str(folder))
        rows = spark.range(0, ROWS, 1, 1).selectExpr("id", "if(id % 3 = 0, NULL, id) AS n")
        rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(str(table.path))
        spark.sql(f"DELETE FROM {table.sql} WHERE {CHOICES[name]}")
        spark.sql(f"DELETE FROM {table.sql} WHERE id % 1000 = 500")  # a vector takes the place of another
        return table

    return made


@pytest.mark.spark
@pytest.mark.parametrize("name", CHOSEN)
def test_rows_that_are_left_are_counted(spark: SparkSession, deleted: Callable[[str], Table], name: str) -> None:
    table = deleted(name)
    rows = spark.read.format("delta").load(str(table.path))
    reader = DirectReader()
    assert reader.count(table) == rows.count() < ROWS
    assert reader.count(table, "n") == rows.where("n IS NULL").count() > 0


@pytest.mark.spark
@pytest.mark.parametrize("name", CHOSEN)
def test_the_same_rows_are_marked(spark: SparkSession, deleted: Callable[[str], Table], name: str) -> None:
    path = str(deleted(name).path)
    [vector] = _vectors(Path(path)).values()
    left = [row.id for row in spark.read.format("delta").load(path).select("id").collect()]
    marked = np.ones(ROWS, np.bool_)
    marked[left] = False
    assert (vector.rows(ROWS) == marked).all()


@pytest.mark.spark
def test_vectors_that_only_a_checkpoint_names(spark: SparkSession, tmp_path: Path) -> None:
    """The log's clean-up takes the commits that gave them."""
    table = Table("s", "t", root=str(tmp_path))
    rows = spark.range(0, 1000, 1, 2).repartition(2, "id")
    rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(str(table.path))
    spark.sql(f"DELETE FROM {table.sql} WHERE id < 300")
    spark.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES (delta.checkpointInterval = 1)")
    log = Path(str(table.path), "_delta_log")
    assert [*log.glob("*.checkpoint.parquet")]
    spark.range(5_000, 5_010).write.format("delta").mode("append").save(str(table.path))
    for version in range(2):
        (log / f"{version:020}.json").unlink()
    for checkpoint in sorted(log.glob("*.checkpoint.parquet"))[1:]:  # the last commit is read from its file
        checkpoint.unlink()
    (log / "_last_checkpoint").unlink()
    assert DirectReader().count(table) == 710


# by RoaringFormatSpec: one bitmap of 64-bit numbers, of one container, which is an array
ARRAY = struct.pack("<iqI", 1681511377, 1, 0) + struct.pack("<II2HI6H", 12346, 1, 0, 5, 16, 3, 4, 7, 11, 18, 29)
RUNS = struct.pack("<iqI", 1681511377, 1, 0) + struct.pack("<IB2HH4H", 12347, 1, 0, 5, 2, 3, 1, 20, 3)


def inside(data: bytes, **changes: Any) -> DeletionVector:
    """A vector that the log itself has."""
    words = struct.unpack(f">{len(data + bytes(-len(data) % 4)) // 4}I", data + bytes(-len(data) % 4))
    text = "".join(_DIGITS[word // 85**n % 85] for word in words for n in range(4, -1, -1))
    assert z85_decoded(text)[: len(data)] == data
    descriptor = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": 6, **changes}
    vector = DeletionVector.of("/nowhere", descriptor)
    assert vector is not None
    return vector


@pytest.mark.unit
def test_a_vector_inside_of_the_log() -> None:
    assert [*np.flatnonzero(inside(ARRAY).rows(30))] == [3, 4, 7, 11, 18, 29]
    assert [*np.flatnonzero(inside(RUNS).rows(30))] == [3, 4, 20, 21, 22, 23]


@pytest.mark.unit
def test_a_text_of_85_digits() -> None:
    """The example of Z85's specification."""
    assert z85_decoded("HelloWorld") == bytes.fromhex("864fd26fb559f75b")


@pytest.mark.unit
@pytest.mark.parametrize("change", [{"cardinality": 7}, {"storageType": "p"}, {"pathOrInlineDv": "0" * 50}])
def test_what_is_not_as_the_log_says_is_not_guessed(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        inside(ARRAY, **change).rows(30)


@pytest.mark.spark
def test_a_damaged_file_is_an_error(deleted: Callable[[str], Table]) -> None:
    path = Path(str(deleted("few").path))
    [vector] = _vectors(path).values()
    [*files] = path.glob("**/deletion_vector_*.bin")
    before = {file: file.read_bytes() for file in files}
    try:
        for file, data in before.items():
            at = random.Random(1).randrange(20, len(data) - 8)
            file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(ValueError, match="damaged"):
            vector.rows(ROWS)
    finally:
        for file, data in before.items():
            file.write_bytes(data)


def _vectors(table: Path) -> dict[str, DeletionVector]:
    newest = max((table / "_delta_log").glob("*.json"))
    actions = map(json.loads, newest.read_text().splitlines())
    paths = [action["add"]["path"] for action in actions if "add" in action]
    return vectors_of(str(table), int(newest.stem), paths)
