"""Declarative pipelines: for real by open-source Spark, and what Databricks would make of the same definition.

There is no Databricks here. Its part is played by a recorder with the functions that its reference documents, whose
flows are run as streams, each from where it stood, and by AUTO CDC as documented (`tests.support.silver.auto_cdc`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pyspark import pipelines
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakehouse_cdc.declarative import REBUILT, register
from lakehouse_cdc.errors import ConfigError, DefiniteError, TransientError, codes
from lakehouse_cdc.pipeline.config.file import load
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.run.failures import translate
from lakehouse_cdc.testing import MySqlServer
from tests.remedies import remedy
from tests.support.documents import blocks
from tests.support.silver.auto_cdc import Databricks, Event, Recorder, type_1, type_2
from tests.support.spark_pipelines import COMPLETED, SparkPipelines

VIEWS = ("changes", "gone")


@pytest.mark.long
@pytest.mark.timeout(0)
def test_open_source_spark_brings_bronze_up_to_the_source_and_then_only_what_is_new(
    spark: SparkSession,
    mysql: MySqlServer,
    mysql_client: pymysql.Connection[Any],
    database: str,
    tmp_path: Path,
) -> None:
    cursor = mysql_client.cursor()
    cursor.execute(f"CREATE TABLE {database}.orders (id INT PRIMARY KEY, n INT)")
    cursor.execute(f"INSERT INTO {database}.orders VALUES (1, 10), (2, 20), (3, 30)")
    declarative = SparkPipelines(tmp_path)
    declarative.prepare(
        f'name: declared\nsource: {{url: "{mysql.url}", tables: ["{database}.*"]}}\n'
        f"target: {{catalog: spark_catalog, bronze: default, silver: silver, checkpoints: {tmp_path}/checkpoints}}\n"
    )
    printed = declarative.run()
    assert COMPLETED in printed, printed

    def bronze(table: str) -> list[Any]:
        rows = spark.read.format("delta").load(str(declarative.warehouse / table))
        columns = ["seq", "op", "to_json(after) AS after"] if table == "changes" else ["seq", "op"]
        return rows.selectExpr(*(columns if table != "schemas" else ["seq", "statement"])).orderBy("seq").collect()

    first = bronze("changes")
    assert sorted((row.op, row.after) for row in first if row.op != "s") == [
        ("r", f'{{"id":{n},"n":{10 * n}}}') for n in (1, 2, 3)
    ]
    assert [row.op for row in first].count("s") == len(bronze("schemas")) == 1
    assert bronze("barriers") == []
    cursor.execute(f"UPDATE {database}.orders SET n = 11 WHERE id = 1")
    cursor.execute(f"DELETE FROM {database}.orders WHERE id = 2")
    cursor.execute(f"TRUNCATE {database}.orders")
    cursor.execute(f"INSERT INTO {database}.orders VALUES (4, 40)")
    # the lines of docs/guides/databricks.md say the same as the bundle's file
    [shown] = [block for block in blocks("python", "docs/guides/databricks.md") if "register(dp" in block]
    (tmp_path / "definition.py").write_text(shown)
    printed = declarative.run()
    assert COMPLETED in printed, printed
    second = bronze("changes")
    assert second[: len(first)] == first
    assert [row.op for row in second[len(first) :]] == ["u", "d", "t", "c"]
    assert len({(row.seq, row.after) for row in second}) == len(second)
    assert [row.op for row in bronze("barriers")] == ["t"]
    # open source has no AUTO CDC into Delta: silver is not there
    assert sorted(path.name for path in declarative.warehouse.iterdir()) == ["barriers", "changes", "schemas"]


class Updates:
    """A pipeline's updates: each registers anew, and runs its flows from where they stood."""

    def __init__(self, spark: SparkSession, config: PipelineConfig, folder: Path) -> None:
        self._spark, self.config, self._folder = spark, config, folder
        self._made: Counter[str] = Counter()  # how often a silver table was refreshed fully
        self.runtime: Callable[[], Recorder] = Databricks
        self.declared: Recorder = self.runtime()

    def run(self, refresh: str | None = None) -> list[str]:
        """One update, which refreshes that silver table fully; the tables that it knows of."""
        self.declared = dp = self.runtime()
        register(dp, self.config, self._spark)
        if refresh is not None:
            self._made[refresh] += 1
        tables = [call.kwargs for call in dp.calls if call.function == "create_streaming_table"]
        for given in tables:
            self._make(given)
        for call in dp.calls:
            given = call.kwargs
            if call.function == "append_flow":
                stream = self._through(dp.made[given["name"]](), given["name"]).format("delta")
                stream.toTable(given["target"]).awaitTermination()
        for call in dp.calls:
            if call.function == "create_auto_cdc_flow":
                place = self._place(call.kwargs["target"], call.kwargs["name"])
                rows = dp.made[call.kwargs["source"]]()
                self._through(rows, place).format("parquet").start(str(self._folder / place)).awaitTermination()
        return [given["name"] for given in tables]

    def events(self, target: str, key: str) -> list[Event]:
        """All that AUTO CDC was fed with for a table since it was refreshed fully."""
        folders = [str(self._folder / self._place(target, f"{target.rpartition('.')[2]}__{v}")) for v in VIEWS]
        found = []
        for row in self._spark.read.option("mergeSchema", True).parquet(*folders).collect():
            image = {name: value for name, value in row.asDict().items() if not name.startswith("_")}
            found.append(Event(row[key], int(row["_seq"]), None if row["_op"] == "d" else image))
        return found

    def _make(self, given: Mapping[str, Any]) -> None:
        marks = ", ".join(f"'{name}' = '{value}'" for name, value in given["table_properties"].items())
        columns = given.get("schema", "made_by_auto_cdc INT")
        self._spark.sql(f"CREATE SCHEMA IF NOT EXISTS {given['name'].rpartition('.')[0]}")
        self._spark.sql(f"CREATE TABLE IF NOT EXISTS {given['name']} ({columns}) USING delta TBLPROPERTIES ({marks})")
        own = ", ".join(mark for mark in marks.split(", ") if mark.startswith("'lakehouse_cdc."))
        self._spark.sql(f"ALTER TABLE {given['name']} SET TBLPROPERTIES ({own})")

    def _place(self, target: str, flow: str) -> str:
        return f"{target}/{self._made[target]}/{flow}"

    def _through(self, rows: DataFrame, place: str) -> Any:
        checkpoint = str(self._folder / "checkpoints" / place)
        return rows.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)


def configured(
    mysql: MySqlServer, database: str, folder: Path, tables: Mapping[str, Mapping[str, Any]]
) -> PipelineConfig:
    return PipelineConfig.parse(
        {
            "name": "declared",
            "source": {"url": mysql.url, "tables": [f"{database}.*"]},
            "target": {
                "catalog": "spark_catalog",
                "bronze": f"{database}_bronze",
                "silver": f"{database}_silver",
                "checkpoints": str(folder / "state"),
            },
            "tables": {f"{database}.{table}": dict(settings) for table, settings in tables.items()},
        }
    )


@pytest.fixture
def config(spark: SparkSession, mysql: MySqlServer, database: str, tmp_path: Path) -> Iterator[PipelineConfig]:
    """A pipeline over the database into schemas of its own in the session's catalog, which go after the test."""
    yield configured(mysql, database, tmp_path, {"past": {"scd": 2}})
    for schema in (f"{database}_bronze", f"{database}_silver"):
        spark.sql(f"DROP SCHEMA IF EXISTS spark_catalog.{schema} CASCADE")


def rows_of(client: pymysql.Connection[Any], table: str) -> dict[Any, dict[str, Any]]:
    """The source's rows by their first column."""
    with client.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute(f"SELECT * FROM {table}")
        return {next(iter(row.values())): row for row in cursor.fetchall()}


def standing(updates: Updates, target: str) -> dict[Any, dict[str, Any]]:
    """The rows of a table of type 1."""
    return {key: row for key, (_, row) in type_1(updates.events(target, "id")).items()}


@pytest.mark.long
def test_a_definition_on_databricks_from_the_first_update_on(
    spark: SparkSession,
    mysql_client: pymysql.Connection[Any],
    database: str,
    config: PipelineConfig,
    tmp_path: Path,
) -> None:
    def run(*statements: str) -> None:
        with mysql_client.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement.replace("@", f"{database}."))

    bronze, silver = f"spark_catalog.{database}_bronze", f"spark_catalog.{database}_silver"
    now, past = f"{silver}.now", f"{silver}.past"
    run(*(f"CREATE TABLE @{name} (id INT PRIMARY KEY, n INT)" for name in ("now", "past")))
    run(*(f"INSERT INTO @{name} VALUES (1, 1), (2, 2), (3, 3)" for name in ("now", "past")))
    updates = Updates(spark, config, tmp_path)
    assert updates.run() == [f"{bronze}.{name}" for name in ("changes", "schemas", "barriers")]
    assert updates.declared.calls[2].kwargs["expect_all"] == {"the table is followed": "schema IS NOT NULL"}
    run("UPDATE @now SET n = 7 WHERE id = 1", "DELETE FROM @now WHERE id = 2", "UPDATE @past SET n = 7 WHERE id = 1")
    assert updates.run()[3:] == [now, past]
    assert standing(updates, now) == rows_of(mysql_client, f"{database}.now")
    run("TRUNCATE @past", "TRUNCATE @now", "INSERT INTO @past VALUES (1, 8)", "INSERT INTO @now VALUES (1, 8)")
    updates.run()
    assert standing(updates, now) == rows_of(mysql_client, f"{database}.now") == {1: {"id": 1, "n": 8}}
    barrier = {row["source_table"]: int(row["seq"]) for row in spark.table(f"{bronze}.barriers").collect()}
    versions = type_2(updates.events(past, "id"), lambda image: image)
    assert {key: [(v.image["n"], v.end) for v in mine] for key, mine in versions.items()} == {
        1: [(1, versions[1][0].end), (7, barrier[f"{database}.past"]), (8, None)],
        2: [(2, barrier[f"{database}.past"])],
        3: [(3, barrier[f"{database}.past"])],
    }


@pytest.mark.long
@remedy(codes.DECLARATIVE_SCHEMA_NEWER, codes.DECLARATIVE_REFRESH_NEEDED)
def test_changes_of_a_schema_come_with_the_next_update_or_are_refused_until_they_are_confirmed(
    spark: SparkSession,
    mysql_client: pymysql.Connection[Any],
    database: str,
    config: PipelineConfig,
    tmp_path: Path,
) -> None:
    cursor, name, now = mysql_client.cursor(), f"{database}.now", f"spark_catalog.{database}_silver.now"
    cursor.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT)")
    cursor.execute(f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
    updates = Updates(spark, config, tmp_path)
    updates.run()
    updates.run()
    # the update that meets the new schema ends with an error that says what to do; the next one has the column
    cursor.execute(f"UPDATE {name} SET n = 3 WHERE id = 1")
    cursor.execute(f"ALTER TABLE {name} ADD m INT")
    cursor.execute(f"INSERT INTO {name} VALUES (3, 3, 3)")
    with pytest.raises(PySparkException) as stopped:
        updates.run()
    error = translate(stopped.value)
    assert isinstance(error, TransientError)
    assert error.what == f"{name} has rows of a schema that is newer than this update"
    assert error.code is codes.DECLARATIVE_SCHEMA_NEWER
    assert error.hint == "start the next update: it has the columns, and continues from here"
    updates.run()
    assert {key: row for key, row in standing(updates, now).items() if key != 2} == {
        1: {"id": 1, "n": 3, "m": None},
        3: {"id": 3, "n": 3, "m": 3},
    }
    # what AUTO CDC cannot do to the rows that stand
    cursor.execute(f"ALTER TABLE {name} CHANGE n number INT")
    updates.run()
    with pytest.raises(DefiniteError, match="column n is called number now") as refused:
        updates.run()
    assert refused.value.where == now
    assert refused.value.code is codes.DECLARATIVE_REFRESH_NEEDED
    said = re.fullmatch(r"run one update that refreshes .* fully, with (\S+) = (\S+) in its .*", refused.value.hint)
    assert said, refused.value.hint
    assert said[1] == REBUILT
    spark.conf.set(said[1], said[2])
    try:
        updates.run(refresh=now)
    finally:
        spark.conf.unset(said[1])
    assert standing(updates, now) == rows_of(mysql_client, name)
    updates.run()  # it is fed through the change now
    cursor.execute(f"UPDATE {name} SET number = 9 WHERE id = 1")
    updates.run()
    assert standing(updates, now) == rows_of(mysql_client, name)
    bronze = spark.table(f"spark_catalog.{database}_bronze.changes")
    assert bronze.where("op = 'r'").count() == 2


@pytest.mark.long
@remedy(codes.DECLARATIVE_TABLE_FOREIGN)
def test_a_silver_table_of_others_is_refused(
    spark: SparkSession, mysql_client: pymysql.Connection[Any], database: str, config: PipelineConfig, tmp_path: Path
) -> None:
    cursor, now = mysql_client.cursor(), f"spark_catalog.{database}_silver.now"
    cursor.execute(f"CREATE TABLE {database}.now (id INT PRIMARY KEY)")
    cursor.execute(f"INSERT INTO {database}.now VALUES (1), (2)")
    updates = Updates(spark, config, tmp_path)
    updates.run()
    spark.sql(f"CREATE SCHEMA spark_catalog.{database}_silver")
    spark.sql(f"CREATE TABLE spark_catalog.{database}_silver.now (id INT) USING delta")
    with pytest.raises(DefiniteError, match="not made by this declarative pipeline") as refused:
        updates.run()
    assert refused.value.code is codes.DECLARATIVE_TABLE_FOREIGN
    said = re.match("(drop) or move that table", refused.value.hint)
    assert said, refused.value.hint
    assert refused.value.where == now
    spark.sql(f"{said[1]} TABLE {refused.value.where}")
    cursor.execute(f"DELETE FROM {database}.now WHERE id = 1")
    updates.run()
    assert standing(updates, now) == rows_of(mysql_client, f"{database}.now") == {2: {"id": 2}}
    bronze = spark.table(f"spark_catalog.{database}_bronze.changes")
    assert bronze.where("op = 'r'").count() == 2


# a setting of `now` that AUTO CDC cannot have, what is said, and with what it continues
UNSUPPORTED: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    ({"schema_changes": "freeze"}, "leave the setting out, or run this pipeline as a job", {}),
    ({"scd": 2, "track": ["m"]}, "name the columns under track as they are called now", {"scd": 2, "track": ["n"]}),
    ({"scd": 2}, r"carry it as text \(types: \{j: text\}\), or leave it out of what is tracked",
     {"scd": 2, "track": ["n"]}),
]  # fmt: skip


@pytest.mark.long
@remedy(codes.DECLARATIVE_SETTING_UNSUPPORTED)
def test_a_setting_that_a_declarative_pipeline_cannot_have_is_left_out(
    spark: SparkSession,
    mysql: MySqlServer,
    mysql_client: pymysql.Connection[Any],
    database: str,
    config: PipelineConfig,
    tmp_path: Path,
) -> None:
    cursor, names = mysql_client.cursor(), [f"now{n}" for n in range(len(UNSUPPORTED))]
    for name in names:
        cursor.execute(f"CREATE TABLE {database}.{name} (id INT PRIMARY KEY, n INT, j JSON)")
        cursor.execute(f"INSERT INTO {database}.{name} VALUES (1, 1, '[]'), (2, 2, '[]')")
    updates = Updates(spark, config, tmp_path)
    updates.run()
    settings = {name: wrong for name, (wrong, _, _) in zip(names, UNSUPPORTED, strict=True)}
    for name, (_, hint, right) in zip(names, UNSUPPORTED, strict=True):
        updates.config = configured(mysql, database, tmp_path, settings)
        with pytest.raises(DefiniteError) as refused:
            updates.run()
        assert refused.value.code is codes.DECLARATIVE_SETTING_UNSUPPORTED
        assert re.fullmatch(hint, refused.value.hint), refused.value.hint
        settings[name] = right
    updates.config = configured(mysql, database, tmp_path, settings)
    cursor.execute(f"DELETE FROM {database}.now0 WHERE id = 1")
    silver = [f"spark_catalog.{database}_silver.{name}" for name in names]
    assert updates.run()[3:] == silver
    assert standing(updates, silver[0]).keys() == {2}
    bronze = spark.table(f"spark_catalog.{database}_bronze.changes")
    assert bronze.where("op = 'r'").count() == 2 * len(names)


class WithoutTables(Databricks):
    create_streaming_table = None  # type: ignore[assignment]


class WithoutViews(Databricks):
    temporary_view = None  # type: ignore[assignment]


@pytest.mark.long
@remedy(codes.DECLARATIVE_RUNTIME_UNSUPPORTED)
def test_a_newer_runtime_has_what_an_older_one_lacks(
    spark: SparkSession, mysql_client: pymysql.Connection[Any], database: str, config: PipelineConfig, tmp_path: Path
) -> None:
    cursor, now = mysql_client.cursor(), f"spark_catalog.{database}_silver.now"
    cursor.execute(f"CREATE TABLE {database}.now (id INT PRIMARY KEY)")
    cursor.execute(f"INSERT INTO {database}.now VALUES (1), (2)")
    updates = Updates(spark, config, tmp_path)
    for runtime in (WithoutTables, WithoutViews):
        updates.runtime = runtime
        with pytest.raises(DefiniteError) as refused:
            updates.run()
        assert refused.value.code is codes.DECLARATIVE_RUNTIME_UNSUPPORTED
        assert refused.value.hint == "use a newer runtime, or run this pipeline as a job"
        updates.runtime = Databricks
        updates.run()
    cursor.execute(f"DELETE FROM {database}.now WHERE id = 1")
    updates.run()
    assert standing(updates, now) == rows_of(mysql_client, f"{database}.now") == {2: {"id": 2}}
    bronze = spark.table(f"spark_catalog.{database}_bronze.changes")
    assert bronze.where("op = 'r'").count() == 2


def test_open_source_registers_bronze_alone(spark: SparkSession, config: PipelineConfig) -> None:
    """The functions of the installed PySpark, outside of a pipeline, say that there is none: they were called well."""
    with pytest.raises(PySparkException, match="GRAPH_ELEMENT_DEFINED_OUTSIDE_OF_DECLARATIVE_PIPELINE"):
        register(pipelines, config, spark)


@pytest.mark.long
@remedy(codes.DECLARATIVE_TARGET_INVALID)
def test_tables_by_path_are_refused(
    spark: SparkSession, mysql_client: pymysql.Connection[Any], database: str, config: PipelineConfig, tmp_path: Path
) -> None:
    cursor, file = mysql_client.cursor(), tmp_path / "pipeline.yml"
    cursor.execute(f"CREATE TABLE {database}.now (id INT PRIMARY KEY)")

    def write(target: str) -> None:
        source = f"{{url: '{config.source.url}', tables: ['{database}.*']}}"
        file.write_text(f"name: declared\nsource: {source}\ntarget: {{{target}, bronze: {database}_bronze}}\n")

    write("path: lake")
    with pytest.raises(ConfigError, match="keeps its tables in a catalog") as refused:
        register(Databricks(), file, spark)
    assert refused.value.code is codes.DECLARATIVE_TARGET_INVALID
    said = re.fullmatch("give (catalog) and (checkpoints) in place of path", refused.value.hint)
    assert said, refused.value.hint
    write(f"{said[1]}: spark_catalog, {said[2]}: {tmp_path}/state")
    register(Databricks(), file, spark)
    updates = Updates(spark, load(file), tmp_path)
    for count in (1, 2):
        cursor.execute(f"INSERT INTO {database}.now VALUES ({count})")
        updates.run()
        rows = spark.table(f"spark_catalog.{database}_bronze.changes").where("op IN ('r', 'c')")
        assert rows.count() == count
