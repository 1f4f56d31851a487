"""The whole road on real executors: worker processes that share nothing with the driver but what Spark sends them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse_cdc.testing import MySqlServer, Shop, ShopWriter

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
