"""The checksum of a version says what the table is then, and a version that lacks one costs no more than time."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakehouse_cdc.bronze.compaction import put_together
from lakehouse_cdc.lake.commits import application
from lakehouse_cdc.lake.direct import checksum
from lakehouse_cdc.lake.direct.change_files import written
from lakehouse_cdc.lake.direct.commit import DataFile, add_files
from lakehouse_cdc.model.table_layout import Table
from tests.support.bronze_rows import TABLES, random_rows
from tests.support.change_tables import change_table
from tests.support.commit_notes import note


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
    assert said(table)["setTransactions"] == [{"appId": other, "version": 7}, {"appId": app, "version": 3}]
    assert [entry.name for entry in log(table).iterdir() if entry.name.startswith(".")] == []


@pytest.mark.parametrize("torn", [None, "", "{"])
def test_where_one_is_missing_the_next_is_counted(table: Table, torn: str | None) -> None:
    for batch in range(3):
        add(table, batch)
    if torn is None:
        path(table, 3).unlink()
    else:
        path(table, 3).write_text(torn)
    add(table, 3)
    assert "setTransactions" not in said(table)
    add(table, 4)
    assert "setTransactions" not in said(table)


def test_none_is_made_of_another_table(table: Table) -> None:
    """The newest that there is has other properties than the table, so it says nothing of the table."""
    add(table, 0)
    DeltaTable(str(table.path)).alter.set_table_properties({"delta.logRetentionDuration": "interval 1 day"})
    path(table, 2).unlink(missing_ok=True)
    add(table, 1)
    assert not path(table, 3).exists()


def test_those_go_whose_commits_are_gone(table: Table) -> None:
    for batch in range(3):
        add(table, batch)
    for name in (".00000000000000000001.crc.crc", ".00000000000000000000.json.crc"):
        (log(table) / name).touch()
    checksum.remove_old(str(log(table)))
    assert path(table, 0).exists()
    for version in (0, 1):
        (log(table) / f"{version:020}.json").unlink()
    checksum.remove_old(str(log(table)))
    assert sorted(name for name in os.listdir(log(table)) if name.endswith(".crc")) == [
        f"{version:020}.crc" for version in (2, 3)
    ]


def test_a_commit_is_made_also_where_no_checksum_can_be_written(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError("full")

    with monkeypatch.context() as patched:
        patched.setattr(checksum, "write", refused)
        add(table, 0)
    assert not path(table, 1).exists()
    add(table, 1)
    assert said(table)["numFiles"] > 0
