"""Spark is asked where the reader of folders does not know the answer, for all of the question, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.lake.readers.choice import ReaderOnDemand
from lakehouse_cdc.model.table_layout import Table

pytestmark = pytest.mark.unit


class AskedError(Exception):
    """A session was asked for."""


def ask() -> SparkSession:
    raise AskedError


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table("s", "t", root=str(tmp_path))
    write_deltalake(str(made.path), pa.table({"id": [1, 2, 3], "t": ["a", None, "c"]}))
    return made


def test_a_table_in_a_folder_is_read_without_a_session(table: Table) -> None:
    reader = ReaderOnDemand(ask)
    assert reader.exists(table)
    assert not reader.exists(Table("s", "other", root=table.root))
    assert (reader.count(table), reader.count(table, "t")) == (3, 1)
    assert sorted(row["id"] for row in reader.rows(table, ["id"])) == [1, 2, 3]
    assert reader.columns(table) == [("id", "bigint"), ("t", "string")]
    assert [commit.version for commit in reader.commits(table)] == [0]


def test_a_catalog_is_sparks() -> None:
    with pytest.raises(AskedError):
        ReaderOnDemand(ask).exists(Table("s", "t", catalog="main"))


def test_what_deltalake_does_not_know_is_asked_of_spark(table: Table) -> None:
    """A feature of rows: how many there are is known all the same."""
    log = Path(str(table.path), "_delta_log")
    protocol = {
        "minReaderVersion": 3, "minWriterVersion": 7,
        "readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening"],
    }  # fmt: skip
    (log / f"{1:020}.json").write_text(json.dumps({"protocol": protocol}))
    reader = ReaderOnDemand(ask)
    assert reader.count(table) == 3
    with pytest.raises(AskedError):
        reader.rows(table, ["id"])


def test_a_folder_whose_name_deltalake_does_not_take(tmp_path: Path) -> None:
    odd, reader = Table("s", "100%", root=str(tmp_path)), ReaderOnDemand(ask)
    assert not reader.exists(odd)
    Path(str(odd.path), "_delta_log").mkdir(parents=True)
    Path(str(odd.path), "_delta_log", f"{0:020}.json").touch()
    assert reader.exists(odd)
    with pytest.raises(AskedError):
        reader.properties(odd)


def test_a_log_that_is_damaged_is_for_delta_to_judge(table: Table) -> None:
    Path(str(table.path), "_delta_log", f"{1:020}.json").write_text("{")
    with pytest.raises(AskedError):
        ReaderOnDemand(ask).properties(table)


def test_an_error_of_ours_is_the_answer(tmp_path: Path) -> None:
    other = Table("s", "t", root=str(tmp_path))
    Path(str(other.path)).mkdir(parents=True)
    Path(str(other.path), "file").touch()
    with pytest.raises(DefiniteError, match="not a Delta table"):
        ReaderOnDemand(ask).exists(other)
