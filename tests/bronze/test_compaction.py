"""Small files of bronze are put together: each row is what it was, and readers of changes see nothing."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lakehouse_cdc.bronze import compaction
from lakehouse_cdc.bronze.compaction import put_together, together
from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.lake.direct.change_files import written
from lakehouse_cdc.lake.direct.commit import DataFile, add_files
from lakehouse_cdc.lake.direct.file_listing import files_of
from lakehouse_cdc.lake.direct.replacement import LiveFile
from lakehouse_cdc.lake.failpoints import Door, Moment
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.bronze_row import PARTITION
from lakehouse_cdc.model.table_layout import Table
from tests.support.bronze_rows import TABLES, random_rows
from tests.support.change_tables import change_table
from tests.support.commit_notes import note
from tests.support.crash_points import Crash, failing_at, hooked


def files(table: Table, seed: int, rows: int = 40) -> list[DataFile]:
    lines = written([random_rows(random.Random(seed), rows)], str(table.path))
    return [DataFile(**line) for batch in lines for line in batch.to_pylist()]


def live(table: Table) -> dict[str, list[str]]:
    """The files that the table has now, by source table."""
    listed = pa.table(DeltaTable(str(table.path)).get_add_actions())
    found: dict[str, list[str]] = {name: [] for name in TABLES}
    for one in listed.to_pylist():
        found[one["partition"][PARTITION]].append(unquote(one["path"]))
    return found


def rows(table: Table, name: str) -> list[str]:
    """Every row in full, sorted; those of a file come in the order in which they were written."""
    tables = [pq.read_table(Path(str(table.path), path), partitioning=None) for path in live(table)[name]]
    return sorted(repr(row) for one in tables for row in one.to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Three files of each source table."""
    made = change_table(tmp_path)
    for batch in range(3):
        add_files(made, files(made, batch), note(batch), "changes")
    return made


def test_files_of_every_writer_are_put_together(table: Table) -> None:
    """Also one whose path another release has encoded otherwise."""
    [other] = [file for file in files(table, 7, 30) if file.source_table == TABLES[1]]
    added = {
        "path": quote(unquote(other.path), safe="/"), "partitionValues": dict(other.partition), "size": other.size,
        "modificationTime": other.modified, "dataChange": True, "stats": other.stats,
    }  # fmt: skip
    assert "%3D" in str(added["path"])
    Path(str(table.path), "_delta_log", f"{4:020}.json").write_text(json.dumps({"add": added}))
    wanted = {name: rows(table, name) for name in TABLES}
    for name, number in zip(TABLES, (3, 4, 3, 3), strict=True):
        assert put_together(table, name) == number
        assert put_together(table, name) == 0
        assert len(live(table)[name]) == 1
    assert {name: rows(table, name) for name in TABLES} == wanted
    assert DeltaTable(str(table.path)).version() == 8
    assert files_of(table, Versions(4, 8)) == []
    assert [file.rows for file in files_of(table, Versions(None, 8)) or []] == [len(wanted[name]) for name in TABLES]


def test_statistics_are_those_of_all_rows(table: Table) -> None:
    before = [file.stats for file in files_of(table, Versions(None, 3), {PARTITION: TABLES[0]}) or []]
    put_together(table, TABLES[0])
    [now] = [file.stats for file in files_of(table, Versions(None, 4), {PARTITION: TABLES[0]}) or []]
    for which, choose in (("minValues", min), ("maxValues", max)):
        for column in ("seq", "op", "commit_ts", "schema_id"):
            assert now[which][column] == choose(one[which][column] for one in before)
    assert now["numRecords"] == sum(one["numRecords"] for one in before)


@pytest.mark.parametrize("moment", Moment)
def test_a_crash_leaves_the_old_files_or_the_new_one(table: Table, moment: Moment) -> None:
    wanted = rows(table, TABLES[0])
    with failing_at(Door.ADD, moment, "changes", error=Crash), pytest.raises(Crash):
        put_together(table, TABLES[0])
    assert len(live(table)[TABLES[0]]) == (3 if moment is Moment.BEFORE else 1)
    assert rows(table, TABLES[0]) == wanted
    put_together(table, TABLES[0])
    assert len(live(table)[TABLES[0]]) == 1
    assert rows(table, TABLES[0]) == wanted


def test_what_the_stream_adds_meanwhile_stays(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*given: Any) -> Any:
        add_files(table, files(table, 50), note(3), "changes")
        return written(*given)

    monkeypatch.setattr(compaction, "written", slowly)
    before = len(rows(table, TABLES[0]))
    put_together(table, TABLES[0])
    assert len(live(table)[TABLES[0]]) == 2
    assert len(rows(table, TABLES[0])) > before


def test_what_the_stream_adds_at_the_same_moment_stays(table: Table) -> None:
    """Just before the commit, after all else."""
    waiting, before = [files(table, 50)], len(rows(table, TABLES[0]))

    def add(_: Door, moment: Moment, __: str) -> None:
        if moment is Moment.BEFORE and waiting:
            add_files(table, waiting.pop(), note(3), "changes")

    with hooked(add):
        put_together(table, TABLES[0])
    assert len(live(table)[TABLES[0]]) == 2
    assert len(rows(table, TABLES[0])) > before
    assert DeltaTable(str(table.path)).version() == 5


def test_what_another_has_put_together_meanwhile_is_refused(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*given: Any) -> Any:
        monkeypatch.setattr(compaction, "written", written)
        put_together(table, TABLES[0])
        return written(*given)

    wanted = rows(table, TABLES[0])
    monkeypatch.setattr(compaction, "written", slowly)
    with pytest.raises(DefiniteError) as refused:
        put_together(table, TABLES[0])
    assert refused.value.code is codes.DELTA_FAILED
    assert rows(table, TABLES[0]) == wanted


def test_it_can_be_given_up(table: Table) -> None:
    assert put_together(table, TABLES[0], lambda: True) == 0
    assert len(live(table)[TABLES[0]]) == 3


def test_files_are_put_together_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FILE", 10)

    def groups(*sizes: int) -> list[list[int]]:
        return [[file.size for file in group] for group in together([LiveFile("", "", size, {}) for size in sizes])]

    assert groups() == groups(3) == groups(6, 6, 6) == []
    assert groups(3, 3, 4, 1) == [[3, 3, 4]]
    assert groups(9, 4, 4, 4, 1, 9, 2) == [[4, 4], [4, 1]]
