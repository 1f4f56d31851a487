"""A table into a folder of a local disk, and into a bucket of a store of S3 on the same machine, by turns.

    uv run python -m bench.places [--quick] [--json] [--rows 1000000] [--runs 3] [--gateway PATH] [--write bench]

The store is moto's server, or `versitygw` at PATH, which keeps objects as files of the same disk. Each run is a new
pipeline in one session of Spark, and begins with an empty place. At the end of each, silver is compared with the
source.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.machine import machine
from bench.report import results, write
from bench.tables import CUSTOMER, WARM, Workload
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.runtime.object_store import session_jars, session_settings
from lakehouse_cdc.runtime.session import local_session
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.workers.launcher import programs

_ACCESS, _SECRET = "bench-access", "bench-secret"
_VARIABLES = {"ROOT_ACCESS_KEY": _ACCESS, "ROOT_SECRET_KEY": _SECRET}  # as versitygw reads them
_KEYS = {"BENCH_ACCESS": _ACCESS, "BENCH_SECRET": _SECRET}  # as the pipelines do
_BUCKET, _STARTS_WITHIN, _WARM_ROWS, _CHANGES = "lake", 60.0, 2_000, 10
_CHANGE = "UPDATE {table} SET c_birth_day = c_birth_day % 28 + 1 WHERE c_customer_sk <= {changes}"


@dataclass(frozen=True)
class Kept:
    """One run: seconds of the first batch of `rows` rows into bronze, into silver from there, and of a small one."""

    place: str
    rows: int
    bronze: float
    silver: float
    small: float


@contextmanager
def store(folder: Path, gateway: Path | None) -> Iterator[str]:
    """A store of S3 on 127.0.0.1 with an empty bucket; its address."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    objects = folder / "objects"
    objects.mkdir()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    if gateway is not None:
        command = [str(gateway), "--port", f"127.0.0.1:{port}", "posix", str(objects)]
    with (folder / "store.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **_VARIABLES})
    url = f"http://127.0.0.1:{port}"
    try:
        _make_bucket(url)
        yield url
    finally:
        process.terminate()
        process.wait()


def _make_bucket(url: str) -> None:
    from pyarrow.fs import S3FileSystem

    scheme, _, address = url.partition("://")
    files = S3FileSystem(
        access_key=_ACCESS, secret_key=_SECRET, region="us-east-1", scheme=scheme, endpoint_override=address,
        allow_bucket_creation=True,
    )  # fmt: skip
    ends = time.monotonic() + _STARTS_WITHIN
    while (refused := _refusal(files)) is not None:
        if time.monotonic() > ends:
            raise refused
        time.sleep(0.2)


def _refusal(files: Any) -> OSError | None:
    """Why the bucket cannot be made yet."""
    try:
        files.create_dir(_BUCKET)
    except OSError as error:
        return error
    return None


def measure(
    spark: SparkSession, server: MySqlServer, workload: Workload, rows: int, folder: Path, place: str, url: str
) -> Kept:
    """New pipelines of one table, into bronze, and with silver, whose checkpoints are in the folder.

    Raises AssertionError where silver is not the source at the end.
    """
    target = {"path": place, "checkpoints": str(folder), "bronze": "bronze", "engine": "auto"}
    keys = {"access_key": "${env:BENCH_ACCESS}", "secret_key": "${env:BENCH_SECRET}"}
    storage = {"storage": {"endpoint": url, **keys}} if url else {}
    source = {"url": server.url, "tls": "disabled", "tables": [workload.name]}

    def run_once(**silver: str) -> tuple[Pipeline, float]:
        config = {"name": "bench", "source": source, "target": {**target, **storage, **silver}}
        pipeline, began = Pipeline(PipelineConfig.parse(config), spark), time.monotonic()
        pipeline.run(once=True)
        return pipeline, round(time.monotonic() - began, 2)

    _, bronze = run_once()
    _, silver = run_once(silver="silver")
    with closing(server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute(_CHANGE.format(table=workload.name, changes=_CHANGES))
    pipeline, small = run_once(silver="silver")
    report = pipeline.verify()
    assert report.verified, report.to_json()
    return Kept("S3" if url else "folder", rows, bronze, silver, small)


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.places", description="A table into a folder, and into a bucket of S3."
    )
    parser.add_argument("--quick", action="store_true", help="a small table, to see that it works")
    parser.add_argument("--json", action="store_true", help="one line of JSON on stdout")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table")
    parser.add_argument("--runs", type=int, default=3, help="how often (3)")
    parser.add_argument("--gateway", type=Path, help="the program versitygw, to be the store")
    parser.add_argument("--write", type=Path, help="a folder for RESULTS.md and places.json")
    asked = parser.parse_args()
    rows, runs = (5_000, 1) if asked.quick else (asked.rows, asked.runs)
    load, kept = os.getloadavg()[0], []
    os.environ.update(_KEYS)
    with tempfile.TemporaryDirectory(prefix="bench-") as name, MySqlServer.start(version="mysql-8.0") as server:
        folder = Path(name)
        for workload, n in ((WARM, _WARM_ROWS), (CUSTOMER, rows)):
            workload.create(server, n)
        conf, log = {**session_settings()}, folder / "spark.log"
        spark = local_session("bench", conf=conf, log=log, python=programs(), jars=session_jars())
        with store(folder, asked.gateway) as url:
            for number in range(-1, runs):
                for place, at in ((str(folder / f"lake{number}"), ""), (f"s3://{_BUCKET}/lake{number}", url)):
                    workload, n = (WARM, _WARM_ROWS) if number < 0 else (CUSTOMER, rows)
                    checkpoints = folder / f"checkpoints{number}{bool(at)}"
                    done = measure(spark, server, workload, n, checkpoints, place, at)
                    print(done, file=sys.stderr, flush=True)
                    kept += [done] * (number >= 0)
        spark.stop()
    by = "versitygw" if asked.gateway else f"moto {version('moto')}"
    data = {"machine": machine(), "busy": round(load, 1), "store": by, "runs": [asdict(one) for one in kept]}
    if asked.write is not None:
        write(asked.write, "places", data)
    print(json.dumps(data) if asked.json else results("places", data), flush=True)


if __name__ == "__main__":
    main()
