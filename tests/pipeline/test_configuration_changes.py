"""A configuration is changed on a running pipeline: `plan` says what that does, a run does it, verify is clean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import bronze, pipeline

T = "CREATE TABLE {} (id INT PRIMARY KEY, name VARCHAR(40), email VARCHAR(40), d DATE, n INT, at DATETIME)"
# each follows the one before: settings of source, of tables by name, and what `plan` says of t
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "exclude": ({}, {"t": {"exclude": ["name"]}}, "name is left out; nothing is read again"),
    "no exclude": ({}, {}, "name is captured; the table is read again"),
    "include": ({}, {"t": {"include": ["n", "email"]}}, "name is left out, d is left out, at is left out; nothing"),
    "mask": ({}, {"t": {"masks": {"email": "hash"}}}, "email is masked"),
    "other mask": ({}, {"t": {"masks": {"email": {"keep_last": 2}}}}, "email is masked; the table is read again"),
    "no mask": ({}, {}, "email is not masked any more; the table is read again"),
    "types": ({}, {"t": {"types": {"d": "text"}}}, "d is carried as text; the table is read again"),
    "zero_dates": ({"zero_dates": "null"}, {}, "d is carried with NULL for what is no date, at is carried with NULL"),
    "type_map": ({"type_map": "lakeflow"}, {}, "d is carried by its type, at is carried as text"),
    "tables": ({"tables": ["{}.u"]}, {}, "is not in source.tables any more"),
    "tables again": ({}, {}, ""),
}


@pytest.mark.long
@pytest.mark.parametrize("scd", [1, 2])
def test_one_after_the_other(
    spark: SparkSession,
    mysql: MySqlServer,
    run: Callable[..., None],
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scd: int,
) -> None:
    for table in "tu":
        run(T.format(table), f"INSERT INTO {table} VALUES (1, 'a', 'clear 1', '2024-01-01', 1, '2024-01-01 10:00')")
    monkeypatch.setenv("SALT", "sixteen characters at least")
    salt = {"mask_salt": "${env:SALT}"}
    always = {"t": {"scd": scd}}

    def configured(source: dict[str, Any], tables: dict[str, Any]) -> Any:
        chosen = [pattern.format(database) for pattern in source.get("tables", ["{}.*"])]
        settings = {f"{database}.{table}": {**always.get(table, {}), **tables.get(table, {})} for table in "tu"}
        source = {**salt, **source, "tables": chosen}
        return pipeline(spark, mysql, database, tmp_path, source=source, tables=settings)

    lake = configured({}, {})
    lake.run(once=True)
    for number, name in enumerate(CHANGES, start=2):
        source, tables, said = CHANGES[name]
        lake = configured(source, tables)
        [*plan] = lake.plan()
        assert [line for line in plan if f"{database}.t" in line and said in line] or not said, (name, plan)
        assert not [line for line in plan if f"{database}.u" in line and "types" not in name and not source]
        reads = bronze(spark, lake).where(f"source_table = '{database}.u' AND op = 'r'").count()
        for table in "tu":
            run(f"INSERT INTO {table} VALUES ({number}, 'b', 'clear {number}', '2024-01-02', 2, '2024-01-02 10:00')",
                f"UPDATE {table} SET n = n + 1, email = CONCAT('clear ', id, ' again')")  # fmt: skip
        report = lake.run(once=True)
        assert [notice for notice in report.notices if notice in plan] == plan, name
        verified = lake.verify()
        assert verified.verified, (name, verified.to_json())
        assert {result.table for result in verified.tables} == {
            f"{database}.{table}" for table in "tu" if name != "tables" or table == "u"
        }
        assert lake.status().healthy
        assert lake.status().tables[f"{database}.t"].snapshot == ("left out" if name == "tables" else "done")
        assert lake.plan() == []
        if not source:
            again = bronze(spark, lake).where(f"source_table = '{database}.u' AND op = 'r'").count()
            assert again == reads or name in ("type_map", "tables again"), "no other table is read again"
    silver = spark.read.format("delta").load(str(lake.layout.silver_table(f"{database}.t")))
    assert {"id", "name", "email", "d", "n", "at"} <= set(silver.columns)
