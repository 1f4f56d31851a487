"""What cannot be on a session of Spark Connect is refused by a code, and works as its hint says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import codes
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.remedies import remedy
from tests.sinks.conftest import broker
from tests.support.connect_server import answer, configuration
from tests.support.kafka_broker import Broker
from tests.support.topic_messages import debezium
from tests.topics.test_commands import made, produce, written

__all__ = ["broker"]
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@remedy(codes.FOLDER_NOT_SHARED)
def test_a_folder_that_the_server_does_not_see(
    connect: str, mysql: MySqlServer, database: str, run: Callable[..., None], tmp_path: Path
) -> None:
    """The client has a file system of its own mounted there, as another machine would."""
    mounted, file = tmp_path / "mounted", tmp_path / "pipeline.yml"
    mounted.mkdir()
    target = {"path": str(mounted / "lake"), "bronze": "bronze", "silver": "silver"}
    file.write_text(configuration(mysql.url, connect, database, target))
    run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    command = [sys.executable, "-m", "tests.support.serverless_client", "run", "--once", "-c", str(file), "--json"]
    script = f'mount -t tmpfs tmpfs "{mounted}" && exec "$@"'
    if shutil.which("unshare") is None or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("this user may not make a namespace of mounts")
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *command], capture_output=True, text=True, env={**os.environ}
    )
    assert done.returncode == 2, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["code"] == codes.FOLDER_NOT_SHARED.label
    assert said["hint"].startswith("Name a folder that all of them have under this name")
    assert answer("run", "--once", "-c", file)["tables"][f"{database}.t"]["r"] == 1


@remedy(codes.REMOTE_SESSION_UNSUPPORTED)
def test_topics_as_a_source(connect: str, spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic = made(broker, f"c{uuid.uuid4().hex[:8]}")
    produce(broker, topic, [debezium("c", 10, 1, 5)])
    file = written(tmp_path, broker.address, topic)
    said = answer("run", "--once", "-c", file, "--set", f"spark.remote={connect}", code=3)
    assert said["code"] == codes.REMOTE_SESSION_UNSUPPORTED.label
    assert said["hint"].endswith("or without spark.remote.")
    assert Pipeline.from_yaml(file, spark).run(once=True).to_json()["tables"]["shop.t"]["c"] == 1
