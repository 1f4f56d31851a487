"""Codes 1xxx and 7xxx of a pipeline that has run: what needs Spark goes wrong, and works as the hint says."""

from __future__ import annotations

import re
import shutil
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakehouse_cdc.cli.main import app
from lakehouse_cdc.errors import codes
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.sinks.registry import SINKS
from tests.remedies import remedy
from tests.remedies.lake import Lake
from tests.support.counting_sink import CountingSink

pytestmark = pytest.mark.long


# ---------------------------------------------------------------- the configuration, and commands


@remedy(codes.TARGET_UNWRITABLE)
@pytest.mark.parametrize("command", [["run", "--once"], ["signal", "pause"]])
def test_another_folder_is_chosen(lake: Lake, tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "file").touch()
    name, *arguments = command
    hint = lake.refused(2, codes.TARGET_UNWRITABLE, name, *arguments, "--set", f"target.path={tmp_path}/file/lake")
    assert hint == "Choose another folder under target, or let this user write to it."
    lake.call(0, name, *arguments, "--set", f"target.path={tmp_path}/lake")


@remedy(codes.TABLE_UNKNOWN)
def test_a_captured_table_is_named(lake: Lake) -> None:
    hint = lake.refused(2, codes.TABLE_UNKNOWN, "signal", "snapshot", "shop.nothing")
    names = re.fullmatch(r"one of (\S+), \S+", hint)
    assert names, hint
    assert lake.call(0, "signal", "snapshot", names[1]) == {"read_again": [names[1]]}
    lake.continues(names[1].rpartition(".")[2])
    at = ["--position", position(lake)]
    hint = lake.refused(2, codes.TABLE_UNKNOWN, "as-of", "t", *at)
    names = re.fullmatch(r"one of (\S+), \S+", hint)
    assert names, hint
    assert lake.call(0, "as-of", names[1], *at)["tables"] == {names[1]: 3}


def position(lake: Lake) -> str:
    reached = lake.call(0, "status")["position"]
    return f"{reached['file']}:{reached['pos']}"


@remedy(codes.MOMENT_INVALID)
def test_a_moment_is_written_as_the_hint_says(lake: Lake) -> None:
    lake.run("INSERT INTO u VALUES (4, 40)")
    lake.call(0, "run", "--once")
    before, moment = position(lake), datetime.now(timezone.utc)
    [(uuid, executed)] = lake.run("SELECT @@server_uuid, @@GLOBAL.gtid_executed")
    time.sleep(1.1)
    lake.run("DELETE FROM u WHERE id = 4")
    lake.continues()
    number = re.search(rf"{uuid}:(?:\d+-)?(\d+)$", executed)
    assert number, executed
    for wrong, said, right in (
        (["--position", "12"], r"write FILE:POS, as \S+", ["--position", before]),
        (["--timestamp", "noon"], r"write it as \d{4}-\d\d-\d\dT\S+", ["--timestamp", moment.isoformat()]),
        (["--timestamp", f"{moment:%Y-%m-%dT%H:%M:%S}"], r"add the zone, as \+00:00",
         ["--timestamp", moment.isoformat(timespec="seconds")]),
        (["--gtid", " "], r"name a GTID, as uuid:42, or a set", ["--gtid", f"{uuid}:{number[1]}"]),
        (["--gtid", f"{uuid}:1", "--position", before], r"Write it as FILE:POS, as 2026\S+ or as uuid:42\.",
         ["--position", before]),
    ):  # fmt: skip
        hint = lake.refused(2, codes.MOMENT_INVALID, "as-of", f"{lake.database}.u", *wrong)
        assert re.fullmatch(said, hint), hint
        assert lake.call(0, "as-of", f"{lake.database}.u", *right)["tables"] == {f"{lake.database}.u": 4}
    hint = lake.refused(2, codes.MOMENT_INVALID, "signal", "pass", before)
    command = re.match(r"(signal) (snapshot) has a table read again", hint)
    assert command, hint
    lake.call(0, command[1], command[2], f"{lake.database}.u")
    lake.continues("u")


@remedy(codes.SILVER_NOT_CONFIGURED)
def test_bronze_is_verified_or_silver_named(lake: Lake) -> None:
    without = ["--set", "target.silver=null"]
    hint = lake.refused(2, codes.SILVER_NOT_CONFIGURED, "verify", *without)
    command = re.fullmatch(r"verify (--layer) (bronze), or name target\.silver", hint)
    assert command, hint
    assert lake.call(0, "verify", *command.groups(), *without)["verified"] is True
    assert lake.call(0, "verify")["verified"] is True


@remedy(codes.VACUUM_WITH_SINKS)
def test_maintenance_with_sinks(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SINKS, "counting", CountingSink)
    with_sinks = ["--set", "target.sinks=[counting]"]
    hint = lake.refused(2, codes.VACUUM_WITH_SINKS, "maintain", "--vacuum", *with_sinks)
    assert hint == "run maintain without vacuum, or take the sinks out of target.sinks and sinks"
    lake.call(0, "maintain", *with_sinks)
    lake.call(0, "maintain", "--vacuum")
    lake.continues()


@remedy(codes.TRANSFORM_INVALID)
def test_a_computed_column_is_corrected(lake: Lake) -> None:
    lake.run("CREATE TABLE made (id INT PRIMARY KEY, v INT)")
    lake.run("INSERT INTO made VALUES (1, 1)")
    lake.run("UPDATE t SET v = v + 1 WHERE id = 1")
    name = f"{lake.database}.made"
    hint = lake.refused(2, codes.TRANSFORM_INVALID, "run", "--once", "--set", f"tables.{name}.computed={{w: x + 1}}")
    assert hint == f"correct rename, computed, filter or metadata of tables.{name}, and run again"
    corrected = ["--set", f"tables.{name}.computed={{w: v + 1}}"]
    lake.call(0, "run", "--once", *corrected)
    assert lake.call(0, "verify", *corrected)["verified"] is True
    lake.run("DROP TABLE made")
    lake.call(0, "run", "--once", *corrected)


@remedy(codes.TYPE_UNSUPPORTED)
def test_a_table_is_left_out(lake: Lake) -> None:
    lake.run("CREATE TABLE odd (id INT PRIMARY KEY, e ENUM('a') CHARACTER SET binary)")
    lake.call(0, "run", "--once")
    [hint] = [table["quarantined"] for name, table in lake.call(1, "status")["tables"].items() if name.endswith(".odd")]
    pattern = re.search(r'leave the table out \("(\S+)" under source.tables\)', hint)
    assert pattern, hint
    left_out = ["--set", f"source.tables=['{lake.database}.*', '{pattern[1]}']"]
    lake.call(0, "run", "--once", *left_out)
    assert lake.call(0, "status", *left_out)["healthy"] is True
    assert lake.call(0, "verify", *left_out)["verified"] is True
    lake.run("DROP TABLE odd")
    lake.continues()


# ---------------------------------------------------------------- Spark


@remedy(codes.SPARK_FAILED)
def test_the_trace_says_what_spark_could_not_do(lake: Lake, tmp_path: Path) -> None:
    """A file that is not there when it is to be put together with others."""
    for _ in range(2):
        lake.continues()
    bronze = Path(str(Pipeline.from_yaml(lake.file).layout.changes.path))
    places = {file: tmp_path / file.name for file in bronze.rglob("part-*.parquet")}
    for file, aside in places.items():
        shutil.move(file, aside)
    hint = lake.refused(3, codes.SPARK_FAILED, "maintain")
    option = re.fullmatch(r"run again with (--\w+) for the whole trace", hint)
    assert option, hint
    traced = CliRunner().invoke(app, ["maintain", "-c", str(lake.file), option[1]])
    assert traced.exit_code == 3
    assert any(file.name in traced.stderr for file in places)
    for file, aside in places.items():
        shutil.move(aside, file)
    lake.call(0, "maintain")
    lake.continues()


# ---------------------------------------------------------------- last: everything is deleted


@remedy(codes.COMMAND_MISUSED)
@pytest.mark.parametrize("command", ["redact", "reset"])
def test_a_question_is_answered_beforehand(lake: Lake, command: str) -> None:
    hint = lake.refused(2, codes.COMMAND_MISUSED, command)
    option = re.fullmatch(r"add (--yes) to \w+ without a question", hint)
    assert option, hint
    lake.call(0, command, option[1])
    lake.continues(*("tu" if command == "reset" else ""))
