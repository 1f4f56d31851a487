"""What is exposed of real runs is what their batches committed, and outputs that are broken change nothing of a run."""

from __future__ import annotations

import json
import logging
import socket
from collections import Counter
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lakehouse_cdc.cli.main import app
from lakehouse_cdc.pipeline.report import Progress
from lakehouse_cdc.testing import MySqlServer, Shop, ShopWriter
from tests.support.pipelines import bronze, pipeline
from tests.telemetry.test_outputs import LOCAL, free_port

DATABASE = "telemetry_shop"


@pytest.fixture
def shop(mysql: MySqlServer):  # type: ignore[no-untyped-def]
    made = Shop(mysql.connect, DATABASE, seed=3)
    made.create()
    made.load(300)
    yield made
    made.drop()


def samples(text: str) -> dict[tuple[str, ...], float]:
    return {
        (one.name, *(value for label, value in one.labels.items() if label != "pipeline")): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def test_what_is_exposed_is_what_the_runs_committed(
    spark: SparkSession, mysql: MySqlServer, tmp_path: Path, shop: Shop
) -> None:
    number, scraped = free_port(), list[str]()
    target = {"metrics_port": number, "metrics_file": "shop.prom"}
    lake = pipeline(spark, mysql, DATABASE, tmp_path, target=target)

    def progress(one: Progress) -> None:
        with urlopen(f"http://{LOCAL}:{number}/metrics", timeout=60) as answer:
            scraped.append(answer.read().decode())

    with ShopWriter(shop, rate=5):
        reports = [lake.run(once=True, progress=progress) for _ in range(2)]
    found = samples((tmp_path / "shop.prom").read_text())
    rows = bronze(spark, lake).where("op <> 's'")
    ops = {(row.op,): row["count"] for row in rows.groupBy("op").count().collect()}
    for layer in ("bronze", "silver"):
        assert {name[2:]: n for name, n in found.items() if name[:2] == ("lakehouse_cdc_rows_total", layer)} == ops
        batches = sum(report.batches[layer] for report in reports)
        assert found["lakehouse_cdc_batches_total", layer] == batches
        assert found["lakehouse_cdc_batch_duration_seconds_count", layer] == batches
    tables = {row.source_table: row["count"] for row in rows.groupBy("source_table").count().collect()}
    assert {name[1]: n for name, n in found.items() if name[0] == "lakehouse_cdc_table_rows_total"} == tables
    last = reports[-1].source_point
    assert last is not None
    assert found["lakehouse_cdc_binlog_position_bytes",] == last["pos"]
    assert found["lakehouse_cdc_snapshot_tables", "done"] == 4
    assert found["lakehouse_cdc_tables_quarantined",] == found["lakehouse_cdc_up",] == 0
    transactions = found["lakehouse_cdc_transactions_total",]
    assert transactions > 0
    # while it ran
    assert samples(scraped[-1])["lakehouse_cdc_up",] == 1
    assert len(scraped) == sum(sum(report.batches.values()) for report in reports)


def test_a_run_without_a_place_for_its_metrics(
    spark: SparkSession,
    mysql: MySqlServer,
    tmp_path: Path,
    shop: Shop,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{LOCAL}:{free_port()}")
    (tmp_path / "file").write_text("in its way")
    with socket.socket() as taken, caplog.at_level(logging.WARNING):
        taken.bind((LOCAL, 0))
        taken.listen()
        target = {
            "metrics_port": taken.getsockname()[1], "metrics_file": "file/shop.prom", "metrics_otel": True,
        }  # fmt: skip
        lake = pipeline(spark, mysql, DATABASE, tmp_path, target=target)
        report = lake.run(once=True)
    assert sum(report.to_json()["tables"][name]["rows"] for name in report.rows) == sum(shop.counts().values())
    assert "Address already in use" in caplog.text
    assert "shop.prom" in caplog.text


@pytest.mark.long
def test_the_commands(
    spark: SparkSession, mysql: MySqlServer, tmp_path: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TELEMETRY_SECRET", "hush-hush")
    config = {
        "name": "shop",
        "source": {"url": mysql.url, "tables": [f"{DATABASE}.*"], "mask_salt": "${env:TELEMETRY_SECRET}"},
        "target": {"path": "lakehouse", "bronze": "bronze", "silver": "silver", "metrics": True},
    }
    (tmp_path / "pipeline.yml").write_text(yaml.safe_dump(config))

    def call(*arguments: str) -> tuple[str, str]:
        done = CliRunner().invoke(app, [*arguments, "-c", "pipeline.yml"])
        assert done.exit_code == 0, done.output
        return done.stdout, done.stderr

    stdout, stderr = call("run", "--once", "--log", "json", "--json")
    lines = [json.loads(line) for line in stderr.splitlines()]
    batches = [line for line in lines if line["event"] == "batch"]
    result = json.loads(stdout)
    assert Counter(line["layer"] for line in batches) == result["batches"]
    assert sum(line["rows"] for line in batches if line["layer"] == "bronze") == sum(
        table["rows"] for table in result["tables"].values()
    )
    call("verify")
    with mysql.connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {DATABASE}.orders ADD COLUMN colour VARCHAR(20) DEFAULT 'hush-hush'")
        cursor.execute(f"CREATE TABLE {DATABASE}.`<script>x</script>` (id INT PRIMARY KEY)")
        cursor.execute(f"INSERT INTO {DATABASE}.`<script>x</script>` VALUES (1)")
    call("run", "--once")
    stdout, _ = call("report", "-o", "report.html", "--json")
    assert json.loads(stdout)["troubles"] == []
    page = (tmp_path / "report.html").read_text()
    for text in ("silver equals the source", f"{DATABASE}.orders", "ADD COLUMN colour", "healthy", "<svg"):
        assert text in page
    assert "hush-hush" not in page
    assert "<script" not in page
    assert f"{DATABASE}.&lt;script&gt;x&lt;/script&gt;" in page
