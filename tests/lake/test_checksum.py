"""The checksum of a version says what the table is then, and a version that lacks one costs no more than time."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse_cdc.bronze.compaction import put_together
from lakehouse_cdc.bronze.tables import create_bronze
from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.lake import checksum
from lakehouse_cdc.lake.commits import application
from lakehouse_cdc.lake.direct import newest_version
from lakehouse_cdc.lake.direct.change_files import written
from lakehouse_cdc.lake.direct.commit import DataFile, add_files
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.table_layout import Layout, Table
from tests.support.bronze_rows import TABLES, random_rows
from tests.support.change_tables import change_table
from tests.support.commit_notes import note
from tests.support.delta_library import forget, snapshot


def add(table: Table, batch: int, step: str = "changes") -> None:
    lines = written([random_rows(random.Random(batch), 20)], str(table.path))
    files = [DataFile(**line) for lot in lines for line in lot.to_pylist()]
    add_files(table, files, note(batch), step)


def log(table: Table) -> Path:
    return Path(str(table.path), "_delta_log")


def path(table: Table, version: int) -> Path:
    return log(table) / f"{version:020}.crc"


def first(table: Table) -> None:
    """That of the first version, as Spark writes it."""
    actions = [json.loads(line) for line in (log(table) / f"{0:020}.json").read_text().splitlines()]
    [metadata, protocol] = [one[kind] for kind in ("metaData", "protocol") for one in actions if kind in one]
    said = {
        "txnId": "an-id", "tableSizeBytes": 0, "numFiles": 0, "numMetadata": 1, "numProtocol": 1, "setTransactions": [],
        "domainMetadata": [], "metadata": metadata, "protocol": protocol,
        "fileSizeHistogram": {"sortedBinBoundaries": [0], "fileCounts": [0], "totalBytes": [0]},
    }  # fmt: skip
    path(table, 0).write_text(json.dumps(said))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = change_table(tmp_path)
    first(made)
    return made


def said(table: Table) -> dict[str, Any]:
    """That of the newest version, which must say what deltalake counts."""
    opened = DeltaTable(str(table.path))
    found: dict[str, Any] = json.loads(path(table, opened.version()).read_text())
    sizes = pa.table(opened.get_add_actions()).column("size_bytes").to_pylist()
    assert (found["numFiles"], found["tableSizeBytes"]) == (len(sizes), sum(sizes))
    assert found["metadata"]["id"] == str(opened.metadata().id)
    assert "txnId" not in found
    assert "fileSizeHistogram" not in found
    return found


def test_it_says_what_the_table_is_after_commits_of_every_kind(table: Table) -> None:
    for batch in range(3):
        add(table, batch)
    add(table, 7, "schemas")
    put_together(table, TABLES[0])
    app, other = (application(note(0), step) for step in ("changes", "schemas"))
    assert said(table)["setTransactions"] == [{"appId": app, "version": 2}, {"appId": other, "version": 7}]
    add(table, 3)
    assert said(table)["setTransactions"] == [{"appId": app, "version": 3}, {"appId": other, "version": 7}]
    assert [entry.name for entry in log(table).iterdir() if entry.name.startswith(".")] == []


@pytest.mark.parametrize("torn", [None, "", "{", "{}", "[]"])
@pytest.mark.parametrize("interval", ["2", "100"])
def test_where_one_is_missing_the_log_says_the_same(table: Table, torn: str | None, interval: str) -> None:
    """With a checkpoint before it, or at it, and without one."""
    DeltaTable(str(table.path)).alter.set_table_properties({"delta.checkpointInterval": interval})
    add(table, 5, "schemas")
    for batch in range(3):
        add(table, batch)
        put_together(table, TABLES[batch])
        newest = path(table, DeltaTable(str(table.path)).version())
        whole = json.loads(newest.read_text())
        if torn is None:
            newest.unlink()
        else:
            newest.write_text(torn)
        assert checksum.checksum_of(str(table.path), int(newest.stem)) == whole
        add(table, batch)  # again: that it is in is known by the log
        assert not path(table, int(newest.stem) + 1).exists()
        assert checksum.newest_version(str(table.path)) == int(newest.stem)
    add(table, 3)
    assert len(said(table)["setTransactions"]) == 2


def test_what_the_log_does_not_simply_say_is_not_made(table: Table) -> None:
    """A deletion vector; a log that has lost its beginning; nothing at all."""
    add(table, 0)
    vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 1, "cardinality": 1}
    added = {"path": "a", "partitionValues": {}, "size": 1, "dataChange": True, "deletionVector": vector}
    (log(table) / f"{2:020}.json").write_text(json.dumps({"add": added}))
    assert checksum.checksum_of(str(table.path), 2) is None
    (log(table) / f"{2:020}.json").unlink()
    path(table, 1).unlink()
    (log(table) / f"{0:020}.json").unlink()
    assert checksum.checksum_of(str(table.path), 1) is None
    with pytest.raises(DefiniteError) as refused:
        add(table, 1)
    assert refused.value.code is codes.DELTA_FAILED
    assert checksum.newest_version(str(table.path) + "nowhere") is None


def test_the_newest_version_is_known_whatever_is_left_of_the_log(table: Table) -> None:
    for batch in range(4):
        add(table, batch)
    DeltaTable(str(table.path)).create_checkpoint()
    add(table, 4)
    hint = log(table) / "_last_checkpoint"
    for text in (hint.read_text(), "{", "", json.dumps({"version": 2}), json.dumps({"version": 77})):
        hint.write_text(text)
        assert checksum.newest_version(str(table.path)) == 5
    hint.unlink()
    for version in range(4):
        (log(table) / f"{version:020}.json").unlink()
    assert checksum.newest_version(str(table.path)) == 5


def test_those_go_whose_commits_are_gone(table: Table) -> None:
    for batch in range(3):
        add(table, batch)
    for name in (".00000000000000000001.crc.crc", ".00000000000000000000.json.crc"):
        (log(table) / name).touch()
    for name, age in ((".making-old", 100_000), (".making-now", 0)):
        (log(table) / name).touch()
        os.utime(log(table) / name, (time.time() - age,) * 2)
    left = Path(str(table.path), ".making-too")
    (left / "_delta_log").mkdir(parents=True)
    checksum.remove_old(str(table.path), 3)
    assert left.exists()
    os.utime(left, (time.time() - 100_000,) * 2)
    assert path(table, 0).exists()
    for version in (0, 1):
        (log(table) / f"{version:020}.json").unlink()
    checksum.remove_old(str(table.path), 3)
    assert sorted(name for name in os.listdir(log(table)) if name.endswith(".crc")) == [
        f"{version:020}.crc" for version in (2, 3)
    ]
    assert [path.name for path in log(table).glob(".making-*")] == [".making-now"]
    assert not left.exists()


def test_those_of_long_ago_go(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that is at such a version asks the log."""
    monkeypatch.setattr(checksum, "_SUMMED", 1)
    for batch in range(4):
        add(table, batch)
    before = checksum.checksum_of(str(table.path), 1)
    checksum.remove_old(str(table.path), 4)
    assert sorted(name for name in os.listdir(log(table)) if name.endswith(".crc")) == [
        f"{version:020}.crc" for version in (3, 4)
    ]
    assert checksum.checksum_of(str(table.path), 1) == before


def test_delta_takes_it_for_its_own(spark: SparkSession, tmp_path: Path) -> None:
    """It asks for no state of the table, and continues it; at a checkpoint it holds both against each other."""
    layout = Layout("tests", bronze="b", path=str(tmp_path))
    create_bronze(spark, layout)
    for batch in range(3):
        add(layout.changes, batch)
    put_together(layout.changes, TABLES[0])
    forget(spark)
    newest = snapshot(spark, layout.changes)
    assert newest.version() == 4
    assert newest.checksumOpt().isDefined()
    ours = said(layout.changes)
    for name in ("a", "b"):
        spark.sql(f"ALTER TABLE {layout.changes.sql} SET TBLPROPERTIES ('{name}' = '1')")
        theirs = json.loads(path(layout.changes, DeltaTable(str(layout.changes.path)).version()).read_text())
        assert {key: theirs[key] for key in ("numFiles", "tableSizeBytes", "setTransactions")} == {
            key: ours[key] for key in ("numFiles", "tableSizeBytes", "setTransactions")
        }
        spark.sql(f"ALTER TABLE {layout.changes.sql} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    add(layout.changes, 3)
    assert list(log(layout.changes).glob(f"{9:020}.checkpoint.parquet"))
    assert said(layout.changes)["metadata"]["configuration"]["b"] == "1"
    forget(spark)
    assert read(spark, layout.changes).count() == 80


def test_a_commit_is_made_also_where_no_checksum_can_be_written(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError("full")

    with monkeypatch.context() as patched:
        patched.setattr(newest_version, "write_checksum", refused)
        add(table, 0)
    assert not path(table, 1).exists()
    add(table, 1)
    assert said(table)["numFiles"] > 0
