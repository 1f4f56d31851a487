"""The notebooks, each run from top to bottom: the quickstart on a server of its own, then what operates its pipeline.

What they show is compared with what the pipeline and the server say.
"""

from __future__ import annotations

import ast
import json
import runpy
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc import Pipeline

matplotlib.use("Agg")
NOTEBOOKS = Path(__file__).parent.parent.parent / "notebooks"
ROWS = 2000
TABLES, CAPTURED = "shop.[cp]*", {"shop.customers", "shop.products"}  # half of the shop: each table takes its time
AGAIN = "shop.customers"


class Widgets:
    """`dbutils.widgets`: a user has filled in some, the others hold their defaults."""

    def __init__(self, **filled: str) -> None:
        self.filled = filled
        self.asked: list[str] = []

    def text(self, name: str, default: str, label: str) -> None:
        assert label[0].isdigit(), "widgets are shown in the order of their labels"
        self.asked.append(name)
        self.filled.setdefault(name, default)

    def dropdown(self, name: str, default: str, choices: list[str], label: str) -> None:
        self.text(name, default, label)
        assert self.filled[name] in choices

    def get(self, name: str) -> str:
        return self.filled[name]


class DbUtils:
    """`dbutils`, as far as the notebooks use it."""

    def __init__(self, **filled: str) -> None:
        self.widgets = Widgets(**filled)


def run(name: str, **given: object) -> dict[str, Any]:
    """Execute a notebook with what Databricks would put into it; the names that it leaves."""
    return runpy.run_path(str(NOTEBOOKS / f"{name}.py"), init_globals=given, run_name="notebook")


@pytest.fixture(scope="module")
def quickstart(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the quickstart leaves, run without widgets; its server runs until the module's tests have ended."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("URL", "PASSWORD", "CATALOG"):
            patch.delenv(f"LAKEHOUSE_CDC_{name}", raising=False)
        patch.setenv("LAKEHOUSE_CDC_ROWS", str(ROWS))
        patch.setenv("LAKEHOUSE_CDC_TABLES", TABLES)
        patch.setenv("LAKEHOUSE_CDC_FOLDER", str(tmp_path_factory.mktemp("quickstart")))
        left = run("quickstart", spark=spark)
    yield left
    left["server"].stop()


def bronze(pipeline: Pipeline) -> list[tuple[str, str]]:
    """(source table, op) of every row of bronze, read past the notebook."""
    rows = pipeline.spark.read.format("delta").load(str(pipeline.layout.changes))
    return [(row.source_table, row.op) for row in rows.select("source_table", "op").collect()]


@pytest.mark.parametrize("name", ["quickstart", "operate", "explore", "time_travel"])
def test_the_source_is_in_databricks_own_format(name: str) -> None:
    text = (NOTEBOOKS / f"{name}.py").read_text(encoding="utf-8")
    assert text.startswith("# Databricks notebook source\n# MAGIC %md\n")
    cells = text.split("\n# COMMAND ----------\n")
    assert len(cells) > 5
    for cell in cells:
        code = [line for line in cell.splitlines() if line.strip() and not line.startswith("#")]
        words = [line for line in cell.splitlines() if line.startswith("# MAGIC")]
        assert bool(code) != bool(words), f"a cell is code or words, not both nor none:\n{cell}"
        ast.parse(cell)


@pytest.mark.long
def test_both_runs_and_the_verification_saw_the_shop(quickstart: dict[str, Any]) -> None:
    first, second = quickstart["runs"]
    assert sum(t.get("r", 0) for t in first["tables"].values()) >= ROWS * 0.2
    assert sum(t.get("r", 0) for t in second["tables"].values()) == 0
    assert sum(t.get(op, 0) for t in second["tables"].values() for op in "cud") > 0  # writes went on
    report = quickstart["report"]
    assert report.verified
    assert {t.table for t in report.tables} == CAPTURED
    assert (report.position.file, report.position.pos) == (second["position"]["file"], second["position"]["pos"])
    assert quickstart["writer"].tally.transactions > 0


@pytest.mark.long
def test_the_operations_shown_are_all_of_bronze(quickstart: dict[str, Any]) -> None:
    shown = {(row["source_table"], row["op"]): row["count"] for row in quickstart["operations"].collect()}
    assert shown == Counter(bronze(quickstart["pipeline"]))
    assert {op for _, op in shown} >= {"s", "r", "c", "u", "d"}


@pytest.mark.long
def test_the_history_shown_is_the_life_of_one_row(quickstart: dict[str, Any]) -> None:
    history = quickstart["history"].collect()
    assert len(history) > 2
    assert history[0]["op"] in ("r", "c")
    for last, now in pairwise(history):
        assert (now["before"] is None) == (now["op"] in ("r", "c"))
        assert now["before"] == last["after"]
        assert now["commit_ts"] >= last["commit_ts"]
    key = json.loads(quickstart["busiest"]["key"])
    images = [json.loads(row["after"] or row["before"]) for row in history]
    assert all({name: image[name] for name in key} == key for image in images)


@pytest.mark.long
def test_silver_shown_is_that_of_the_row(quickstart: dict[str, Any]) -> None:
    table = quickstart["silver"]
    [compared] = [t for t in quickstart["report"].tables if t.table == quickstart["busiest"]["source_table"]]
    assert quickstart["spark"].sql(f"SELECT * FROM {table.sql}").count() == compared.rows > 0


@pytest.mark.long
def test_operate_tells_the_state_and_has_a_table_read_again(
    quickstart: dict[str, Any], spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """By widgets here, as on Databricks. The table asked for is read again by the next run, and no other."""
    dbutils = DbUtils(config=str(quickstart["config"]), action="read again", table=AGAIN)
    left = run("operate", spark=spark, dbutils=dbutils)
    assert dbutils.widgets.asked == ["config", "hours", "verify", "action", "table"]
    assert left["report"].verified
    assert left["read_again"] == [AGAIN]
    said = capsys.readouterr().out
    place = quickstart["runs"][-1]["position"]
    assert f"bronze is at {place['file']}:{place['pos']}" in said
    counts = Counter(table for table, op in bronze(quickstart["pipeline"]) if op != "s")
    for table, count in counts.items():
        assert f"{table}: snapshot done, {count} changes" in said
    after = quickstart["pipeline"].run(once=True).to_json()["tables"]
    assert {name for name, ops in after.items() if ops.get("r", 0)} == {AGAIN}


@pytest.mark.long
def test_operate_asks_for_nothing_by_itself_and_plots_every_batch(
    quickstart: dict[str, Any], spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LAKEHOUSE_CDC_CONFIG", str(quickstart["config"]))
    monkeypatch.delenv("LAKEHOUSE_CDC_TABLE", raising=False)
    left = run("operate", spark=spark)
    assert left["report"].verified
    assert left["read_again"] == []
    assert left["pipeline"].signals.requests() == {}
    batches = [batch.asDict() for batch in left["batches"]]
    assert {batch["layer"] for batch in batches} == {"bronze", "silver"}
    for layer, lags, rates in zip(("bronze", "silver"), left["lags"].lines, left["rates"].lines, strict=True):
        of_layer = [batch for batch in batches if batch["layer"] == layer]
        assert list(lags.get_ydata()) == [b["lag_seconds"] for b in of_layer]
        assert list(rates.get_ydata()) == [b["rows"] / b["seconds"] for b in of_layer if b["rows"]]
        assert len(rates.get_ydata()) > 1
    of_bronze = Counter[str]()
    for batch in batches:
        of_bronze.update(batch["tables"] if batch["layer"] == "bronze" else {})
    assert dict(left["busiest"]) == of_bronze
    left["figure"].savefig(tmp_path / "operate.png")
    left["bars"].savefig(tmp_path / "operate-tables.png")


@pytest.mark.long
def test_operate_pauses_and_resumes_without_a_comparison(quickstart: dict[str, Any], spark: SparkSession) -> None:
    for action, paused in (("pause", True), ("resume", False)):
        dbutils = DbUtils(config=str(quickstart["config"]), verify="no", action=action)
        left = run("operate", spark=spark, dbutils=dbutils)
        assert (left["report"], left["pipeline"].signals.paused) == (None, paused)


@pytest.mark.long
def test_operate_reads_no_table_again_that_was_not_named(quickstart: dict[str, Any], spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="which table is to be read again"):
        run("operate", spark=spark, dbutils=DbUtils(config=str(quickstart["config"]), verify="no", action="read again"))


@pytest.mark.long
def test_the_kinds_of_operations_are_drawn_as_they_are_counted(quickstart: dict[str, Any], tmp_path: Path) -> None:
    drawn = sum(bar.get_width() for bar in quickstart["axes"].patches)
    assert drawn == sum(count for (_, op), count in quickstart["counts"].items() if op in "rcud") > 0
    quickstart["figure"].savefig(tmp_path / "quickstart.png")


@pytest.mark.long
def test_time_travel_shows_the_mistake_and_what_it_did(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its own example: the sum of the accounts after each transaction, of one batch all of them."""
    for name in ("CONFIG", "TABLE", "AMOUNT", "MOMENTS"):
        monkeypatch.delenv(f"LAKEHOUSE_CDC_{name}", raising=False)
    left = run("time_travel", spark=spark)
    assert left["figures"] == [1000, 1000, 1000, 20, 20, 15]
    assert left["suspect"] == 3
    assert list(left["axes"].lines[0].get_ydata()) == left["figures"]
    rows = {(row["id"], row["balance"]) for row in left["before"].collect()}
    assert rows == {(1, 600), (2, 200), (3, 140), (4, 60)}
    assert {row["balance"] for row in left["after"].collect()} == {5}
    assert (left["lost"].count(), left["new"].count()) == (4, 4)
    assert left["together"].keys() == {"bank.accounts"}
    assert spark.table("then_bank_accounts").count() == 4
    left["figure"].savefig(tmp_path / "time_travel.png")
    assert left["server"].pid is None


@pytest.mark.long
def test_time_travel_over_a_pipeline_of_ones_own(explored: Pipeline, spark: SparkSession) -> None:
    dbutils = DbUtils(config=str(explored.state.parents[2] / "pipeline.yml"))
    left = run("time_travel", spark=spark, dbutils=dbutils)
    assert dbutils.widgets.asked == ["config", "table", "amount", "moments"]
    assert (left["table"], left["server"]) == ("explored.items", None)
    assert left["figures"] == [3, 3, 3, 3, 4, 3]
    assert left["suspect"] == 4
    assert (left["lost"].count(), left["new"].count()) == (0, 1)


def test_on_databricks_the_source_is_the_users_own(spark: SparkSession) -> None:
    """No server is started there, however little was filled in."""
    with pytest.raises(ValueError, match="fill in the widget config"):
        run("time_travel", spark=spark, dbutils=DbUtils())
    with pytest.raises(ValueError, match="fill in the widgets url, catalog and folder"):
        run("quickstart", spark=spark, dbutils=DbUtils(catalog="main"))


@pytest.fixture(scope="module")
def explored(quickstart: dict[str, Any], spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A pipeline with every version of three items, of which one was changed, one went, and one came."""
    folder = tmp_path_factory.mktemp("explored")
    config = folder / "pipeline.yml"
    config.write_text(
        f"name: explored\nsource: {{url: '{quickstart['url']}', tables: [explored.items]}}\n"
        "target: {path: lake, bronze: b, silver: s}\ntables: {explored.items: {scd: 2}}\n"
    )
    lake = Pipeline.from_yaml(config, spark)
    before = [
        "CREATE DATABASE explored",
        "CREATE TABLE explored.items (id INT PRIMARY KEY, stock INT)",
        "INSERT INTO explored.items VALUES (1, 0), (2, 0), (3, 0)",
    ]
    behind = [
        *(f"UPDATE explored.items SET stock = {stock} WHERE id = 1" for stock in (1, 2, 3)),
        "ALTER TABLE explored.items ADD COLUMN tag INT",
        "INSERT INTO explored.items VALUES (4, 0, 7)",
        "DELETE FROM explored.items WHERE id = 2",
    ]
    with closing(quickstart["server"].connect(autocommit=True)) as connection, connection.cursor() as cursor:
        for statements in (before, behind):
            for statement in statements:
                cursor.execute(statement)
            lake.run(once=True)
    return lake


@pytest.mark.long
@pytest.mark.parametrize("table", ["", "explored.items"])
def test_explore_shows_the_life_the_schemas_and_the_versions(
    explored: Pipeline, spark: SparkSession, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = explored.state.parents[2] / "pipeline.yml"
    left = run("explore", spark=spark, dbutils=DbUtils(config=str(config), table=table))
    assert [row.op for row in left["life"].collect()] == ["r", "u", "u", "u"]
    assert [json.loads(row.after)["stock"] for row in left["life"].collect()] == [0, 1, 2, 3]
    schemas = left["schemas"].collect()
    assert [row.columns for row in schemas] == [["id", "stock"], ["id", "stock", "tag"]]
    assert schemas[0].statement is None
    assert schemas[1].statement.startswith("ALTER TABLE")
    assert (left["versions"][-1], left["standing"][-1]) == (3 + 3 + 1, 3)
    assert list(left["axes"].lines[0].get_ydata()) == left["versions"]
    left["figure"].savefig(tmp_path / "explore.png")
    assert (left["then"].count(), left["now"].count()) == (3, 3)
    assert {json.loads(row["row"])["id"] for row in left["come"].collect()} == {1, 4}
    assert {json.loads(row["row"])["id"] for row in left["gone"].collect()} == {1, 2}
    assert "explored.items" in capsys.readouterr().out


@pytest.mark.long
def test_explore_without_versions(quickstart: dict[str, Any], spark: SparkSession) -> None:
    left = run("explore", spark=spark, dbutils=DbUtils(config=str(quickstart["config"]), table=AGAIN))
    assert not left["keeps_versions"]
    assert left["busiest"]["source_table"] == AGAIN


@pytest.mark.long
def test_explore_of_a_table_that_is_not_there(quickstart: dict[str, Any], spark: SparkSession) -> None:
    with pytest.raises(AssertionError, match="bronze holds no rows of it"):
        run("explore", spark=spark, dbutils=DbUtils(config=str(quickstart["config"]), table="shop.nothing"))
