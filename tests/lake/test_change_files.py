"""Files that are written beside Spark are the table that Spark's own writer would have made of the rows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakehouse_cdc.bronze.schema_registry import add_schemas, record_schemas
from lakehouse_cdc.bronze.tables import create_bronze
from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.checksum import state_by_checksum, state_by_log
from lakehouse_cdc.lake.commits import history, writer_options
from lakehouse_cdc.lake.direct import change_files
from lakehouse_cdc.lake.direct.commit import DataFile, add_files
from lakehouse_cdc.lake.direct.newest_version import can_commit
from lakehouse_cdc.lake.tables import append, properties, read, require_owner
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.bronze_arrow import ARROW
from lakehouse_cdc.model.bronze_row import PARTITION
from lakehouse_cdc.model.commit_note import CommitNote, SourcePoint
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.source.bronze_rows import plain as plain_rows
from tests.support import delta_library
from tests.support.bronze_rows import BEGAN, TABLES, random_rows, shared
from tests.support.bronze_writer import variant_column


def note(batch: int) -> CommitNote:
    return CommitNote("tests", "a-query", batch, SourcePoint(1, "u", "binlog.000001", batch))


def listed(lines: Sequence[pa.RecordBatch]) -> list[DataFile]:
    return [DataFile(**line) for batch in lines for line in batch.to_pylist()]


def plain(frame: DataFrame) -> list[str]:
    """Every row in full, sorted."""
    images = [f"to_json({name}) AS {name}" for name in ("key", "before", "after")]
    others = ("seq", "op", "source_table", "commit_ts", "position", "schema_id")
    return sorted(str(row) for row in frame.selectExpr(*others, *images).collect())


@pytest.fixture
def layouts(spark: SparkSession, tmp_path: Path) -> tuple[Layout, Layout]:
    """Two empty lakes: for files, and for Spark's writer."""
    made = [Layout("tests", bronze="b", path=str(tmp_path / name)) for name in ("files", "rows")]
    for layout in made:
        create_bronze(spark, layout)
    return made[0], made[1]


@pytest.mark.long
def test_schemas_are_those_that_spark_would_read_back(spark: SparkSession, layouts: tuple[Layout, Layout]) -> None:
    """Every character of a statement and of a name; tables that are left off; a replay."""
    ours, theirs = layouts
    odd = "it's \"\\\\ü\n\t\x01\x1f\x7f\u2028 😀 </"
    afters: list[Any] = [
        {"table": "t", "columns": [{"name": odd, "length": 3, "unsigned": False, "values": ["a", odd]}], "key": ["id"]},
        {"columns": [], "statement": f"ALTER TABLE t COMMENT '{odd}'", "origin": {odd: "b"}, "filled": {}},
        {"dropped": True, "statement": "DROP TABLE t"},
        {"quarantined": odd},
    ]
    rows = random_rows(Random(3), 12).to_pylist()
    rows = [{**row, "op": "s" if i % 3 == 0 else "r"} for i, row in enumerate(rows)]
    images = iter(afters)
    given = variant_column([next(images) if row["op"] == "s" else None for row in rows])
    batch = pa.RecordBatch.from_pylist([{**row, "after": None} for row in rows], schema=ARROW)
    batch = batch.set_column(ARROW.get_field_index("after"), ARROW.field("after"), given)
    lines = listed(list(change_files.written([batch], str(ours.changes.path))))
    add_files(ours.changes, lines, note(0), "changes")
    for _ in range(2):
        add_schemas(spark, ours, lines, note(0))
    append(
        spark.createDataFrame(pa.Table.from_batches([batch])),
        theirs.changes,
        writer_options(note(0), "changes"),
        (PARTITION,),
    )
    record_schemas(spark, theirs, Versions(0, 1), note(0))
    found, wanted = (read(spark, layout.schemas).orderBy("seq").collect() for layout in layouts)
    assert len(wanted) == len(afters)
    for ours_row, theirs_row in zip(found, wanted, strict=True):  # one says \\u001f where the other says \\u001F
        said, told = ours_row.asDict(recursive=True), theirs_row.asDict(recursive=True)
        assert json.loads(said.pop("schema") or "0") == json.loads(told.pop("schema") or "0")
        assert said == told
    assert [row["schema"] is None for row in sorted(found)].count(True) == 2
    [ours_said, theirs_said] = [history(spark, layout.schemas)[0] for layout in layouts]
    assert (ours_said.rows, ours_said.note, ours_said.version) == (theirs_said.rows, theirs_said.note, 1)


@pytest.mark.parametrize("seed", range(20))
def test_shared_rows_are_the_same_rows_and_a_file_has_no_words_of_other_tables(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    rows = [random_rows(random, random.choice((0, 1, 50))) for _ in range(3)]
    given = [shared(random, batch) for batch in rows]
    cut = [batch.slice(random.randrange(len(batch) + 1)) for batch in given]
    assert [plain_rows(batch) for batch in given] == rows
    assert [plain_rows(batch).to_pylist() for batch in cut] == [
        batch.slice(len(batch) - len(rest)).to_pylist() for batch, rest in zip(rows, cut, strict=True)
    ]
    lines = listed(list(change_files.written(given, str(tmp_path))))
    assert sum(line.count for line in lines) == sum(map(len, rows))
    for line in lines:
        found = pq.read_table(tmp_path / unquote(line.path), partitioning=None)
        wanted = [row for batch in rows for row in batch.to_pylist() if row["source_table"] == line.source_table]
        assert found.to_pylist() == [{k: v for k, v in row.items() if k != "source_table"} for row in wanted]
        with pq.ParquetFile(tmp_path / unquote(line.path), read_dictionary=["schema_id"]) as file:
            ids = file.read(columns=["schema_id"]).column("schema_id")
        for chunk in ids.chunks:
            assert sorted(chunk.dictionary.to_pylist()) == sorted(set(chunk.to_pylist()))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_the_table_is_the_one_that_spark_would_write(
    spark: SparkSession, layouts: tuple[Layout, Layout], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read as a whole, by version, and behind filters that statistics decide about, also past a checkpoint."""
    random, (ours, theirs) = Random(seed), layouts
    monkeypatch.setattr(change_files, "_GROUP_BYTES", 20_000)
    monkeypatch.setattr(change_files, "_HELD_BYTES", 40_000)
    folder = str(ours.changes.path)
    assert can_commit(spark, ours.changes)
    counts: list[int] = []
    for batch in range(12):
        rows = [random_rows(random, random.choice((1, 3, 200))) for _ in range(random.choice((0, 1, 4)))]
        counts.append(sum(map(len, rows)))
        given = [shared(random, each) if seed % 2 else each for each in rows]
        version = add_files(ours.changes, listed(list(change_files.written(given, folder))), note(batch), "changes")
        assert version == batch + 1
        frame: DataFrame = spark.createDataFrame(pa.Table.from_batches(rows or [random_rows(random, 0)], ARROW))
        append(frame, theirs.changes, writer_options(note(batch), "changes"), partition_by=(PARTITION,))
    assert sum(counts) > 300
    found, wanted = read(spark, ours.changes), read(spark, theirs.changes)
    assert plain(found) == plain(wanted)
    for which in (
        f"seq >= {10**36 * 7}BD", "op = 'd'", "schema_id = 'a' AND op < 'd'",
        f"commit_ts > TIMESTAMP'{BEGAN.isoformat()}'",
        f"commit_ts >= TIMESTAMP'{(BEGAN + timedelta(microseconds=4900)).isoformat()}'",
        f"commit_ts <= TIMESTAMP'{(BEGAN + timedelta(microseconds=100)).isoformat()}'", "source_table = 's.1.50'",
    ):  # fmt: skip
        assert plain(found.where(which)) == plain(wanted.where(which)), which
    for bounds in ("min(seq)", "max(seq)", "min(op)", "max(commit_ts)", "count(*)"):
        assert found.selectExpr(bounds).collect() == wanted.selectExpr(bounds).collect(), bounds
    for versions in (Versions(None, 3), Versions(3, 8), Versions(11, 12)):
        assert plain(versions.rows(spark, ours.changes)) == plain(versions.rows(spark, theirs.changes))
    for commit, batch in zip(history(spark, ours.changes), reversed(range(12)), strict=False):
        assert (commit.note, commit.rows) == (note(batch), counts[batch])
    log = Path(folder, "_delta_log")
    assert list(log.glob("*.checkpoint*.parquet"))
    named = {os.path.basename(file) for file in found.inputFiles()}
    there = {path.name for path in Path(folder).rglob("part-*.parquet")}
    assert len(TABLES) <= len(there)
    assert named == there


def test_a_batch_is_added_once(spark: SparkSession, layouts: tuple[Layout, Layout]) -> None:
    """Also one that Spark's writer has committed, and after a checkpoint; the files of the repetition are gone."""
    changes, folder = layouts[0].changes, str(layouts[0].changes.path)
    rows = random_rows(Random(1), 50)
    assert add_files(changes, listed(list(change_files.written([rows], folder))), note(0), "changes") == 1
    there = sorted(Path(folder).rglob("*.parquet"))
    assert add_files(changes, listed(list(change_files.written([rows], folder))), note(0), "changes") is None
    assert sorted(Path(folder).rglob("*.parquet")) == there
    frame: DataFrame = spark.createDataFrame(pa.Table.from_batches([rows]))
    for batch in (0, 1, 1):  # as Spark would, which skips what is in
        append(frame, changes, writer_options(note(batch), "changes"), partition_by=(PARTITION,))
    assert add_files(changes, listed(list(change_files.written([rows], folder))), note(1), "changes") is None
    spark.sql(f"ALTER TABLE {changes.sql} SET TBLPROPERTIES ('delta.checkpointInterval' = '4')")
    assert add_files(changes, [], note(2), "changes") == 4
    assert list(Path(folder, "_delta_log").glob(f"{4:020}.checkpoint.parquet"))
    for batch in (0, 1, 2):
        assert add_files(changes, listed(list(change_files.written([rows], folder))), note(batch), "changes") is None
    assert read(spark, changes).count() == 100


def test_rows_that_end_in_an_error_leave_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither those that were complete by then."""
    monkeypatch.setattr(change_files, "_GROUP_BYTES", 1)

    def failing() -> Iterator[pa.RecordBatch]:
        yield random_rows(Random(2), 30)
        assert list(tmp_path.rglob("*.parquet"))
        raise OSError("lost")

    with pytest.raises(OSError, match="lost"):
        list(change_files.written(failing(), str(tmp_path)))
    assert not list(tmp_path.rglob("*.parquet"))
    assert list(change_files.written([], str(tmp_path))) == []


def test_the_log_says_what_describe_detail_says(spark: SparkSession, layouts: tuple[Layout, Layout]) -> None:
    """The properties of a table; as Delta's library does, and that there is no answer for a table of a catalog."""
    changes = layouts[0].changes
    [(wanted,)] = spark.sql(f"DESCRIBE DETAIL {changes.sql}").select("properties").collect()
    assert properties(spark, changes) == wanted == require_owner(spark, changes, "tests")
    in_catalog = Layout("tests", bronze="b", catalog="main").changes
    assert not can_commit(spark, in_catalog)
    assert delta_log.state(spark, in_catalog) is None
    for table in layouts[0].changes, layouts[0].schemas:
        wanted_state = delta_library.state(spark, table)
        path = str(table.path)
        assert delta_log.state(spark, table) == wanted_state
        assert [state_by_checksum(path), state_by_log(path), delta_log._opened(path)] == [wanted_state] * 3


def test_statistics_are_what_delta_keeps(spark: SparkSession, layouts: tuple[Layout, Layout]) -> None:
    """Of the same rows: numbers, texts, times to the millisecond, NULLs."""
    random, stats = Random(3), []
    rows = random_rows(random, 40).filter(pa.array([True] * 40))
    rows = rows.set_column(2, PARTITION, pa.array(["shop.t"] * 40))
    for layout in layouts:
        if layout is layouts[0]:
            lines = listed(list(change_files.written([rows], str(layout.changes.path))))
            add_files(layout.changes, lines, note(0), "changes")
        else:
            frame: DataFrame = spark.createDataFrame(pa.Table.from_batches([rows])).coalesce(1)
            append(frame, layout.changes, writer_options(note(0), "changes"), partition_by=(PARTITION,))
        log = Path(str(layout.changes.path), "_delta_log", f"{1:020}.json").read_text().splitlines()
        [added] = [json.loads(line)["add"] for line in log if line.startswith('{"add"')]
        assert added["partitionValues"] == {PARTITION: "shop.t"}
        stats.append(json.loads(added["stats"]))
    assert stats[0] == {key: value for key, value in stats[1].items() if key in stats[0]}
    assert not {key for key in stats[1] if key not in stats[0]} - {"tightBounds"}
