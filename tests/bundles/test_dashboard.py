"""Every query of the dashboard and of the alert, by open-source Spark, over the tables of a pipeline that ran.

What only Databricks has is not used, so what runs here runs there; how the widgets look is not to be seen here.
"""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from lakehouse_cdc.bronze.sink import BronzeBatch
from lakehouse_cdc.model.commit_note import SourcePoint
from lakehouse_cdc.model.log_retention import Headroom
from lakehouse_cdc.model.source_lag import Lag
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.ops.metrics import Metrics
from lakehouse_cdc.ops.source_watch import Look
from lakehouse_cdc.silver.apply.stream import SilverBatch
from lakehouse_cdc.testing import MySqlServer
from tests.support.bundles.declared import BUNDLE, Declared
from tests.support.pipelines import pipeline
from tests.support.servers import connected, new_database


def dashboard() -> dict[str, Any]:
    [resource] = Declared("prod").resources("dashboards").values()
    found: dict[str, Any] = json.loads((BUNDLE / "resources" / resource["file_path"]).read_text(encoding="utf-8"))
    return found


DATASETS = {one["name"]: "".join(one["queryLines"]) for one in dashboard()["datasets"]}


def alert(target: str = "prod") -> dict[str, Any]:
    [found] = Declared(target).resources("alerts").values()
    return found


def views(spark: SparkSession, layout: Layout) -> None:
    """The tables of bronze by their names, as `dataset_schema` has them found."""
    for table in (layout.metrics, layout.changes):
        if Path(str(table)).exists():
            spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {table.name} AS SELECT * FROM {table.sql}")


def rows(spark: SparkSession, dataset: str) -> list[Row]:
    return spark.sql(DATASETS[dataset]).collect()


def test_every_widget_shows_what_its_dataset_has() -> None:
    """The columns of the datasets are those of the next test."""
    widgets = [one["widget"] for page in dashboard()["pages"] for one in page["layout"]]
    assert {query["query"]["datasetName"] for widget in widgets for query in widget["queries"]} == set(DATASETS)
    for widget in widgets:
        encodings = widget["spec"]["encodings"]
        shown = [
            one["fieldName"] for part in encodings.values() for one in (part if isinstance(part, list) else [part])
        ]
        [query] = widget["queries"]
        assert sorted(shown) == sorted(field["name"] for field in query["query"]["fields"])
    places = [one["position"] for page in dashboard()["pages"] for one in page["layout"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["width"])
        for y in range(place["y"], place["y"] + place["height"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 5


@pytest.mark.parametrize("target", ["dev", "prod"])
def test_the_alert_asks_what_the_dashboard_shows(target: str) -> None:
    schema = Declared(target).resources("schemas")["bronze"]
    place = f"`{schema['catalog_name']}`.`{schema['name']}`."
    asked = alert(target)
    assert " ".join(asked["query_text"].replace(place, "").split()) == " ".join(DATASETS["age"].split())
    assert asked["evaluation"]["source"]["name"] == "minutes"
    assert asked["evaluation"]["threshold"]["value"]["double_value"] == 120
    [shown] = Declared(target).resources("dashboards").values()
    assert (shown["dataset_catalog"], shown["dataset_schema"]) == (schema["catalog_name"], schema["name"])


@pytest.mark.long
def test_the_tables_of_a_pipeline(spark: SparkSession, mysql: MySqlServer, tmp_path: Path) -> None:
    """One table is quarantined, and one row of silver is made to differ."""
    with (
        new_database(mysql) as database,
        closing(connected(mysql, database=database)) as connection,
        connection.cursor() as cursor,
    ):
        for table in ("a", "b"):
            cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)")
            cursor.execute(f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3)")
        lake = pipeline(spark, mysql, database, tmp_path, target={"metrics": True})
        lake.run(once=True)
        cursor.execute("ALTER TABLE b ENGINE = BLACKHOLE")
        cursor.execute("INSERT INTO a VALUES (4, 4)")
        lake.run(once=True)
        spark.sql(f"UPDATE {lake.layout.silver_table(f'{database}.a').sql} SET v = 9 WHERE id = 2")
        verified = lake.verify("silver")
    assert not verified.verified
    views(spark, lake.layout)
    widgets = [one["widget"] for page in dashboard()["pages"] for one in page["layout"]]
    for widget in widgets:
        [query] = [one["query"] for one in widget["queries"]]
        assert {field["name"] for field in query["fields"]} <= set(spark.sql(DATASETS[query["datasetName"]]).columns)
    [age] = rows(spark, "age")
    assert 0 <= age.minutes < 30
    assert {row.layer for row in rows(spark, "lag")} == {"bronze", "silver", "source"}
    by_layer: dict[str, float] = {}
    for row in rows(spark, "rows"):
        by_layer[row.layer] = by_layer.get(row.layer, 0) + float(row.rows_per_second or 0) * 60
    assert by_layer == pytest.approx({"bronze": 7, "silver": 7}, abs=0.01)
    assert {row.source_table: row.rows for row in rows(spark, "tables")} == {f"{database}.a": 4, f"{database}.b": 3}
    [retention] = rows(spark, "retention")
    assert retention.hours is None or retention.hours > 0
    [quarantined] = rows(spark, "quarantined")
    assert (quarantined.layer, quarantined.source_table) == ("bronze", f"{database}.b")
    assert "BLACKHOLE" in quarantined.reason
    [verification] = rows(spark, "verify")
    assert (verification.layer, verification.rows, verification.differing) == ("silver", 4, 1)
    assert (verification.differing_tables, verification.not_compared) == (f"{database}.a", "")


POINT = SourcePoint(1, "uuid", "binlog.000002", 400)


@pytest.fixture
def metrics(spark: SparkSession, tmp_path: Path) -> Metrics:
    return Metrics(spark, Layout("shop", "bronze", "silver", path=str(tmp_path)))


@pytest.mark.parametrize(
    ("missing", "in_bronze", "in_silver", "minutes"),
    [
        (0, 0, 0, 0),  # a quiet source, which was looked at
        (3600, 0, 0, 60),
        (0, 2, 2, 0),
        (0, 2, 1, 0),  # silver lacks a batch that is as new as this test
    ],
)
def test_the_age_counts_what_is_missing(
    spark: SparkSession, tmp_path: Path, metrics: Metrics, missing: int, in_bronze: int, in_silver: int, minutes: int
) -> None:
    lag = Lag(missing, float(missing), float(missing))
    metrics.looked(Look(time.time(), POINT, lag, Headroom(None, "none")))
    for batch in range(in_bronze):
        metrics.bronze(BronzeBatch(batch, batch + 1, POINT, {"shop.a": {"c": 1}}, 1.0))
    for batch in range(in_silver):
        metrics.silver(SilverBatch(batch, batch + 1, POINT, ("shop.a",), {}, batch, 1.0))
    metrics.flush()
    views(spark, Layout("shop", "bronze", "silver", path=str(tmp_path)))
    [row] = rows(spark, "age")
    assert row.minutes == pytest.approx(minutes, abs=1)


def test_the_age_grows_where_nothing_runs_and_where_silver_stays(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of two hours ago: then all was there, and now nobody knows; or silver has stopped since."""
    layout = Layout("shop", "bronze", "silver", path=str(tmp_path))
    Metrics(spark, layout)
    hours = "current_timestamp() - INTERVAL {} HOURS"

    def entered(hours_ago: int, layer: str, version: str) -> None:
        named = f"at, layer, bronze_version, rows, lag_seconds) VALUES ({hours.format(hours_ago)}, '{layer}', {version}"
        spark.sql(f"INSERT INTO {layout.metrics.sql} ({named}, 1, 0.0)")

    entered(2, "source", "NULL")
    views(spark, layout)
    assert rows(spark, "age")[0].minutes == pytest.approx(120, abs=1)
    entered(3, "silver", "7")
    entered(1, "bronze", "8")
    entered(0, "bronze", "9")
    views(spark, layout)
    assert rows(spark, "age")[0].minutes == pytest.approx(60, abs=1)
    entered(0, "silver", "9")
    views(spark, layout)
    assert rows(spark, "age")[0].minutes == pytest.approx(0, abs=1)
