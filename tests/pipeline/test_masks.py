"""Masks and what is included on the whole road: into bronze, silver and verify, through a change of the schema."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import pymysql
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import bronze, files, pipeline

SALT = "a salt that nobody knows"
SECRETS = (b"clear", b"777777", b"1987-01", SALT.encode())  # Spark numbers its expressions, to 1987 and on


def digest(text: str) -> str:
    return hmac.new(SALT.encode(), text.encode(), hashlib.sha256).hexdigest()


@pytest.mark.long
def test_masked_columns_in_silver(
    spark: SparkSession, mysql: MySqlServer, mysql_client: pymysql.Connection, database: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("MASK_SALT", SALT)
    cursor = mysql_client.cursor()
    cursor.execute(
        f"CREATE TABLE {database}.t (id INT PRIMARY KEY, email VARCHAR(40), phone BIGINT, born DATE, note TEXT, v INT)"
    )
    cursor.execute(f"INSERT INTO {database}.t VALUES (1, 'clear 1', 7777771234, '1987-01-02', 'clear', 10)")
    names, masks = ["email", "phone", "born", "v"], {"email": "hash", "phone": {"keep_last": 4}, "born": None}
    lake = pipeline(
        spark, mysql, database, tmp_path, source={"mask_salt": "${env:MASK_SALT}"},
        tables={f"{database}.*": {"include": names, "masks": masks}},
    )  # fmt: skip
    assert all(finding.severity != "error" for finding in lake.doctor())
    lake.run(once=True)
    cursor.execute(f"INSERT INTO {database}.t VALUES (2, 'clear 1', 7777775678, '1987-01-02', 'clear', 20)")
    cursor.execute(f"UPDATE {database}.t SET phone = 7777770000, note = 'clearer' WHERE id = 1")
    cursor.execute(f"ALTER TABLE {database}.t MODIFY phone VARCHAR(20), ADD more TEXT, MODIFY v BIGINT")
    cursor.execute(f"INSERT INTO {database}.t (id, email, phone, more) VALUES (3, 'clear 3', '777777-1', 'clear')")
    lake.run(once=True)
    silver = spark.read.format("delta").load(str(lake.layout.silver_table(f"{database}.t")))
    found = silver.drop("_seq", "_commit_ts")
    assert [(f.name, f.dataType.simpleString()) for f in found.schema] == [
        ("id", "int"), ("email", "string"), ("phone", "string"), ("born", "date"), ("v", "bigint")
    ]  # fmt: skip
    assert sorted(tuple(row) for row in found.collect()) == [
        (1, digest("clear 1"), "******0000", None, 10),
        (2, digest("clear 1"), "******5678", None, 20),
        (3, digest("clear 3"), "****77-1", None, None),
    ]
    report = lake.verify()
    assert report.verified, report.to_json()
    assert report.rows == 3
    said = "".join(capfd.readouterr())
    images = bronze(spark, lake).selectExpr("concat_ws(' ', to_json(key), to_json(before), to_json(after)) AS images")
    held = " ".join(row.images for row in images.collect())
    assert digest("clear 3") in held
    assert not [secret for secret in SECRETS if secret.decode() in held]
    told = [path for path in files(tmp_path) for secret in SECRETS if secret in Path(path).read_bytes()]
    assert told == []
    assert not [secret for secret in SECRETS if secret.decode() in said]
    assert SALT not in repr(lake.status().to_json())


def test_the_salt_is_in_no_plan(
    spark: SparkSession, mysql: MySqlServer, database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("MASK_SALT", SALT)
    lake = pipeline(spark, mysql, database, tmp_path, source={"mask_salt": "${env:MASK_SALT}"})
    rows = lake.spark.readStream.format("mysql_cdc").options(**lake.source_options()).load()
    rows.explain(extended=True)
    said = capsys.readouterr().out
    assert "Plan" in said
    assert SALT not in said
