"""Columns of the source that are called as silver's own, and the prefix with which silver's have other names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.tables import read, require_owner
from lakehouse_cdc.mysql.preflight.settings import Finding
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.remedies import remedy
from tests.support.pipelines import bronze, pipeline

FORMS: dict[str, dict[str, Any]] = {"now": {}, "soft": {"deletes": "soft"}, "versions": {"scd": 2}}
ADDED = {"now": [], "soft": ["deleted_at"], "versions": [], "added": []}
PREFIXED: dict[str, Any] = {"target": {"metadata_prefix": "cdc_"}}


def configured(database: str, **others: dict[str, Any]) -> dict[str, Any]:
    return {f"{database}.{name}": settings for name, settings in {**FORMS, "added": {"append": True}, **others}.items()}


def make_tables(run: Callable[..., None], columns: str) -> None:
    for name in FORMS:
        run(f"CREATE TABLE {name} (id INT PRIMARY KEY, {columns})", f"INSERT INTO {name} (id, v) VALUES (1, 1), (2, 2)")
    run(f"CREATE TABLE added (id INT, {columns})", "INSERT INTO added (id, v) VALUES (1, 1), (2, 2)")


def change(run: Callable[..., None], n: int) -> None:
    """Insert, update and delete rows, `n` being new."""
    for name in FORMS:
        run(
            f"INSERT INTO {name} (id, v) VALUES ({n}, {n})",
            f"UPDATE {name} SET v = v + 10",
            f"DELETE FROM {name} WHERE id = {n - 1}",
        )
    run(f"INSERT INTO added (id, v) VALUES ({n}, {n})")


def position(lake: Pipeline) -> str:
    at = lake.status().bronze
    assert at is not None
    return f"{at.file}:{at.pos}"


def rows_at(lake: Pipeline, at: str) -> dict[str, list[tuple[int, int]]]:
    """What `as_of` says of each table; the columns are named as configured."""
    frames, own = lake.all_as_of(position=at), lake.layout.own
    assert all({own.seq, own.commit_ts} < {*frame.columns} for frame in frames.values())
    return {name: sorted((row["id"], row["v"]) for row in frame.collect()) for name, frame in frames.items()}


def reads(spark: SparkSession, lake: Pipeline) -> dict[str, int]:
    return dict(bronze(spark, lake).where("op = 'r'").groupBy("source_table").count().collect())


def refused(lake: Pipeline, database: str) -> list[Finding]:
    """What doctor says of single tables."""
    return [finding for finding in lake.doctor() if finding.name.startswith(f"{database}.")]


def require_exact(lake: Pipeline, tables: int) -> None:
    assert lake.status().healthy
    report = lake.verify()
    assert report.verified, report.to_json()
    assert len(report.tables) == tables


@pytest.mark.long
def test_with_another_prefix_columns_may_be_called_so(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    make_tables(run, "_seq INT DEFAULT 5, _commit_ts VARCHAR(9) DEFAULT 'x', v INT")
    lake = pipeline(spark, mysql, database, tmp_path, tables=configured(database), **PREFIXED)
    assert not refused(lake, database)
    lake.run(once=True)
    before = position(lake)
    change(run, 3)
    run("TRUNCATE TABLE versions", "INSERT INTO versions (id, v, _seq) VALUES (1, 7, 8)")
    lake.run(once=True)
    require_exact(lake, 4)
    for name, added in ADDED.items():
        table = lake.layout.silver_table(f"{database}.{name}")
        frame = read(spark, table)
        assert {"cdc_seq", "cdc_commit_ts", *(f"cdc_{one}" for one in added)} < {*frame.columns}
        assert [row["_seq"] for row in frame.select("_seq").distinct().collect() if row["_seq"] != 8] == [5]
        assert {row["_commit_ts"] for row in frame.collect()} == {"x"}
        assert require_owner(spark, table, "shop")["lakehouse_cdc.metadata_prefix"] == "cdc_"
    assert rows_at(lake, before) == {f"{database}.{name}": [(1, 1), (2, 2)] for name in ADDED}
    silver = lake.layout.silver_table(f"{database}.now").sql
    spark.sql(f"UPDATE {silver} SET _seq = 6 WHERE id = 3")
    assert lake.repair(lake.verify()) == {f"{database}.now": 1}
    lake.run(once=True)
    require_exact(lake, 4)


@pytest.mark.long
def test_the_prefix_is_changed_on_a_running_pipeline(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    make_tables(run, "v INT")
    lake = pipeline(spark, mysql, database, tmp_path, tables=configured(database))
    lake.run(once=True)
    before, read_once = position(lake), reads(spark, lake)
    change(run, 3)
    lake.run(once=True)
    after = position(lake)
    held = {at: rows_at(lake, at) for at in (before, after)}
    lake = pipeline(spark, mysql, database, tmp_path, tables=configured(database), **PREFIXED)
    assert lake.verify().verified  # what is there has the names with which it was made
    plan = lake.plan()
    assert [line.split(":")[0] for line in plan] == [f"{database}.{name}" for name in sorted(ADDED)]
    assert all("begin with _, and are to begin with cdc_" in line for line in plan)
    change(run, 4)
    report = lake.run(once=True)
    assert [notice for notice in report.notices if notice in plan] == plan
    assert lake.plan() == []
    require_exact(lake, 4)
    assert reads(spark, lake) == read_once
    for name, added in ADDED.items():
        columns = read(spark, lake.layout.silver_table(f"{database}.{name}")).columns
        assert {column for column in columns if column.startswith(("_", "cdc_"))} - {"__START_AT", "__END_AT"} == {
            f"cdc_{one}" for one in ("seq", "commit_ts", *added)
        }
    for at, rows in held.items():
        assert rows_at(lake, at) == rows


WAYS_OUT: dict[str, dict[str, Any]] = {
    "rename": {"tables": {"rename": {"_seq": "number"}}},
    "prefix": PREFIXED,
}


@pytest.mark.long
@remedy(codes.COLUMN_NAME_UNUSABLE)
@pytest.mark.parametrize("way", WAYS_OUT)
def test_a_column_called_so_is_the_trouble_of_its_table_and_the_hint_is_the_way_out(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path, way: str
) -> None:
    """Of one that is so from the beginning, and of one that an ALTER TABLE makes so."""
    run("CREATE TABLE odd (id INT PRIMARY KEY, _seq INT, v INT)", "INSERT INTO odd VALUES (1, 1, 1), (2, 2, 2)")
    for name in ("later", "plain"):
        run(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
    odd, later, plain = (f"{database}.{name}" for name in ("odd", "later", "plain"))
    lake = pipeline(spark, mysql, database, tmp_path)
    [warning] = refused(lake, database)
    assert (warning.name, warning.severity) == (odd, "warning")
    assert "target.metadata_prefix" in warning.hint
    lake.run(once=True)
    read_once = reads(spark, lake)
    run("ALTER TABLE later ADD COLUMN _SEQ INT DEFAULT 4")
    for name in ("odd", "later", "plain"):
        run(f"UPDATE {name} SET v = v + 1", f"DELETE FROM {name} WHERE id = 1")
    lake.run(once=True)
    quarantined = {name: table.quarantined for name, table in lake.status().tables.items() if table.quarantined}
    assert {*quarantined} == {odd, later}
    assert all("rename: {" in hint and "target.metadata_prefix" in hint for hint in quarantined.values())
    report = lake.verify()
    assert {*report.quarantined} == {odd, later}
    assert [result.table for result in report.tables] == [plain]
    assert lake.verify("bronze").verified
    settings = WAYS_OUT[way].get("tables", {})
    lake = pipeline(
        spark, mysql, database, tmp_path,
        tables={odd: settings, later: settings}, target=WAYS_OUT[way].get("target", {}),
    )  # fmt: skip
    assert not refused(lake, database)
    concerned = {line.split(":")[0] for line in lake.plan()}
    assert concerned == ({odd, later} if way == "rename" else {odd, later, plain})
    lake.run(once=True)  # nothing is new on the source
    assert lake.status().healthy
    assert reads(spark, lake) == read_once
    run("INSERT INTO odd VALUES (9, 9, 9)", "UPDATE later SET v = v + 1", "INSERT INTO plain VALUES (9, 9)")
    lake.run(once=True)
    require_exact(lake, 3)
    rows = read(spark, lake.layout.silver_table(odd)).drop(lake.layout.own.commit_ts, lake.layout.own.seq)
    assert sorted(map(tuple, rows.collect())) == [(2, 2, 3), (9, 9, 9)]
    [row] = read(spark, lake.layout.silver_table(later)).collect()
    assert row["number" if way == "rename" else "_SEQ"] == 4


@pytest.mark.long
def test_columns_called_as_those_that_stand_beside_them_for_a_moment(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    """Aliases of joins, and the names with which computed columns, filters and verification work."""
    names = ["key", "row", "seq", "op", "commit_ts", "t", "s", "m", "k0", "kept", "held", "passes", "last", "by_image"]
    names += ["u0", "c0", "n", "_lakehouse_cdc_others", "start", "end", "missed", "gone", "deleted_at", "source_table"]
    columns = ", ".join(f"`{name}` JSON" for name in names)
    made = {"filtered": {"filter": "v > 0", "computed": {"twice": "v * 2"}}, "versions": {"scd": 2}}
    for name in made:
        run(f"CREATE TABLE {name} ({columns}, v INT, id INT PRIMARY KEY)")
    run(f"CREATE TABLE added ({columns}, v INT)")
    values = ", ".join(f"'{{\"{name}\": 1}}'" for name in names)
    for n in (1, 2):
        run(*(f"INSERT INTO {name} VALUES ({values}, {n}, {n})" for name in made))
        run(f"INSERT INTO added VALUES ({values}, {n})")
    settings = {f"{database}.{name}": one for name, one in {**made, "added": {"append": True}}.items()}
    lake = pipeline(spark, mysql, database, tmp_path, tables=settings)
    lake.run(once=True)
    for name in made:
        run(f"UPDATE {name} SET v = 3, op = '4' WHERE id = 1", f"DELETE FROM {name} WHERE id = 2")
        run(f"INSERT INTO {name} (id, v) VALUES (3, 3)")
    run("INSERT INTO added (v) VALUES (3)")
    lake.run(once=True)
    require_exact(lake, 3)
    assert lake.verify("bronze").verified


@pytest.mark.long
@remedy(codes.SILVER_PREFIX_CHANGED)
def test_a_table_that_several_go_into_keeps_its_prefix(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    """Its parts are quarantined under another one, nobody else is, and the hint is the way out."""
    for name in ("p1", "p2", "t"):
        run(f"CREATE TABLE {name} (id INT PRIMARY KEY, _source_table INT)", f"INSERT INTO {name} VALUES (1, 1)")
    into = {f"{database}.p?": {"into": "p"}}
    lake = pipeline(spark, mysql, database, tmp_path, tables=into, **PREFIXED)
    lake.run(once=True)
    require_exact(lake, 3)
    read_once = reads(spark, lake)
    run(*(f"INSERT INTO {name} VALUES (2, 2)" for name in ("p1", "p2", "t")))
    target = {"metadata_prefix": "other_"}
    lake = pipeline(spark, mysql, database, tmp_path, tables=into, target=target)
    assert [line.split(":")[0] for line in lake.plan()] == [f"{database}.t"]
    lake.run(once=True)
    quarantined = {name: table.quarantined for name, table in lake.status().tables.items() if table.quarantined}
    assert {*quarantined} == {f"{database}.p1", f"{database}.p2"}
    for reason in quarantined.values():
        assert reason.startswith(f"{codes.SILVER_PREFIX_CHANGED.label}: ")
        assert "begin with cdc_, and are to begin with other_; move it away to have it built again" in reason
        assert reason.endswith("or set target.metadata_prefix back")
    back = pipeline(spark, mysql, database, tmp_path, tables=into, **PREFIXED)
    back.run(once=True)
    run(*(f"UPDATE {name} SET _source_table = 5 WHERE id = 2" for name in ("p1", "p2", "t")))
    back.run(once=True)
    require_exact(back, 3)
    Path(lake.layout.silver_table(f"{database}.p1").path or "").rename(tmp_path / "moved away")
    run(*(f"INSERT INTO {name} VALUES (3, 3)" for name in ("p1", "p2", "t")))
    lake = pipeline(spark, mysql, database, tmp_path, tables=into, target=target)
    lake.run(once=True)
    require_exact(lake, 3)
    assert reads(spark, lake) == read_once
