"""Checkpoint, tables and configuration that do not belong together: put right, or refused with a way out; `reset`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from lakehouse_cdc.cli.main import app
from lakehouse_cdc.errors import CdcError, DefiniteError, codes
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.failpoints import Door, Moment
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.remedies import remedy
from tests.support.crash_points import failing_at
from tests.support.pipelines import assert_each_event_once, bronze, files, ops, pipeline

Sql = Callable[..., None]
Lake = Callable[..., Pipeline]


@pytest.fixture
def sql(mysql_client: pymysql.Connection[Any], database: str) -> Sql:
    def run(*statements: str) -> None:
        mysql_client.select_db(database)
        for statement in statements:
            mysql_client.cursor().execute(statement)

    return run


@pytest.fixture
def make(spark: SparkSession, mysql: MySqlServer, database: str, tmp_path: Path) -> Lake:
    """The pipeline of this test's database, as a new process has it."""

    def made(**changes: Any) -> Pipeline:
        return pipeline(spark, mysql, database, tmp_path, **changes)

    return made


def rows(spark: SparkSession, lake: Pipeline, database: str, table: str = "t") -> list[tuple[Any, ...]]:
    found = spark.read.format("delta").load(str(lake.layout.silver_table(f"{database}.{table}")))
    return sorted(tuple(row) for row in found.drop("_seq", "_commit_ts").collect())


def forget(lake: Pipeline, layer: str, log: str = "commits") -> int:
    """Take the last batch out of a checkpoint's log, as if the process had died before it was written."""
    folder = Path(lake.checkpoint(layer)) / log
    last = max(int(p.name) for p in folder.iterdir() if p.name.isdecimal())
    (folder / str(last)).unlink()
    (folder / f".{last}.crc").unlink(missing_ok=True)
    return last


@pytest.mark.long
def test_a_new_checkpoint_over_tables_begins_an_epoch(spark: SparkSession, make: Lake, sql: Sql, database: str) -> None:
    """Rows and tables that are gone since go; nothing that stands is doubled."""
    sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)")
    sql("CREATE TABLE gone (id INT PRIMARY KEY)", "INSERT INTO gone VALUES (1)")
    lake = make()
    lake.run(once=True)
    shutil.rmtree(lake.checkpoint("bronze"))
    sql("DELETE FROM t WHERE id = 1", "UPDATE t SET v = 21 WHERE id = 2", "DROP TABLE gone")
    report = make().run(once=True)
    [notice] = report.to_json()["notices"]
    assert "the checkpoint is new" in notice
    assert "epoch 2 begins" in notice
    assert rows(spark, lake, database) == [(2, 21), (3, 30)]
    # all checkpoints
    shutil.rmtree(lake.state)
    sql("DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (4, 40)")
    [notice] = make().run(once=True).notices
    assert "epoch 3 begins" in notice
    assert make().run(once=True).notices == []
    assert rows(spark, lake, database) == [(3, 30), (4, 40)]
    assert_each_event_once(bronze(spark, lake).where("op <> 's'"))
    assert lake.verify().verified


@pytest.mark.long
def test_tables_that_an_earlier_release_has_written_are_adopted(
    spark: SparkSession, make: Lake, sql: Sql, database: str
) -> None:
    """Offsets without a digest, no file that names the table; a batch that was committed and not marked as complete."""
    sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 10)")
    lake = make()
    lake.run(once=True)
    (Path(lake.schemas) / "tables.json").unlink()
    _as_before(lake)
    sql("INSERT INTO t VALUES (2, 20)")
    assert make().run(once=True).notices == []
    (Path(lake.schemas) / "tables.json").unlink()
    _as_before(lake)
    forget(lake, "bronze")
    sql("INSERT INTO t VALUES (3, 30)")
    assert make().run(once=True).notices == []
    assert rows(spark, lake, database) == [(1, 10), (2, 20), (3, 30)]
    assert_each_event_once(bronze(spark, lake))
    assert (Path(lake.schemas) / "tables.json").exists()


def _as_before(lake: Pipeline) -> None:
    """The offsets as a release without digests writes them."""
    for path in (Path(lake.checkpoint("bronze")) / "offsets").iterdir():
        if path.name.isdecimal():
            *lines, offset = path.read_text().splitlines()
            data = {name: value for name, value in json.loads(offset).items() if name != "config"}
            path.write_text("\n".join([*lines, json.dumps(data)]))
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def call(lake: Pipeline, mysql: MySqlServer, database: str, *arguments: str, given: str | None = None) -> Result:
    """`lakehouse-cdc reset` on the pipeline."""
    config = lake.state.parents[2] / "pipeline.yml"
    config.write_text(
        f"name: shop\nsource: {{url: {mysql.url}, tables: ['{database}.*']}}\n"
        "target: {path: lakehouse, bronze: bronze, silver: silver}\n"
    )
    return CliRunner().invoke(app, ["reset", "-c", str(config), *arguments], input=given)


class Home:
    """The folder of a pipeline's tables and checkpoints."""

    def __init__(self, spark: SparkSession, lake: Pipeline) -> None:
        self._spark, self._lake = spark, lake
        self.folder = lake.state.parents[1]

    def refuses(self, what: str, way_out: str = "reset") -> None:
        """A run is refused, says how to go on, and changes nothing."""
        before = self._files()
        hint = rf"Hint: .*lakehouse-cdc {way_out}.* -c pipeline\.yml"
        with pytest.raises(DefiniteError, match=rf"{what}.*{hint}") as refused:
            self._lake.run(once=True)
        assert refused.value.code is codes.CHECKPOINT_UNRELATED
        assert self._files() == before

    def put_back(self, *parts: str, of: Path) -> None:
        """Those folders as they are in a copy."""
        forget_tables(self._spark)
        for part in parts:
            shutil.rmtree(self.folder / part, ignore_errors=True)
            shutil.copytree(of / part, self.folder / part)

    def _files(self) -> dict[str, int]:
        """All but the lock, the log, and the error that `status` shows."""
        apart = ("writing", ".log", "last_error.json")
        return {path: at for path, at in files(self.folder).items() if not path.endswith(apart)}


def forget_tables(spark: SparkSession) -> None:
    """As a new process: Delta remembers the tables that it has seen."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@remedy(codes.CHECKPOINT_UNRELATED)
@pytest.mark.long
def test_what_does_not_belong_together_is_refused_and_reset_is_the_way_out(
    spark: SparkSession, make: Lake, sql: Sql, mysql: MySqlServer, database: str, tmp_path: Path
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 10), (2, 20)")
    lake = make()
    lake.run(once=True)
    home, kept, older = Home(spark, lake), tmp_path / "kept", tmp_path / "older"
    shutil.copytree(home.folder, older)
    sql("DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (3, 30)")
    lake.run(once=True)
    shutil.copytree(home.folder, kept)
    shutil.rmtree(home.folder / "bronze" / "changes")
    home.refuses("there is no change table")
    shutil.rmtree(home.folder / "_checkpoints")
    home.refuses("silver has tables, and no change table")
    home.put_back("_checkpoints", "bronze", of=kept)
    home.put_back("_checkpoints", of=older)
    home.refuses("holds batches that the checkpoint does not have", way_out="reset --keep-tables")
    home.put_back("_checkpoints", of=kept)
    home.put_back("bronze", of=older)
    home.refuses("complete batches that the change table does not hold")
    assert call(lake, mysql, database, "--yes", "--json").exit_code == 0
    make().run(once=True)
    assert rows(spark, lake, database) == [(2, 20), (3, 30)]
    # the checkpoint of the tables that were deleted, over those that were made since
    home.put_back("_checkpoints", of=kept)
    home.refuses("belongs to another change table", way_out="reset --keep-tables")
    sql("DELETE FROM t WHERE id = 2")
    assert call(lake, mysql, database, "--keep-tables", "--yes").exit_code == 0
    make().run(once=True)
    assert rows(spark, lake, database) == [(3, 30)]
    assert lake.verify().verified
    # silver of the table that was deleted
    home.put_back("silver", of=kept)
    home.refuses("silver was made from another change table")


@pytest.mark.long
def test_silver_that_is_gone_is_built_again(spark: SparkSession, make: Lake, sql: Sql, database: str) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 10), (2, 20)")
    lake = make()
    lake.run(once=True)
    shutil.rmtree(Path(str(lake.layout.ledger)).parent)
    [notice] = make().run(once=True).notices
    assert "built again from bronze" in notice
    assert rows(spark, lake, database) == [(1, 10), (2, 20)]
    assert lake.verify().verified


@pytest.mark.long
@pytest.mark.parametrize("how", ["another schema in between", "put back from a backup"])
def test_silver_that_is_older_than_its_checkpoint_gets_what_it_lacks(
    spark: SparkSession, make: Lake, sql: Sql, database: str, tmp_path: Path, how: str
) -> None:
    """With a key, without one, and with versions; what the tables hold changes nothing as it comes again."""
    for table in ("t", "versions"):
        sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {table} VALUES (1, 11), (2, 20)")
    sql("CREATE TABLE keyless (id INT, v INT)", "INSERT INTO keyless VALUES (1, 11), (2, 20), (2, 20)")
    tables = {f"{database}.versions": {"scd": 2}}
    make(tables=tables).run(once=True)
    silver = tmp_path / "lakehouse" / "silver"
    if how == "put back from a backup":
        shutil.copytree(silver, tmp_path / "backup")
    sql(*(f"UPDATE {table} SET v = v + 1" for table in ("t", "versions", "keyless")), "DELETE FROM t WHERE id = 2")
    make(tables=tables, target={"silver": "silver" if how == "put back from a backup" else "other"}).run(once=True)
    if how == "put back from a backup":
        shutil.rmtree(silver)
        shutil.copytree(tmp_path / "backup", silver)
        jvm: Any = spark._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    lake = make(tables=tables)
    [notice] = lake.run(once=True).notices
    assert notice == "silver's tables are older than its checkpoint: what they lack is applied from bronze"
    assert lake.verify().verified
    assert rows(spark, lake, database) == [(1, 12)]
    assert len(rows(spark, lake, database, "versions")) == 4
    sql("INSERT INTO keyless VALUES (2, 21)")
    assert make(tables=tables).run(once=True).notices == []
    assert lake.verify().verified


@pytest.mark.long
def test_reset_says_what_it_deletes_asks_and_deletes_no_more(
    spark: SparkSession, make: Lake, sql: Sql, mysql: MySqlServer, database: str, tmp_path: Path
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 10), (2, 20)")
    lake = make()
    lake.run(once=True)
    theirs = tmp_path / "lakehouse" / "silver" / "theirs"
    spark.sql(f"CREATE TABLE delta.`{theirs}` (a INT) USING delta")
    (tmp_path / "lakehouse" / "silver" / "notes").mkdir()
    (tmp_path / "lakehouse" / "silver" / "notes" / "a.txt").write_text("mine")
    there = set(files(tmp_path))
    for refusal in (call(lake, mysql, database, given="n\n"), call(lake, mysql, database, given="")):
        assert refusal.exit_code == 2
        assert "nothing was deleted" in refusal.stderr
        said = re.sub(r"\s+", "", refusal.stdout)
        for where in (
            lake.checkpoint("bronze"),
            str(lake.layout.changes),
            str(lake.layout.silver_table(f"{database}.t")),
        ):
            assert Path(where).name in said
    assert "add --yes" in call(lake, mysql, database, "--json").stderr
    assert {path for path in there if not Path(path).exists()} == set()
    result = call(lake, mysql, database, "--json", "--yes")
    assert result.exit_code == 0, result.output
    deleted = json.loads(result.stdout.splitlines()[-1])["deleted"]
    assert [(d["kind"], Path(d["where"]).name, d["rows"]) for d in deleted] == [
        ("checkpoint", "bronze", None), ("checkpoint", "silver", None), ("checkpoint", "schemas", None),
        ("silver", "ledger", 1), ("silver", "t", 2), ("silver", "t__tombstones", 0),
        ("bronze", "schemas", 1), ("bronze", "changes", 3),
    ]  # fmt: skip
    assert all(d["bytes"] > 0 for d in deleted)
    left = {str(Path(path).relative_to(tmp_path)) for path in files(tmp_path)}
    mine = [p for p in left if not p.startswith("lakehouse/silver/theirs/")]
    assert sorted(mine) == [
        "lakehouse/_checkpoints/shop/spark.log", "lakehouse/_checkpoints/shop/writing",
        "lakehouse/silver/notes/a.txt", "pipeline.yml",
    ]  # fmt: skip
    assert spark.read.format("delta").load(str(theirs)).columns == ["a"]


@pytest.mark.long
@pytest.mark.parametrize(
    "steps", [5, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2, 3, 4, 6, 7))], ids=lambda n: f"{n} of 8"
)
def test_a_crash_amid_reset_leaves_what_can_be_gone_on_from(
    spark: SparkSession, make: Lake, sql: Sql, database: str, steps: int
) -> None:
    """After some of its deletions the process dies; the next run ends with the rows of the source."""
    sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 10), (2, 20)")
    lake = make()
    lake.run(once=True)
    with lake.resetting() as found:
        assert len(found.deletions) == 8
        found.deletions = found.deletions[:steps]
        found.execute()
    forget_tables(spark)
    sql("DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (3, 30)")
    make().run(once=True)
    assert rows(spark, lake, database) == [(2, 20), (3, 30)]
    assert lake.verify().verified


def test_reset_is_refused_while_a_run_goes_on(make: Lake, tmp_path: Path) -> None:
    """Another process, that runs the pipeline, holds its lock."""
    lake = make()
    code = (
        "import sys; from pathlib import Path; from lakehouse_cdc.pipeline.run.exclusive import exclusive\n"
        f"with exclusive(Path({str(lake.state)!r}), 'x'):\n    print('held', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    try:
        with pytest.raises(DefiniteError, match=r"another process writes.*Hint: end the run first"), lake.resetting():
            pass
    finally:
        other.communicate("")


CLEAR = b"clear-text"


def leaks(folder: Path) -> list[str]:
    return [path for path in files(folder) if CLEAR in Path(path).read_bytes()]


@pytest.mark.long
def test_a_first_batch_that_failed_is_planned_again_under_the_configuration_of_now(
    spark: SparkSession, make: Lake, sql: Sql, database: str, tmp_path: Path
) -> None:
    """A zero date fails it; then columns are masked and excluded, and zero dates are NULL. No byte comes in clear."""
    sql("SET sql_mode = ''", "CREATE TABLE t (id INT PRIMARY KEY, email VARCHAR(40), pw VARCHAR(40), d DATE)")
    clear = CLEAR.decode()
    sql(f"INSERT INTO t VALUES (1, '{clear} 1', '{clear}', '0000-00-00'), (2, '{clear} 2', '{clear}', '2024-01-02')")
    lake = make()
    for _ in range(2):
        with pytest.raises(CdcError, match="zero date"):
            make().run(once=True)
    assert leaks(tmp_path) == []
    assert Checkpoint(lake.checkpoint("bronze")).planned == 0
    # what a task has written when its process is killed
    written = Path(str(lake.layout.changes)) / f"source_table={database}.t" / "part-0.parquet"
    written.parent.mkdir(exist_ok=True)
    written.write_bytes(CLEAR)
    hidden = {f"{database}.t": {"masks": {"email": None}, "exclude": ["pw"]}}
    lake = make(source={"zero_dates": "null"}, tables=hidden)
    [notice] = lake.run(once=True).notices
    assert "batch 0" in notice
    assert "planned again" in notice
    found = rows(spark, lake, database)
    assert [row[:2] for row in found] == [(1, None), (2, None)]
    assert found[0][2] is None
    assert str(found[1][2]) == "2024-01-02"
    assert leaks(tmp_path) == []
    assert lake.verify().verified
    assert make(source={"zero_dates": "null"}, tables=hidden).run(once=True).notices == []


@pytest.mark.long
def test_a_batch_that_bronze_holds_is_not_written_otherwise(
    spark: SparkSession, make: Lake, sql: Sql, database: str
) -> None:
    """Its commit is in, but neither Spark nor the table of schemas has it; then the configuration is another one."""
    sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 10)")
    sql("CREATE TABLE u (id INT PRIMARY KEY, v INT)")
    lake = make()
    with failing_at(Door.ADD, Moment.BEFORE, "schemas"), pytest.raises(DefiniteError, match="crash before"):
        lake.run(once=True)
    assert Checkpoint(lake.checkpoint("bronze")).planned == 0
    held = ops(spark, lake)
    assert held == [("r", 1)]
    tables = {"source": {"tables": [f"{database}.*", "!other.*"]}}
    make(**tables).run(once=True)
    assert ops(spark, lake) == held
    assert spark.read.format("delta").load(str(lake.layout.schemas)).count() == 2
    sql("INSERT INTO t VALUES (2, 20)")
    make(**tables).run(once=True)
    assert rows(spark, lake, database) == [(1, 10), (2, 20)]
    assert lake.verify().verified


@pytest.mark.long
def test_a_later_batch_that_was_planned_otherwise_is_planned_again(
    spark: SparkSession, make: Lake, sql: Sql, database: str
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 10)")
    lake = make()
    lake.run(once=True)
    sql("INSERT INTO t VALUES (2, 20)")
    # the plan of a batch, as a process that is killed right after it leaves it
    folder = Path(lake.checkpoint("bronze")) / "offsets"
    last = max(int(p.name) for p in folder.iterdir() if p.name.isdecimal())
    *lines, offset = (folder / str(last)).read_text().splitlines()
    planned = {**json.loads(offset), "config": "another"}
    planned["pos"] += 1  # where no transaction ends: it could not be executed
    (folder / str(last + 1)).write_text("\n".join([*lines, json.dumps(planned)]))
    [notice] = make().run(once=True).notices
    assert f"batch {last + 1}" in notice
    assert rows(spark, lake, database) == [(1, 10), (2, 20)]
    assert lake.verify().verified
