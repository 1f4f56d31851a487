"""The whole road on real executors: worker processes that share nothing with the driver but what Spark sends them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lakehouse_cdc.runtime.jars import fetch
from lakehouse_cdc.runtime.java import java_home
from lakehouse_cdc.runtime.java_store import JAR
from lakehouse_cdc.runtime.session import DELTA
from lakehouse_cdc.testing import MySqlServer, Shop, ShopWriter
from tests.support.commands import CONFIG
from tests.support.standalone_cluster import CONF, HOME, Cluster

SCRIPT = """
import json, sys
from pathlib import Path
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.runtime.session import local_session
from lakehouse_cdc.workers.launcher import programs

url, database, home = sys.argv[1:]
spark = local_session(conf={"spark.master": "local-cluster[2,1,1024]"}, log=Path(home) / "spark.log", python=programs())
config = PipelineConfig.parse({
    "name": "cluster",
    "source": {"url": url, "tables": [f"{database}.*"], "chunk_rows": 500},
    "target": {"path": "lakehouse", "bronze": "bronze", "silver": "silver"},
})
lake = Pipeline(config, spark, home=Path(home))
runs = [lake.run(once=True).to_json(), lake.run(once=True).to_json()]
report = lake.verify().to_json()
hosts = spark.sparkContext.range(8, numSlices=8).mapPartitions(lambda _: [__import__("os").getppid()]).collect()
print(json.dumps({"runs": runs, "report": report, "executors": len(set(hosts))}))
spark.stop()
"""


@pytest.mark.long
def test_on_two_executors(mysql: MySqlServer, database: str, tmp_path: Path) -> None:
    shop = Shop(mysql.connect, database, seed=31)
    shop.create()
    shop.load(5000)
    with ShopWriter(shop, rate=20):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, mysql.url, database, str(tmp_path)], capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["report"]["verified"]
    assert set(told["report"]["tables"]) == {f"{database}.{name}" for name in shop.counts()}
    assert sum(ops.get("r", 0) for ops in told["runs"][0]["tables"].values()) >= 4000
    assert sum(ops.get("c", 0) for ops in told["runs"][1]["tables"].values()) > 0
    assert told["executors"] == 2


PROGRAM = """
from lakehouse_cdc.cli.main import main

main()
"""


@pytest.mark.long
def test_spark_submit_decides_where_tasks_run(
    mysql: MySqlServer, database: str, run: Callable[..., None], tmp_path: Path
) -> None:
    """The file says nothing of it, and the folder of the tables is one that all see."""
    run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    config, program = tmp_path / "pipeline.yml", tmp_path / "program.py"
    config.write_text(CONFIG.format(url=mysql.url, database=database))
    program.write_text(PROGRAM)
    with Cluster(tmp_path) as cluster:
        jars = ",".join(map(str, [*fetch(DELTA), JAR]))
        words = [str(HOME / "bin" / "spark-submit"), "--master", cluster.url, "--jars", jars]
        words += [word for name, value in CONF.items() for word in ("--conf", f"{name}={value}")]
        ours = {"JAVA_HOME": str(java_home()), "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment = {**os.environ, **ours, "PYSPARK_PYTHON": sys.executable}
        said = []
        for change in ("DO 1", "INSERT INTO t SELECT id + 10, v FROM t"):
            run(change)
            command = [*words, str(program), "run", "--once", "-c", str(config), "--json"]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
            assert done.returncode == 0, done.stdout + done.stderr
            said.append(json.loads(done.stdout.splitlines()[-1])["tables"])
        assert cluster.executors == 4
    assert [one[f"{database}.t"] for one in said] == [{"rows": 2, "r": 2, "s": 1}, {"rows": 2, "c": 2}]
