"""A standalone cluster of two workers, with tables and checkpoints in S3: nothing is shared but the bucket."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakehouse_cdc.testing import MySqlServer, Shop, ShopWriter
from tests.support.pipeline_process import Driver
from tests.support.s3_pipelines import bucket_of
from tests.support.s3_server import S3Server
from tests.support.standalone_cluster import CONF, Cluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(0)]
WITHIN = 600.0


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


def on(file: Path, cluster: Cluster, **more: Any) -> None:
    """Have the file's pipeline run there."""
    config = yaml.safe_load(file.read_text())
    config["spark"] = {"master": cluster.url, "conf": {**CONF, "spark.executor.cores": 1}, **more}
    file.write_text(yaml.safe_dump(config))


def command(*arguments: str | Path) -> dict[str, Any]:
    """A command in a process of its own: this one has a session."""
    words = [sys.executable, "-m", "lakehouse_cdc", *map(str, arguments), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=WITHIN)
    assert done.returncode == 0, done.stdout + done.stderr
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def batches(s3: S3Server, file: Path) -> int:
    """How many bronze has taken."""
    place = f"/{bucket_of(file)}/"
    commits = {one.path for one in s3.requests if one.method == "PUT" and "/bronze/commits/" in one.path}
    return sum(path.startswith(place) for path in commits)


@pytest.mark.parametrize("checkpoints", ["kept"], indirect=True)
def test_a_worker_that_is_killed_under_writes(
    s3: S3Server, mysql: MySqlServer, database: str, file: Path, cluster: Cluster, checkpoints: str
) -> None:
    shop = Shop(mysql.connect, database, seed=31)
    shop.create()
    shop.load(3000)
    on(file, cluster)
    with ShopWriter(shop, rate=20):
        first = command("run", "--once", "-c", file)
        assert sum(ops.get("r", 0) for ops in first["tables"].values()) >= 3000
        with Driver(file) as driver:
            for change in ("", "a worker goes", "a worker comes"):
                if change:
                    cluster.kill_worker() if change == "a worker goes" else cluster.add_worker()
                before, until = batches(s3, file), time.monotonic() + WITHIN
                while batches(s3, file) < before + 3:
                    assert driver.process.poll() is None, driver.process.communicate()
                    assert time.monotonic() < until
                    time.sleep(1)
            code, _, errors = driver.interrupt()
            assert code == 130, errors
    assert cluster.executors >= 3
    command("run", "--once", "-c", file)
    verified = command("verify", "-c", file)
    assert verified["verified"]
    assert {*verified["tables"]} >= {f"{database}.{name}" for name in shop.counts()}


def test_tasks_have_the_python_of_an_archive(file: Path, database: str, cluster: Cluster) -> None:
    """One that stands for a whole environment: a program that says where it was unpacked, and is then this Python."""
    program = file.parent / "python"
    program.write_text(f'#!/bin/sh\necho "$0" >> {file.parent}/called\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    with tarfile.open(file.parent / "env.tar.gz", "w:gz") as archive:
        archive.add(program, "bin/python")
    on(file, cluster, archives=["env.tar.gz#env"])
    said = command("run", "--once", "-c", file)
    assert said["tables"][f"{database}.t"]["r"] == 3
    assert command("verify", "-c", file)["verified"]
    assert set((file.parent / "called").read_text().splitlines()) == {"./env/bin/python"}
