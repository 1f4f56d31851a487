"""Tables in a catalog that a Hive metastore keeps: each run is a process of its own, which finds them there by name."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lakehouse_cdc.testing import MySqlServer

SCRIPT = """
import json, sys
from pathlib import Path
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.runtime.session import local_session
from lakehouse_cdc.workers.launcher import programs

url, database, folder = sys.argv[1:]
home = Path(folder)
spark = local_session(conf={
    "spark.sql.catalogImplementation": "hive",
    "spark.sql.warehouse.dir": str(home / "warehouse"),
    "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={home}/metastore;create=true",
}, log=home / "spark.log", python=programs())
tables = {f"{database}.history": {"scd": 2}, f"{database}.marked": {"deletes": "soft"}}
lake = Pipeline(PipelineConfig.parse({
    "name": "shop", "source": {"url": url, "tables": [f"{database}.*"]}, "tables": tables,
    "target": {"catalog": "spark_catalog", "checkpoints": "checkpoints", "bronze": "raw", "silver": "shop"},
}), spark, home=home)
ran = lake.run(once=True).to_json()
rows = {
    name: [tuple(map(str, row)) for row in spark.sql(f"SELECT id, v FROM {where} ORDER BY id, v").collect()]
    for name, where in {
        "t": "shop.t", "history": "spark_catalog.shop.history WHERE __END_AT IS NULL",
        "marked": "shop.marked WHERE _deleted_at IS NULL",
    }.items()
}
print(json.dumps({
    "ran": ran, "verified": lake.verify().to_json(), "healthy": lake.status().healthy, "rows": rows,
    "columns": spark.table("shop.t").columns,
    "held": [row.tableName for row in spark.sql("SHOW TABLES IN raw").collect()],
}))
spark.stop()
"""
TABLES = ("t", "history", "marked")


def once(mysql: MySqlServer, database: str, folder: Path) -> Mapping[str, Any]:
    """A run in a process of its own, and what is in the catalog afterwards."""
    command = [sys.executable, "-c", SCRIPT, mysql.url, database, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=folder)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert said["verified"]["verified"], said["verified"]
    assert said["healthy"]
    return said


@pytest.mark.long
def test_the_main_road_in_three_sessions(
    mysql: MySqlServer, database: str, run: Callable[..., None], tmp_path: Path
) -> None:
    for name in TABLES:
        run(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name} VALUES (1, 1), (2, 2), (3, 3)")
    first = once(mysql, database, tmp_path)
    assert first["rows"] == {name: [[str(n)] * 2 for n in (1, 2, 3)] for name in TABLES}
    assert {"changes", "schemas"} <= set(first["held"])
    for name in TABLES:
        run(f"UPDATE {name} SET v = 10 WHERE id = 1", f"DELETE FROM {name} WHERE id = 2")
        run(f"ALTER TABLE {name} ADD COLUMN w VARCHAR(9) DEFAULT 'x'", f"INSERT INTO {name} VALUES (4, 4, 'y')")
    second = once(mysql, database, tmp_path)
    assert second["rows"] == {name: [["1", "10"], ["3", "3"], ["4", "4"]] for name in TABLES}
    assert second["columns"][:3] == ["id", "v", "w"]
    run("ALTER TABLE t MODIFY v BIGINT", "ALTER TABLE t DROP COLUMN w", "UPDATE t SET v = 5000000000 WHERE id = 4")
    third = once(mysql, database, tmp_path)
    assert third["rows"]["t"] == [["1", "10"], ["3", "3"], ["4", "5000000000"]]
