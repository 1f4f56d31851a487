"""A table's rows into bronze, and from there into a topic, in a process of its own; prints one line of JSON.

    python -m bench.sent PORT TABLE FOLDER BROKER PARTITIONS

`rows` and `seconds` are of bronze to Kafka alone: a run of a pipeline whose bronze has all, with the start of its
streams. `bronze_seconds` is what the rows took into bronze. Before that a small table has gone the same way in the same
session. The topic is named after FOLDER, whose name no other run of this broker has. At the end it is read: what is
committed has each key of the table once.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.tables import WARM
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.runtime.session import local_session
from lakehouse_cdc.workers.launcher import programs
from tests.support.kafka_broker import read


def send(spark: SparkSession, port: int, table: str, folder: Path, sink: dict[str, Any]) -> tuple[int, float, float]:
    """Rows, the seconds of bronze to Kafka, and those into bronze. Raises AssertionError where the topic has others."""
    config = {
        "name": f"bench-{folder.name}",
        "source": {"url": f"mysql://root@127.0.0.1:{port}", "tls": "disabled", "tables": [table]},
        "target": {"path": "lake", "bronze": "bronze", "silver": None},
    }
    began = time.perf_counter()
    report = Pipeline(PipelineConfig.parse(config), spark, home=folder).run(once=True)
    bronze = time.perf_counter() - began
    rows = sum(n for ops in report.rows.values() for op, n in ops.items() if op in "rcud")
    pipeline = Pipeline(PipelineConfig.parse({**config, "sinks": {"out": {"kafka": sink}}}), spark, home=folder)
    began = time.perf_counter()
    pipeline.run(once=True)
    seconds = time.perf_counter() - began
    topic = sink["topic"].format(database=table.partition(".")[0], table=table.partition(".")[2])
    keys = [record.key for record in read(sink["bootstrap_servers"], (topic,), committed=True)]
    assert (len(keys), len({*keys})) == (rows, rows), f"{topic} has {len(keys)} records, {len({*keys})} keys of {rows}"
    return rows, seconds, bronze


def main() -> None:
    """See above."""
    port, table, folder, broker, partitions = sys.argv[1:]
    place = Path(folder)
    sink = {
        "bootstrap_servers": broker, "topic": f"sent{place.name}.{{database}}.{{table}}", "format": "debezium-json",
        "delivery": "exactly_once", "partitions": int(partitions),
    }  # fmt: skip
    place.mkdir(parents=True)
    spark = local_session("bench", log=place / "spark.log", python=programs())
    with tempfile.TemporaryDirectory(dir=folder, prefix="warm-") as warm:
        send(spark, int(port), WARM.name, Path(warm), sink)
    rows, seconds, bronze = send(spark, int(port), table, place, sink)
    print(json.dumps({"rows": rows, "seconds": round(seconds, 3), "bronze_seconds": round(bronze, 3)}), flush=True)


if __name__ == "__main__":
    main()
