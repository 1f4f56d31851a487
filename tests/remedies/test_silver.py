"""Codes 6xxx: silver cannot have a table as it is configured, or as it became, and can when the hint has been followed.

Most of this is the trouble of one table: a run continues, and says of the table what is in the way, and what to do. So
many of these tables are in one pipeline, and the runs are those of all: at first, with the trouble, and without it.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lakehouse_cdc.cli.main import app
from lakehouse_cdc.errors import Code, codes
from lakehouse_cdc.testing import MySqlServer
from tests.remedies import remedy
from tests.remedies.lake import Lake, new_lake

pytestmark = [pytest.mark.long, pytest.mark.timeout(0)]  # the first of a group waits for all of its runs

Settings = dict[str, Any]
Hint = re.Match[str]
AGAIN = "read again"  # in place of a statement
ROWS = "INSERT INTO @ VALUES (1, 1, 1, 'one'), (2, 2, 2, 'two')"
KEYED = ("CREATE TABLE @ (id INT PRIMARY KEY, v INT NOT NULL, x INT, b BLOB)", ROWS)
KEYLESS = ("CREATE TABLE @ (id INT NOT NULL, v INT NOT NULL, x INT, b BLOB)", ROWS)
READ_AGAIN = r"(?P<command>signal) (?P<what>snapshot) TABLE"


@dataclass(frozen=True)
class Case:
    """A table that silver cannot have, by its settings or by SQL, and the hint, `TABLE` being its name.

    In SQL `@` is the table. `settings` are those at first, `then` those with which the trouble is there, if others.
    What the hint says is done by other settings, SQL, the command that it names, or by moving the silver table away.
    `shards`: this many tables go into one silver table; the trouble is that of the first, or of `all`.
    """

    code: Code[Any]
    hint: str
    follow: Callable[[Hint], Settings]
    settings: Settings = field(default_factory=dict)
    then: Settings | None = None
    made: tuple[str, ...] = KEYED
    wrong: tuple[str, ...] = ()
    correct: tuple[str, ...] = ()
    signals: bool = False  # the command that the hint names is given
    moves: bool = False
    rereads: bool = False  # it is read again on the way out
    shards: int = 0
    all: bool = False
    more: str = "UPDATE @ SET x = 7 WHERE id = 2"

    @property
    def number(self) -> int:
        return CASES.index(self)

    @property
    def tables(self) -> list[str]:
        return [f"c{self.number}_{n}" for n in range(max(1, self.shards))]

    @property
    def concerned(self) -> list[str]:
        return self.tables if self.all else self.tables[:1]


NO_KEY = r"give tables\.TABLE (key): \[columns\] that tell rows apart, or take (track) out of it"
CHANGED = rf"read it again \({READ_AGAIN}\), or take (append) out of tables\.TABLE, or give it (key) in its place"
NOT_UNIQUE = rf"choose other columns for tables\.TABLE\.(key), or correct the rows, and .* again: {READ_AGAIN}"
THAW = r"let its (schema_changes) be (evolve): .*; one of several that go into one table is to be taken out of (into)"
EXPRESSION = r"let (computed) and filter name only .*; (rename): \{NEW: OLD\} keeps a name in silver; the next run .*"
TRACK = r"take x out of (track), or, .* by (rename): \{NEW: (x)\}; the next run builds the silver table again"
CLUSTER = r"tables\.TABLE\.(cluster_by) names columns of silver: numbers, texts, dates or times"
DROPPED, RENAMED = ("ALTER TABLE @ DROP COLUMN x",), ("ALTER TABLE @ RENAME COLUMN x TO y",)
CHANGE = ("UPDATE @ SET v = 6 WHERE id = 1",)
COMPUTED = {"computed": {"w": "x + 1"}}
TRACKED = {"scd": 2, "track": ["v", "x"]}


def nothing(_: Hint) -> Settings:
    return {}


CASES: list[Case] = [
    Case(codes.SILVER_KEY_MISSING, NO_KEY, lambda h: {**TRACKED, h[1]: ["id"]}, TRACKED, made=KEYLESS, rereads=True),
    Case(codes.SILVER_KEY_MISSING, NO_KEY, lambda _: {"scd": 2}, TRACKED, made=KEYLESS),
    Case(
        codes.APPEND_WITH_KEY, r"take append out of tables\.TABLE; the next run builds the silver table again", nothing,
        {"append": True},
    ),
    Case(
        codes.APPEND_WITH_KEY, r"take append out of tables\.TABLE; the next run builds the silver table again", nothing,
        {"append": True}, made=KEYLESS, wrong=("ALTER TABLE @ ADD PRIMARY KEY (id)",),
    ),
    Case(
        codes.APPEND_ROW_CHANGED, CHANGED, lambda _: {"append": True}, {"append": True}, made=KEYLESS,
        wrong=("UPDATE @ SET v = 3 WHERE id = 2",), signals=True, rereads=True,
        more="INSERT INTO @ VALUES (4, 4, 4, '')",
    ),
    Case(
        codes.APPEND_ROW_CHANGED, CHANGED, nothing, {"append": True}, made=KEYLESS,
        wrong=("UPDATE @ SET v = 3 WHERE id = 2",),
    ),
    Case(
        codes.APPEND_ROW_CHANGED, CHANGED, lambda h: {h[4]: ["id"]}, {"append": True}, made=KEYLESS,
        wrong=("DELETE FROM @ WHERE id = 1",), rereads=True,
    ),
    Case(
        codes.DECLARED_KEY_NOT_UNIQUE, NOT_UNIQUE, lambda h: {h[1]: ["id", "v"]}, {"key": ["id"]}, made=KEYLESS,
        wrong=("INSERT INTO @ VALUES (2, 3, 3, '')", AGAIN), rereads=True,
    ),
    Case(
        codes.DECLARED_KEY_NOT_UNIQUE, NOT_UNIQUE, lambda h: {"key": ["id"]}, {"key": ["id"]}, made=KEYLESS,
        wrong=("INSERT INTO @ VALUES (2, 3, 3, '')", AGAIN), correct=("DELETE FROM @ WHERE v = 3",), signals=True,
        rereads=True,
    ),
    Case(
        codes.DECLARED_KEY_NOT_UNIQUE, NOT_UNIQUE, lambda h: {"key": ["v"]}, {"key": ["v"]},
        made=(*KEYLESS, "UPDATE @ SET v = 1"), correct=("DELETE FROM @ WHERE id = 1",), signals=True, rereads=True,
    ),
    Case(
        codes.COPIES_MISSING, rf"{READ_AGAIN} reads the table again", nothing, made=KEYLESS,
        wrong=("SET SESSION sql_log_bin = 0", "INSERT INTO @ VALUES (3, 3, 3, '')", "SET SESSION sql_log_bin = 1",
               "DELETE FROM @ WHERE id = 3"),
        signals=True, rereads=True,
    ),
    Case(
        codes.MULTISET_WITH_KEY, r"take form out of tables\.TABLE; the next run builds the silver table again", nothing,
        {"form": "multiset"},
    ),
    Case(
        codes.FROZEN_KEY_CHANGED, THAW, lambda h: {h[1]: h[2]}, {"schema_changes": "freeze"},
        wrong=("ALTER TABLE @ DROP PRIMARY KEY, ADD PRIMARY KEY (v)",),
    ),
    Case(
        codes.FROZEN_COLUMN_UNFIT, THAW, lambda h: {h[1]: h[2]}, {"schema_changes": "freeze"},
        wrong=("ALTER TABLE @ MODIFY x VARBINARY(20)",),
    ),
    Case(
        codes.FROZEN_VALUE_UNFIT, THAW, lambda h: {h[1]: h[2]}, {"schema_changes": "freeze"},
        wrong=("ALTER TABLE @ MODIFY x BIGINT", "UPDATE @ SET x = 3000000000 WHERE id = 2"),
    ),
    Case(
        codes.FROZEN_COLUMN_UNFIT, THAW, nothing, {"into": "frozen"}, wrong=("ALTER TABLE @ MODIFY x VARBINARY(20)",),
        shards=2,
    ),
    Case(
        codes.COMPUTED_TYPE_CHANGED, r"cast it in its expression; the next run builds the silver table again",
        lambda _: {"computed": {"w": "CAST(x AS STRING)"}}, {"computed": {"w": "x"}},
        wrong=("ALTER TABLE @ MODIFY x VARCHAR(20)", "UPDATE @ SET x = 'two' WHERE id = 2"),
    ),
    Case(codes.TRANSFORM_REFUSED, EXPRESSION, lambda h: {h[1]: {"w": "v + 1"}}, COMPUTED, wrong=DROPPED,
         more="UPDATE @ SET v = 7 WHERE id = 2"),
    Case(codes.TRANSFORM_REFUSED, EXPRESSION, lambda h: {**COMPUTED, h[2]: {"y": "x"}}, COMPUTED, wrong=RENAMED,
         more="UPDATE @ SET y = 7 WHERE id = 2"),
    Case(codes.TRACKED_COLUMN_MISSING, TRACK, lambda h: {"scd": 2, h[1]: ["v"]}, TRACKED, wrong=DROPPED,
         more="UPDATE @ SET v = 7 WHERE id = 2"),
    Case(codes.TRACKED_COLUMN_MISSING, TRACK, lambda h: {**TRACKED, h[2]: {"y": h[3]}}, TRACKED, wrong=RENAMED,
         more="UPDATE @ SET y = 7 WHERE id = 2"),
    Case(codes.CLUSTERING_REFUSED, CLUSTER, lambda h: {h[1]: ["v"]}, {"cluster_by": ["nothing"]}),
    Case(codes.CLUSTERING_REFUSED, CLUSTER, lambda h: {h[1]: ["v"]}, {"cluster_by": ["b"]}),
    Case(
        codes.SILVER_FORM_CHANGED, r"move it away .*, or set (scd) and deletes back", lambda _: {"into": "back"},
        {"into": "back"}, {"into": "back", "scd": 2}, wrong=CHANGE, shards=2, all=True,
    ),
    Case(
        codes.SILVER_FORM_CHANGED, r"(move) it away .*, or set (scd) and deletes back",
        lambda h: {"into": "moved", h[2]: 2}, {"into": "moved"}, {"into": "moved", "scd": 2}, wrong=CHANGE, shards=2,
        all=True, moves=True,
    ),
    Case(
        codes.SILVER_TRANSFORM_CHANGED, r"move it away .*, or set these back", lambda _: {"into": "plain"},
        {"into": "plain"}, {"into": "plain", **COMPUTED}, wrong=CHANGE, shards=2, all=True,
    ),
]  # fmt: skip


@dataclass(frozen=True)
class Told:
    """What commands said of all tables: amid the trouble, and when the hints had been followed."""

    lake: Lake
    cases: list[Case]
    reasons: dict[str, dict[str, str]]  # why tables are set aside, by command
    reads: tuple[dict[str, int], ...]  # how many rows each table was read, in the runs from the trouble on
    verified: tuple[dict[str, Any], ...]  # with the hints followed, and after a further change

    def hint(self, case: Case) -> Hint:
        """What was said of the case, by all commands alike."""
        hints = list[Hint]()
        for name in map(self.name, case.concerned):
            [reason] = {said.get(name, "") for said in self.reasons.values()}
            hint = re.fullmatch(rf"{case.code.label}: .+; {case.hint}", reason.replace(name, "TABLE"))
            assert hint, reason
            hints.append(hint)
        return hints[0]

    def name(self, table: str) -> str:
        return f"{self.lake.database}.{table}"


def configure(lake: Lake, cases: list[Case], settings: Callable[[Case, str], Settings]) -> None:
    values = yaml.safe_load(lake.file.read_text(encoding="utf-8"))
    values["tables"] = {
        f"{lake.database}.{table}": settings(case, table) for case in cases for table in case.tables
    }  # fmt: skip
    lake.file.write_text(yaml.safe_dump(values), encoding="utf-8")


def execute(lake: Lake, table: str, *statements: str) -> None:
    for sql in statements:
        if sql == AGAIN:
            lake.call(0, "signal", "snapshot", f"{lake.database}.{table}")
        else:
            lake.run(sql.replace("@", table))


def move(lake: Lake, what: Path, to: Path) -> None:
    """As between two processes: Delta remembers the tables that it has seen."""
    shutil.move(what, to)
    jvm: Any = lake.spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def follow(lake: Lake, case: Case, hint: Hint) -> Settings:
    """Do what the hint says; the settings that it asks for."""
    for table in case.concerned:
        execute(lake, table, *case.correct)
        if case.signals:
            lake.call(0, hint["command"], hint["what"], f"{lake.database}.{table}")
    if case.moves:
        move(lake, lake.silver(case.tables[0]), lake.file.parent / "moved away")
    return case.follow(hint)


def verify(lake: Lake) -> dict[str, Any]:
    """Whatever it finds."""
    result = CliRunner().invoke(app, ["verify", "-c", str(lake.file), "--json"])
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def read_rows(report: dict[str, Any]) -> dict[str, int]:
    return {name: ops["r"] for name, ops in report["tables"].items() if ops.get("r")}


def firsts(cases: list[Case]) -> list[Case]:
    """The first case of each code."""
    return list({case.code: case for case in reversed(cases)}.values())


GROUPS = {"first": firsts(CASES), "others": [case for case in CASES if case not in firsts(CASES)]}


@pytest.fixture(scope="module")
def told_of(
    spark: SparkSession, mysql: MySqlServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Told]]:
    """What was said of a group of cases, which is had once."""
    with ExitStack() as lakes:

        @cache
        def told(group: str) -> Told:
            return lakes.enter_context(helped(GROUPS[group], spark, mysql, tmp_path_factory.mktemp(group)))

        yield told


@contextmanager
def helped(cases: list[Case], spark: SparkSession, mysql: MySqlServer, folder: Path) -> Iterator[Told]:
    """All tables are made, have trouble, are helped as the hints say, and change once more; with a run after each."""
    with new_lake(spark, mysql, folder) as lake:
        for case in cases:
            for table in case.tables:
                execute(lake, table, *case.made)
        configure(lake, cases, lambda case, _: case.settings)
        first = lake.call(0, "run", "--once")["quarantined"]
        for case in cases:
            for table in case.concerned:
                execute(lake, table, *case.wrong)
        configure(lake, cases, lambda case, _: case.settings if case.then is None else case.then)
        lake.run("UPDATE t SET v = v + 1")
        reasons = {"run": {**first, **lake.call(0, "run", "--once")["quarantined"]}}
        tables = lake.call(1, "status")["tables"]
        reasons["status"] = {name: one["quarantined"] for name, one in tables.items() if one["quarantined"]}
        reasons["verify"] = lake.call(1, "verify")["quarantined"]
        so_far = Told(lake, cases, reasons, (), ())
        settings = dict[str, Settings]()
        for case in cases:
            wanted = case.settings
            with suppress(KeyError, ValueError, AssertionError):  # its own test says so
                wanted = follow(lake, case, so_far.hint(case))
            settings |= {table: wanted if table in case.concerned else case.settings for table in case.tables}
        configure(lake, cases, lambda _, table: settings[table])
        after = read_rows(lake.call(0, "run", "--once"))
        verified = verify(lake)
        for case in cases:
            for table in case.tables:
                execute(lake, table, case.more)
        again = read_rows(lake.call(0, "run", "--once"))
        yield replace(so_far, reads=(after, again), verified=(verified, verify(lake)))


@remedy(
    codes.SILVER_KEY_MISSING, codes.APPEND_WITH_KEY, codes.APPEND_ROW_CHANGED, codes.DECLARED_KEY_NOT_UNIQUE,
    codes.COPIES_MISSING, codes.MULTISET_WITH_KEY, codes.FROZEN_KEY_CHANGED, codes.FROZEN_COLUMN_UNFIT,
    codes.FROZEN_VALUE_UNFIT, codes.COMPUTED_TYPE_CHANGED, codes.TRANSFORM_REFUSED, codes.TRACKED_COLUMN_MISSING,
    codes.CLUSTERING_REFUSED, codes.SILVER_FORM_CHANGED, codes.SILVER_TRANSFORM_CHANGED,
)  # fmt: skip
@pytest.mark.parametrize(
    ("group", "case"),
    [
        pytest.param(group, case, id=f"{group}-{case.number}-{case.code.name}")
        for group in GROUPS
        for case in GROUPS[group]
    ],
)
def test_a_table_that_silver_cannot_have_as_it_is(told_of: Callable[[str], Told], group: str, case: Case) -> None:
    told = told_of(group)
    told.hint(case)
    after, again = told.reads
    for table in case.tables:
        name = told.name(table)
        assert (name in after) == (case.rereads and table in case.concerned)
        assert name not in again
        for verified in told.verified:
            assert name not in verified["quarantined"], verified["quarantined"]
            assert verified["tables"][name]["equal"], verified["tables"][name]


@pytest.mark.parametrize("group", GROUPS)
def test_no_other_table_notices(told_of: Callable[[str], Told], group: str) -> None:
    told = told_of(group)
    concerned = {told.name(table) for case in told.cases for table in case.concerned}
    for said in told.reasons.values():
        assert said.keys() == concerned
    read_again = {told.name(table) for case in told.cases if case.rereads for table in case.concerned}
    assert told.reads[0].keys() == read_again
    assert told.reads[1] == {}
    assert all(one["verified"] for one in told.verified)


# ---------------------------------------------------------------- what is not the trouble of one table


@pytest.fixture(scope="module")
def lake(spark: SparkSession, mysql: MySqlServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with new_lake(spark, mysql, tmp_path_factory.mktemp("silver")) as made:
        yield made


@remedy(codes.TOMBSTONES_MISSING)
@pytest.mark.parametrize("way_out", ["restored", "built again"])
def test_the_tombstones_of_a_table_are_gone(lake: Lake, tmp_path: Path, way_out: str) -> None:
    tombstones = lake.silver("u").with_name("u__tombstones")
    aside = tmp_path / "tombstones"
    move(lake, tombstones, aside)
    lake.run("UPDATE u SET v = v + 1")
    hint = lake.refused(3, codes.TOMBSTONES_MISSING, "run", "--once")
    assert hint == "restore them, or move the silver table away to have both built again from bronze"
    if way_out == "restored":
        move(lake, aside, tombstones)
    else:
        move(lake, lake.silver("u"), tmp_path / "silver")
    lake.continues()
    lake.run("DELETE FROM u WHERE id = 1")
    lake.continues()
    lake.run("INSERT INTO u VALUES (1, 1)")
    lake.continues()


@remedy(codes.SILVER_WRITE_FAILED)
def test_a_silver_table_cannot_be_written(lake: Lake, tmp_path: Path) -> None:
    """A file that a MERGE reads is not there for a time."""
    files = {file: tmp_path / file.name for file in lake.silver("u").rglob("part-*.parquet")}
    at = lake.call(0, "status")["silver"]
    for file, aside in files.items():
        move(lake, file, aside)
    lake.refused(3, codes.SPARK_FAILED, "as-of", f"{lake.database}.u", "--position", f"{at['file']}:{at['pos']}")
    lake.run("UPDATE u SET v = v + 1")
    said = lake.call(3, "run", "--once")
    assert said["code"] == codes.SILVER_WRITE_FAILED.label, said
    assert any(file.name in said["error"] for file in files), said
    assert said["hint"] == "Run again; if it stays, see Spark's message in the error."
    for file, aside in files.items():
        move(lake, aside, file)
    lake.continues()


@remedy(codes.LEDGER_FOREIGN)
def test_a_ledger_is_that_of_a_bronze_that_is_no_more(lake: Lake, tmp_path: Path) -> None:
    """A copy of it from before a reset was put back."""
    ledger = lake.silver("u").with_name("ledger")
    shutil.copytree(ledger, tmp_path / "copy")
    lake.call(0, "reset", "--yes")
    lake.continues("t", "u")
    shutil.rmtree(ledger)
    move(lake, tmp_path / "copy", ledger)
    hint = lake.refused(3, codes.LEDGER_FOREIGN, "as-of")
    assert hint == "move the ledger away: what it says is of no use for this one, and the next run makes it again"
    move(lake, ledger, tmp_path / "ledger")
    lake.continues()
    assert lake.call(0, "as-of")["tables"].keys() == {f"{lake.database}.t", f"{lake.database}.u"}
