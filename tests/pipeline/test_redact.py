"""`redact` on the whole road: what was read in clear is hidden wherever it is live, and nothing else has changed."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lakehouse_cdc.cli.main import app
from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.lake.failpoints import Door, Moment
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.sinks.registry import SINKS
from lakehouse_cdc.testing import MySqlServer
from tests.remedies import remedy
from tests.support.commands import call
from tests.support.counting_sink import CountingSink
from tests.support.crash_points import Counted, Crash, failing_at, hooked
from tests.support.pipelines import assert_each_event_once, bronze, files, pipeline

SALT = "a salt that nobody knows"
SECRETS = (b"clear", b"777777", b"1987-01", b"19.87")
HIDDEN = {"masks": {"email": "hash", "phone": {"keep_last": 4}, "born": None, "paid": "hash"}, "exclude": ["note"]}
KINDS = ("add", "remove")
FORMS: dict[str, dict[str, Any]] = {"t": {"scd": 2}, "soft": {"deletes": "soft"}}


def digest(text: str) -> str:
    return hmac.new(SALT.encode(), text.encode(), hashlib.sha256).hexdigest()


@pytest.fixture
def configured(
    spark: SparkSession, mysql: MySqlServer, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Pipeline]:
    """`configured({"t": {...}})`: the pipeline with these settings of tables, besides their forms."""
    monkeypatch.setenv("MASK_SALT", SALT)

    def made(settings: dict[str, Any] | None = None, **changes: Any) -> Pipeline:
        tables = {f"{database}.{t}": {**FORMS.get(t, {}), **(settings or {}).get(t, {})} for t in FORMS}
        source = {"mask_salt": "${env:MASK_SALT}"}
        return pipeline(spark, mysql, database, tmp_path, source=source, tables=tables, **changes)

    return made


def redact(lake: Pipeline, *patterns: str) -> list[str]:
    """The tables that were redacted, all of them wholly."""
    with lake.redacting(patterns) as plan:
        done = plan.execute()
    assert [one.left for one in done] == [""] * len(done)
    return [one.table.partition(".")[2] for one in done]


def live(folder: Path) -> set[str]:
    """The data files of the newest versions of all tables below a folder, whose logs go back to their beginnings."""
    found: set[str] = set()
    for log in folder.rglob("_delta_log"):
        for version in sorted(log.glob("*.json")):
            actions = [json.loads(line) for line in version.read_text().splitlines()]
            paths = {kind: {str(log.parent / unquote(a[kind]["path"])) for a in actions if kind in a} for kind in KINDS}
            found = found - paths["remove"] | paths["add"]
    return found


def assert_nothing_in_clear(folder: Path) -> None:
    """Of all files, but for data files of older versions, and for statements beside the checkpoint."""
    shown = live(folder)
    assert shown
    assert {path for path in shown if not Path(path).exists()} == set()
    clear = [
        (path, secret)
        for path in files(folder)
        if not Path(path).name.startswith("change-")
        if not path.endswith((".parquet", ".parquet.crc")) or path in shown
        for secret in SECRETS
        if secret in Path(path).read_bytes()
    ]
    assert clear == []


def others(spark: SparkSession, lake: Pipeline) -> list[tuple[Any, ...]]:
    """All that bronze says, but for what is hidden, and for schemas."""
    image = "struct({0}:id::int, {0}:v::int)"
    columns = ["seq", "op", "source_table", "key:id::int", image.format("before"), image.format("after")]
    rows = bronze(spark, lake).where("op IN ('r', 'c', 'u', 'd')").selectExpr(*columns, "commit_ts", "position")
    marks = bronze(spark, lake).where("op IN ('x', 't')").selectExpr("seq", "op", "to_json(after)", "commit_ts")
    return sorted(map(repr, (*rows.collect(), *marks.collect())))  # type: ignore[arg-type]


def silver(spark: SparkSession, lake: Pipeline, table: str) -> Any:
    return spark.read.format("delta").load(str(lake.layout.silver_table(table)))


def all_forms(run: Callable[..., None], configured: Callable[..., Pipeline]) -> dict[str, Any]:
    """Tables in all forms, with rows from before and after a rename; where the source was before it."""
    for table in FORMS:
        run(f"CREATE TABLE {table} (id INT PRIMARY KEY, mail VARCHAR(40), phone BIGINT, born DATE, v INT)",
            f"INSERT INTO {table} VALUES (1, 'clear 1', 7777771234, '1987-01-02', 10),"
            " (2, 'clear 2', 7777775678, '1987-01-03', 20), (3, NULL, NULL, NULL, 30)")  # fmt: skip
    lake = configured()
    first = lake.run(once=True).source_point
    assert first is not None
    for table in FORMS:
        run(f"UPDATE {table} SET v = v + 1, mail = 'clear 1 again' WHERE id = 1",
            f"ALTER TABLE {table} RENAME COLUMN mail TO email",
            f"ALTER TABLE {table} ADD COLUMN note VARCHAR(20) DEFAULT 'clear note', ADD COLUMN paid DECIMAL(8, 2)",
            f"UPDATE {table} SET paid = 19.87, phone = 7777770000 WHERE id = 1",
            f"DELETE FROM {table} WHERE id = 2")  # fmt: skip
    lake.run(once=True)
    return first


def hide(lake: Pipeline, table: str) -> None:
    """A run that follows a configuration which hides columns; what is said of that before it and after."""
    [*plan] = lake.plan()
    assert all("lakehouse-cdc redact -c pipeline.yml" in sentence for sentence in plan)
    assert len(plan) == len(FORMS)
    with pytest.raises(CdcError) as early, lake.redacting():
        pass
    assert early.value.code is codes.REDACTION_TOO_EARLY
    assert early.value.hint == "lakehouse-cdc run --once -c pipeline.yml; then lakehouse-cdc redact -c pipeline.yml"
    report = lake.run(once=True)
    assert [notice for notice in report.notices if "lakehouse-cdc redact" in notice] == plan
    assert lake.status().tables[table].clear == ("born", "email", "mail", "note", "paid", "phone")


@remedy(codes.REDACTION_TOO_EARLY)
@pytest.mark.long
def test_what_was_read_in_clear_is_hidden_and_all_else_stays(
    spark: SparkSession, database: str, run: Callable[..., None], tmp_path: Path, configured: Callable[..., Pipeline]
) -> None:
    name, lakehouse = f"{database}.t", tmp_path / "lakehouse"
    first = all_forms(run, configured)
    lake = configured(dict.fromkeys(FORMS, HIDDEN))
    hide(lake, name)
    spark.sql(f"OPTIMIZE {lake.layout.changes.sql}")  # files that Spark wrote
    before = others(spark, lake)

    assert redact(lake, name) == ["t"]
    assert redact(lake) == ["soft"]
    assert_nothing_in_clear(lakehouse)
    assert others(spark, lake) == before
    assert not any(table.clear for table in lake.status().tables.values())
    assert_equal_to_the_source(lake)
    keep = silver(spark, lake, name).where("id < 3").select("id", "email", "phone", "born", "paid", "v").collect()
    assert {tuple(row) for row in keep} == {
        (1, digest("clear 1"), "******1234", None, None, 10),
        (1, digest("clear 1 again"), "******1234", None, None, 11),
        (1, digest("clear 1 again"), "******0000", None, digest("19.87"), 11),
        (2, digest("clear 2"), "******5678", None, None, 20),
    }
    soft = silver(spark, lake, f"{database}.soft")
    assert "note" not in soft.columns
    [gone] = soft.where("_deleted_at IS NOT NULL").select("email", "phone").collect()
    assert tuple(gone) == (digest("clear 2"), "******5678")
    then = lake.as_of(name, position=f"{first['file']}:{first['pos']}")
    assert sorted(tuple(row) for row in then.select("id", "mail", "phone", "v").collect()) == [
        (1, digest("clear 1"), "******1234", 10), (2, digest("clear 2"), "******5678", 20), (3, None, None, 30)
    ]  # fmt: skip

    there = live(lakehouse)
    assert redact(lake) == []
    assert live(lakehouse) == there

    versions = silver(spark, lake, name).count()
    run("UPDATE t SET v = 12 WHERE id = 1", "INSERT INTO t VALUES (4, 'clear 4', 7777774444, NULL, 40, 'clear', NULL)")
    report = lake.run(once=True)
    assert {table: dict(ops) for table, ops in report.rows.items()} == {name: {"u": 1, "c": 1}}
    assert silver(spark, lake, name).count() == versions + 2
    assert lake.verify().verified
    assert_each_event_once(bronze(spark, lake))
    assert_nothing_in_clear(lakehouse)


def assert_equal_to_the_source(lake: Pipeline) -> None:
    for layer in ("silver", "bronze"):
        verified = lake.verify(layer)
        assert verified.verified, verified.to_json()


def few(run: Callable[..., None], configured: Callable[..., Pipeline]) -> Pipeline:
    """A pipeline with a table of type 2, of which bronze and an ended version have something in clear."""
    run("CREATE TABLE t (id INT PRIMARY KEY, email VARCHAR(40), v INT)", "INSERT INTO t VALUES (1, 'clear 1', 10)")
    configured().run(once=True)
    run("UPDATE t SET email = 'clear 2', v = 11")
    lake = configured({"t": {"masks": {"email": "hash"}}})
    lake.run(once=True)
    return lake


def test_it_waits_for_all_that_read_bronze(
    run: Callable[..., None], configured: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sink that has read nothing yet would be given the old files."""
    run("CREATE TABLE t (id INT PRIMARY KEY)")
    configured().run(once=True)
    with configured().redacting() as plan:
        assert plan.tables == []
    monkeypatch.setitem(SINKS, "counting", CountingSink)
    with pytest.raises(CdcError) as early, configured(target={"sinks": ["counting"]}).redacting():
        pass
    assert early.value.code is codes.REDACTION_TOO_EARLY


@pytest.mark.long
def test_a_run_makes_up_for_a_redaction_that_died(
    spark: SparkSession, run: Callable[..., None], database: str, tmp_path: Path, configured: Callable[..., Pipeline]
) -> None:
    lake = few(run, configured)
    with failing_at(Door.ADD, Moment.AFTER, "changes", error=Crash), pytest.raises(CdcError):
        redact(lake)
    assert lake.status().tables[f"{database}.t"].clear == ("email",)
    run("UPDATE t SET v = 12")
    report = lake.run(once=True)
    assert any("built again" in notice for notice in report.notices)
    rows = silver(spark, lake, f"{database}.t").select("email", "v").collect()
    assert {tuple(row) for row in rows} == {
        (digest("clear 1"), 10), (digest("clear 2"), 11), (digest("clear 2"), 12)
    }  # fmt: skip
    assert redact(lake) == ["t"]
    assert redact(lake) == []
    assert_nothing_in_clear(tmp_path / "lakehouse")
    assert_equal_to_the_source(lake)


@remedy(codes.REDACTION_OF_KEY)
@pytest.mark.long
def test_the_command_asks_says_what_it_did_and_names_what_it_cannot_do(
    mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path, configured: Callable[..., Pipeline]
) -> None:
    """k was found by its email once, which can thus be hashed alone."""
    run("CREATE TABLE k (email VARCHAR(40), id INT NOT NULL, PRIMARY KEY (email))", "INSERT INTO k VALUES ('clear', 1)")
    configured().run(once=True)
    run("ALTER TABLE k DROP PRIMARY KEY, ADD PRIMARY KEY (id)")
    few(run, configured)
    masks = {f"{database}.t": {"scd": 2, "masks": {"email": "hash"}}, f"{database}.k": {"masks": {"email": None}}}
    file = tmp_path / "pipeline.yml"
    source = {"url": mysql.url, "tables": [f"{database}.*"], "mask_salt": "${env:MASK_SALT}"}
    target = {"path": "lakehouse", "bronze": "bronze", "silver": "silver"}
    file.write_text(yaml.safe_dump({"name": "shop", "source": source, "target": target, "tables": masks}))
    call(0, "run", "-c", file, "--once")

    call(2, "redact", "-c", file)
    call(2, "redact", "-c", file, "other.*", "--yes")
    asked = CliRunner().invoke(app, ["redact", "-c", str(file)], input="n\n")
    assert (asked.exit_code, "nothing was redacted" in asked.output) == (2, True), asked.output
    tables = call(0, "status", "-c", file)["tables"]
    assert {name: one["clear"] for name, one in tables.items()} == {name: ["email"] for name in masks}
    said = call(0, "redact", "-c", file, f"{database}.t", "--yes", as_json=False)
    assert "1 of 1 tables redacted" in said
    assert "maintain --vacuum" in said
    [left] = call(1, "redact", "-c", file, "--yes")["redacted"]
    assert (left["table"], left["files"]) == (f"{database}.k", 0)
    setting = re.search(
        rf"mask it by (hash) \(tables\.({database}\.k)\.masks\), (run), and (redact) again$", left["left"]
    )
    assert setting, left["left"]
    by, table, again, then = setting.groups()
    hashed = ["--set", f"tables.{table}.masks={{email: {by}}}"]
    run("UPDATE t SET v = 12")
    tables = call(0, again, "-c", file, "--once", *hashed)["tables"]
    assert [name for name, rows in tables.items() if rows.get("r")] == [table]  # bronze has NULL of its newest rows
    [done] = call(0, then, "-c", file, "--yes", *hashed)["redacted"]
    assert (done["table"], done["left"]) == (table, "")
    assert call(0, "verify", "-c", file, *hashed)["verified"] is True
    assert_nothing_in_clear(tmp_path / "lakehouse")


@pytest.mark.long
@pytest.mark.parametrize("between", ["redact", "run"])
def test_it_may_die_at_each_commit(
    spark: SparkSession, run: Callable[..., None], tmp_path: Path, configured: Callable[..., Pipeline], between: str
) -> None:
    """What was committed before a crash stays, so each attempt reaches other commits."""
    lake, died = few(run, configured), 0
    for fails in (0, 1, 2, 3, 5, 8, 13, 21, 34):
        with hooked(Counted(fails=fails)):
            try:
                redact(lake)
            except CdcError:
                died += 1
        if between == "run":
            run(f"UPDATE t SET v = {100 + fails}")
            lake.run(once=True)
            assert lake.verify().verified, fails
    redact(lake)
    assert died > 3
    assert redact(lake) == []
    assert_nothing_in_clear(tmp_path / "lakehouse")
    assert_equal_to_the_source(lake)
    assert_each_event_once(bronze(spark, lake))
