"""Codes 5xxx, and those of moments and of `verify`: what is wrong with a lakehouse is put right as the hint says."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_cdc.errors import CdcError, Code, codes
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.failpoints import Door, Moment
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.pipeline.report import Progress
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.verify.settling import settled
from tests.remedies import remedy
from tests.remedies.lake import Lake
from tests.support.crash_points import Crash, failing_at
from tests.support.pipeline_process import Driver
from tests.support.waiting import until

pytestmark = pytest.mark.long


def said(pattern: str, hint: str) -> re.Match[str]:
    """The words of a hint, which matches as a whole."""
    words = re.fullmatch(pattern, hint)
    assert words, hint
    return words


def command(line: str) -> list[str]:
    """The words of a command in a hint, after the program's name and without the file, which a test names itself."""
    program, *words = line.replace(" -c pipeline.yml", "").split()
    assert program == "lakehouse-cdc", line
    return words


# ---------------------------------------------------------------- tables that are not as they were made

THEIRS: dict[str, tuple[Code[Any], str]] = {
    "files": (codes.NOT_A_DELTA_TABLE, r"(move it away), or choose another path or schema under target"),
    "others": (codes.TABLE_FOREIGN, r"drop or (move that table), or choose another schema under target"),
}


@remedy(codes.NOT_A_DELTA_TABLE, codes.TABLE_FOREIGN)
@pytest.mark.parametrize("name", THEIRS)
def test_what_lies_in_the_place_of_a_table_is_moved_away(lake: Lake, tmp_path: Path, name: str) -> None:
    code, hint = THEIRS[name]
    lake.run(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)")
    lake.run(f"INSERT INTO {name} VALUES (1, 1)")
    place = lake.silver(name)
    if code is codes.TABLE_FOREIGN:
        lake.sql(f"CREATE TABLE delta.`{place}` (a INT) USING delta")
    else:
        place.mkdir()
        (place / "notes.txt").write_text("theirs")
    said(hint, lake.refused(3, code, "run", "--once"))
    shutil.move(place, tmp_path / "moved")
    lake.as_new_process()
    lake.continues(name)


@remedy(codes.TABLE_COLUMNS_DIFFER)
def test_a_table_of_silver_that_was_altered_is_moved_away(lake: Lake, tmp_path: Path) -> None:
    lake.sql(f"ALTER TABLE delta.`{lake.silver('t')}` ADD COLUMN odd INT")
    lake.run("UPDATE t SET v = v + 1 WHERE id = 1")
    hint = lake.refused(3, codes.TABLE_COLUMNS_DIFFER, "run", "--once")
    said(r"the table was altered by hand or by another release; (move it away) to have it built again", hint)
    shutil.move(lake.silver("t"), tmp_path / "moved")
    lake.as_new_process()
    lake.continues()


@remedy(codes.SCHEMA_RECORD_DAMAGED)
def test_the_table_of_schemas_is_restored(lake: Lake) -> None:
    schemas = f"delta.`{lake.bronze('schemas')}`"
    [(version,)] = lake.spark.sql(f"DESCRIBE HISTORY {schemas} LIMIT 1").select("version").collect()
    lake.sql(f"ALTER TABLE {schemas} SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
    lake.sql(f"DELETE FROM {schemas}")
    lake.run("UPDATE t SET v = v + 1 WHERE id = 1")
    hint = lake.refused(3, codes.SCHEMA_RECORD_DAMAGED, "run", "--once")
    word = said(r"(restore) the table of schemas; it belongs to the change table", hint)[1]
    lake.sql(f"{word.upper()} TABLE {schemas} TO VERSION AS OF {version}")
    lake.continues()


@remedy(codes.BRONZE_EMPTY)
def test_the_pipeline_is_run_first(lake: Lake, tmp_path: Path) -> None:
    empty, name = ["--set", f"target.path={tmp_path}/empty"], f"{lake.database}.t"
    for asked, *arguments in (
        ["maintain"], ["verify"], ["verify", "--layer", "bronze"], ["signal", "snapshot", name],
        ["as-of", name, "--timestamp", "2026-01-01T00:00:00+00:00"],
    ):  # fmt: skip
        hint = lake.refused(3, codes.BRONZE_EMPTY, asked, *arguments, *empty)
        assert said(r"(run) first", hint)[1] == "run"
    lake.call(0, "run", "--once", *empty)
    lake.run("UPDATE t SET v = v + 1 WHERE id = 1")
    assert lake.call(0, "signal", "snapshot", name, *empty) == {"read_again": [name]}
    tables = lake.call(0, "run", "--once", *empty)["tables"]
    assert [one for one, rows in tables.items() if rows.get("r")] == [name]
    for layer in ("silver", "bronze"):
        assert lake.call(0, "verify", "--layer", layer, *empty)["verified"] is True
    lake.call(0, "maintain", *empty)


@remedy(codes.CHECKPOINT_UNRELATED)
def test_the_change_table_is_put_back(lake: Lake, tmp_path: Path) -> None:
    """The ways out by `reset` are in tests/pipeline/test_belonging.py."""
    shutil.move(lake.bronze(), tmp_path / "moved")
    lake.as_new_process()
    hint = lake.refused(3, codes.CHECKPOINT_UNRELATED, "run", "--once")
    said(r"(put the table back); or lakehouse-cdc reset -c pipeline\.yml deletes .* begin again", hint)
    shutil.move(tmp_path / "moved", lake.bronze())
    lake.as_new_process()
    lake.continues()


# ---------------------------------------------------------------- runs that are in the way


@remedy(codes.PIPELINE_PAUSED)
def test_a_paused_pipeline_resumes(lake: Lake) -> None:
    lake.call(0, "signal", "pause")
    hint = lake.refused(3, codes.PIPELINE_PAUSED, "run", "--once")
    assert said(r"lakehouse-cdc signal -c pipeline\.yml resume", hint)
    assert lake.call(0, *command(hint)) == {"paused": False}
    lake.continues()


@remedy(codes.TABLES_LOCKED)
def test_another_process_ends_its_run_or_pauses(lake: Lake) -> None:
    def maintained() -> bool:
        try:
            Pipeline.from_yaml(lake.file).maintain()
        except CdcError as error:
            if error.code is not codes.TABLES_LOCKED:
                raise
            return False
        return True

    bronze = Path(Pipeline.from_yaml(lake.file).checkpoint("bronze"))
    planned = Checkpoint(str(bronze)).last_offset()
    lake.run("UPDATE t SET v = v + 1 WHERE id = 1")
    with Driver(lake.file) as other:
        assert planned is not None
        other.wait_for(bronze, more_than=planned)
        for asked in (["run", "--once"], ["redact", "--yes"]):
            hint = lake.refused(3, codes.TABLES_LOCKED, *asked)
            assert said(r"(?:let the other run end, or end it|end the run first) \((Ctrl-C)\).*", hint)[1] == "Ctrl-C"
        hint = lake.refused(3, codes.TABLES_LOCKED, "maintain")
        pause, _, resume = said(r"(signal pause), then (maintain), then (signal resume)", hint).groups()
        lake.call(0, *pause.split())
        until(maintained)
        lake.call(0, *resume.split())
        lake.run("UPDATE t SET v = v + 1 WHERE id = 1")
        planned = Checkpoint(str(bronze)).last_offset()
        assert planned is not None
        other.wait_for(bronze, more_than=planned)
        assert other.interrupt()[0] == 130
    lake.as_new_process()
    lake.continues()
    assert lake.call(0, "redact", "--yes") == {"redacted": []}


@remedy(codes.PIPELINE_RUNNING)
def test_a_run_of_this_process_is_ended(lake: Lake) -> None:
    """As in a notebook."""
    pipeline = Pipeline.from_yaml(lake.file, lake.spark)
    begun, failures = threading.Event(), list[BaseException]()

    def at_rest(done: Progress) -> None:
        if done.layer == "silver":
            begun.set()

    def run() -> None:
        try:
            pipeline.run(every_seconds=0.2, progress=at_rest)
        except BaseException as error:
            failures.append(error)

    lake.run("UPDATE t SET v = v + 1 WHERE id = 1")
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert begun.wait(300)
    hint = lake.refused(3, codes.PIPELINE_RUNNING, "redact", "--yes")
    queries = said(r"end the run first: interrupt it, or (stop) the queries in spark\.(streams)\.active", hint)
    for query in getattr(lake.spark, queries[2]).active:
        getattr(query, queries[1])()
    thread.join(300)
    assert not thread.is_alive()
    assert failures == []
    lake.continues()
    assert lake.call(0, "redact", "--yes") == {"redacted": []}


# ---------------------------------------------------------------- moments


def position(lake: Lake) -> str:
    [(file, pos, *_)] = lake.run("SHOW MASTER STATUS")
    return f"{file}:{pos}"


@remedy(codes.MOMENT_NOT_REACHED, codes.MOMENT_UNRESOLVED)
def test_another_moment_is_asked_for(lake: Lake) -> None:
    name = f"{lake.database}.t"
    [(uuid, executed)] = lake.run("SELECT @@server_uuid, @@GLOBAL.gtid_executed")
    held = re.search(rf"{uuid}:(?:\d+-)?(\d+)", executed)
    assert held, executed
    for _ in range(3):
        lake.run("UPDATE t SET v = v + 1 WHERE id = 1")
    then = ["--position", position(lake)]
    hint = lake.refused(3, codes.MOMENT_NOT_REACHED, "as-of", name, *then)
    again = said(r"(run), then ask again; a time is reached once a later transaction has been read", hint)[1]
    lake.call(0, again, "--once")
    assert lake.call(0, "as-of", name, *then)["tables"] == {name: 3}
    last = int(held[1]) + 3  # without the one before it the source was never at this one
    hint = lake.refused(3, codes.MOMENT_UNRESOLVED, "as-of", name, "--gtid", f"{uuid}:1-{last - 2}:{last}")
    said(r"ask for one GTID, (uuid:n), to have the moment after it", hint)
    assert lake.call(0, "as-of", name, "--gtid", f"{uuid}:{last}")["tables"] == {name: 3}
    lake.continues()


@remedy(codes.AS_OF_UNAVAILABLE)
def test_a_moment_at_which_the_table_was_followed_is_asked_for(lake: Lake) -> None:
    name = f"{lake.database}.passing"
    before = position(lake)
    lake.run("CREATE TABLE passing (id INT PRIMARY KEY, v INT)")
    lake.run("INSERT INTO passing VALUES (1, 1), (2, 2)")
    lake.call(0, "run", "--once")
    hint = lake.refused(3, codes.AS_OF_UNAVAILABLE, "as-of", name, "--position", before)
    back = said(r"it goes back to (\S+:\d+) \(.*\): .*", hint)[1]
    assert lake.call(0, "as-of", name, "--position", back)["tables"] == {name: 2}
    lake.run("DROP TABLE passing")
    gone = position(lake)
    lake.continues()
    hint = lake.refused(3, codes.AS_OF_UNAVAILABLE, "as-of", name, "--position", gone)
    file, pos = said(r"ask for a position before (\S+):(\d+)", hint).groups()
    assert lake.call(0, "as-of", name, "--position", f"{file}:{int(pos) - 1}")["tables"] == {name: 2}


# ---------------------------------------------------------------- verify, and repairs


@remedy(codes.PREDICATE_UNUSABLE)
def test_a_condition_is_corrected_or_left_out(lake: Lake) -> None:
    lake.run("CREATE TABLE k (a INT NOT NULL)")
    lake.run("INSERT INTO k VALUES (1), (1), (2)")
    lake.call(0, "run", "--once")
    t, k = (f"{lake.database}.{table}" for table in "tk")
    hint = lake.refused(3, codes.PREDICATE_UNUSABLE, "signal", "snapshot", t, "--where", "w = 1")
    said(
        r"it is asked of MySQL and of Spark, by the (source's names of columns) that are captured and not masked", hint
    )
    assert lake.call(0, "signal", "snapshot", t, "--where", "v > 0")["keys_read_again"] == {t: 3}
    hint = lake.refused(3, codes.PREDICATE_UNUSABLE, "signal", "snapshot", k, "--where", "a > 0")
    said(r"have the whole table read again, (without) a predicate", hint)
    assert lake.call(0, "signal", "snapshot", k) == {"read_again": [k]}
    lake.continues("t", "k")
    lake.run("DROP TABLE k")


@remedy(codes.TABLE_CHANGED_MEANWHILE)
def test_a_table_that_changed_meanwhile_is_verified_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run and a change of a frozen table come between what `verify` looks at first, and the table."""
    lake.run("CREATE TABLE f (id INT PRIMARY KEY, v INT)")
    lake.run("INSERT INTO f VALUES (1, 1), (2, 2)")
    name = f"{lake.database}.f"
    frozen = ["--set", f"tables.{name}.schema_changes=freeze"]
    lake.call(0, "run", "--once", *frozen)
    looked = "lakehouse_cdc.verify.all_tables.settled"

    def meanwhile(offset: Offset, options: SourceOptions) -> Offset:
        monkeypatch.setattr(looked, settled)
        lake.run("ALTER TABLE f RENAME COLUMN v TO w")
        lake.run("UPDATE f SET w = 3 WHERE id = 1")
        lake.call(0, "run", "--once", *frozen)
        return settled(offset, options)

    monkeypatch.setattr(looked, meanwhile)
    failed = lake.call(1, "verify", *frozen)["failed"]
    why = said(rf"\[?{codes.TABLE_CHANGED_MEANWHILE.label}.*[Hh]int: (verify) again.*", failed[name])
    assert lake.call(0, why[1], *frozen)["verified"] is True
    lake.run("DROP TABLE f")
    lake.continues()


# ---------------------------------------------------------------- what Delta's log forgets


def forget_notes(lake: Lake) -> None:
    """As after a month: a commit that is not the pipeline's, a checkpoint of Delta, and no log of what came before."""
    changes = lake.bronze()
    lake.sql(f"ALTER TABLE delta.`{changes}` SET TBLPROPERTIES ('theirs' = '{time.time()}')")
    jvm: Any = lake.spark._jvm
    delta = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(lake.spark._jsparkSession, str(changes))
    delta.checkpoint()
    newest = max(changes.glob("_delta_log/*.json"))
    for entry in changes.glob("_delta_log/*.json"):
        if entry < newest:
            entry.unlink()
            entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)
    lake.as_new_process()


@remedy(codes.BRONZE_POSITION_MISSING)
def test_the_next_commit_says_where_the_source_is(lake: Lake, tmp_path: Path) -> None:
    lake.continues()
    forget_notes(lake)
    shutil.rmtree(lake.silver("t").parent)
    lake.as_new_process()
    hint = lake.refused(3, codes.BRONZE_POSITION_MISSING, "run", "--once")
    place = said(r"move (\S+) away, and run when a captured table has changed: the next commit says it", hint)[1]
    shutil.move(place, tmp_path / "moved")
    lake.continues()


@remedy(codes.BRONZE_COMMIT_MISSING, codes.BRONZE_EMPTY)
def test_a_batch_of_which_the_log_forgot_the_commit(lake: Lake) -> None:
    """The process died between the commit of bronze and the end of the batch."""
    at_once = ["--set", "source.retry_seconds=1"]
    lake.run("UPDATE t SET v = v + 1 WHERE id = 1")
    with failing_at(Door.ADD, Moment.AFTER, "changes", error=Crash):
        lake.call(3, "run", "--once", *at_once)
    forget_notes(lake)
    for _ in range(2):
        hint = lake.refused(3, codes.BRONZE_COMMIT_MISSING, "run", "--once", *at_once)
    line = said(
        r"run again; if it stays, Delta's log no longer has the commit: (lakehouse-cdc reset --keep-tables "
        r"-c pipeline\.yml) begins a new epoch over the tables, in which all are read again", hint,
    )[1]  # fmt: skip
    lake.call(0, *command(line), "--yes")
    assert said(r"(run) first", lake.refused(3, codes.BRONZE_EMPTY, "verify", "--layer", "bronze"))
    every = [name for (name,) in lake.run("SHOW TABLES")]
    lake.continues(*every)
    lake.continues()


# ---------------------------------------------------------------- last: everything is hidden, and deleted


@contextmanager
def damaged(lake: Lake, table: str) -> Iterator[None]:
    """Meanwhile a file of bronze of a table has images of another version of VARIANT."""
    file = max(lake.bronze().glob(f"source_table={lake.database}.{table}/*.parquet"), key=lambda p: p.stat().st_size)
    checksum = file.with_name(f".{file.name}.crc")
    kept = {path: path.read_bytes() for path in (file, checksum) if path.exists()}
    whole = pq.ParquetFile(file).read()
    at = whole.column_names.index("after")
    images = whole.column("after").combine_chunks()
    stored = images.storage if isinstance(images, pa.ExtensionArray) else images
    parts = [stored.field(part) for part in stored.type.names]
    metadata = stored.type.names.index("metadata")
    wrong = [bytes([text[0] ^ 0x0E]) + text[1:] if text else text for text in parts[metadata].to_pylist()]
    parts[metadata] = pa.array(wrong, parts[metadata].type)
    column = pa.StructArray.from_arrays(parts, fields=list(stored.type), mask=stored.is_null())
    pq.write_table(whole.set_column(at, pa.field("after", column.type), column), file)
    checksum.unlink(missing_ok=True)
    yield
    for path, content in kept.items():
        path.write_bytes(content)


@remedy(codes.VARIANT_UNREADABLE)
def test_a_damaged_file_is_restored(lake: Lake) -> None:
    masked = ["--set", f"tables.{lake.database}.u.masks={{v: null}}"]
    lake.call(0, "run", "--once", *masked)
    with damaged(lake, "u"):
        hint = lake.refused(3, codes.VARIANT_UNREADABLE, "redact", "--yes", *masked)
        said(r"(Restore) the table; use a release that knows this version of VARIANT\.", hint)
    [one] = lake.call(0, "redact", "--yes", *masked)["redacted"]
    assert (one["table"], one["left"]) == (f"{lake.database}.u", "")
    lake.run("UPDATE u SET v = v + 1 WHERE id = 1")
    tables = lake.call(0, "run", "--once", *masked)["tables"]
    assert not any(rows.get("r") for rows in tables.values())
    assert lake.call(0, "verify", *masked)["verified"] is True


@remedy(codes.REDACTION_UNSUPPORTED, codes.TABLE_COLUMNS_DIFFER)
def test_a_change_table_that_was_altered_begins_again(lake: Lake) -> None:
    masked = ["--set", f"tables.{lake.database}.t.masks={{v: null}}"]
    changes = f"delta.`{lake.bronze()}`"
    lake.sql(f"ALTER TABLE {changes} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    hint = lake.refused(3, codes.REDACTION_UNSUPPORTED, "redact", "--yes", *masked)
    begin = said(r"Begin again \((lakehouse-cdc reset -c pipeline\.yml)\): what is read then is hidden .*", hint)[1]
    lake.sql(f"ALTER TABLE {changes} ADD COLUMN odd INT")
    hint = lake.refused(3, codes.TABLE_COLUMNS_DIFFER, "run", "--once", *masked)
    assert (
        begin
        == said(r"the table was altered .*; (lakehouse-cdc reset -c pipeline\.yml) deletes all tables .*", hint)[1]
    )
    lake.call(0, *command(begin), "--yes", *masked)
    lake.as_new_process()
    lake.call(0, "run", "--once", *masked)
    lake.run("UPDATE t SET v = v + 1 WHERE id = 1")
    tables = lake.call(0, "run", "--once", *masked)["tables"]
    assert not any(rows.get("r") for rows in tables.values())
    assert lake.call(0, "verify", *masked)["verified"] is True
    assert {row["v"] for row in lake.spark.read.format("delta").load(str(lake.silver("t"))).collect()} == {None}
