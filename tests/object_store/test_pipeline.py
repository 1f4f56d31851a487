"""The whole road into S3: rows and changes, silver, verify, the next run; one run at a time; and no key is shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.lake.commits import newest_version
from lakehouse_cdc.lake.files.choice import files_at
from lakehouse_cdc.lake.object_store import ObjectStore
from lakehouse_cdc.lake.tables import properties
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.pipeline.run import lease
from tests.remedies import remedy
from tests.support.commands import call
from tests.support.pipeline_process import Driver, last
from tests.support.pipelines import assert_each_event_once, bronze
from tests.support.s3_pipelines import ACCESS, SECRET, bucket_of, every_file, of_rows, shown
from tests.support.s3_server import S3Server
from tests.support.silver.engines import writers

OF_SPARK = re.compile(r"/kept/shop/(?:bronze|silver)/(?:metadata|offsets/\d+|commits/\d+)$")


@pytest.mark.parametrize("checkpoints", ["kept", pytest.param("checkpoints", marks=pytest.mark.long)], indirect=True)
def test_rows_changes_and_the_next_run(
    spark: SparkSession, s3: S3Server, file: Path, database: str, run: Callable[..., None], checkpoints: str
) -> None:
    lake = Pipeline.from_yaml(file, spark)
    assert {f.severity for f in lake.doctor() if f.name.startswith("target.")} <= {"ok"}
    assert of_rows(lake.run(once=True).to_json()) == {f"{database}.t": {"r": 3}}
    assert lake.verify().verified
    run("INSERT INTO t VALUES (4, 'hush', 40)", "UPDATE t SET v = 11 WHERE id = 1", "DELETE FROM t WHERE id = 2")
    again = Pipeline.from_yaml(file, spark)
    assert of_rows(again.run(once=True).to_json()) == {f"{database}.t": {"c": 1, "u": 1, "d": 1}}
    assert again.verify().verified
    assert again.status().healthy
    assert_each_event_once(bronze(spark, again))
    assert {one.condition for one in s3.commits(bucket_of(file))} == {"*"}
    silver = again.layout.silver_table(f"{database}.t")
    assert set(writers(silver, newest_version(spark, silver))) == {"us", "deltalake"}
    texts = [shown(file.parent), repr(again.storage()), str(dict(spark.sparkContext.getConf().getAll()))]
    if checkpoints == "kept":
        assert [one.name for one in file.parent.iterdir()] == [file.name]
        created = [one for one in s3.requests if one.method == "PUT" and OF_SPARK.search(one.path)]
        assert len(created) >= 6
        assert {one.condition for one in created} == {"*"}
        texts += every_file(files_at(again.checkpoints))
    for text in texts:
        assert SECRET not in text
        assert ACCESS not in text
    with again.resetting() as reset:
        assert {one.kind for one in reset.deletions} == {"checkpoint", "silver", "bronze"}
        reset.execute()
    left = [name for name in s3.objects(bucket_of(file)) if not name.endswith(".lease")]
    assert left == []
    assert s3.folders(bucket_of(file)) == []
    assert of_rows(Pipeline.from_yaml(file, spark).run(once=True).to_json()) == {f"{database}.t": {"r": 3}}


@pytest.mark.long
@remedy(codes.LEASE_LOST)
def test_a_run_that_has_lost_its_lease_commits_nothing(
    spark: SparkSession, file: Path, database: str, run: Callable[..., None]
) -> None:
    lake = Pipeline.from_yaml(file, spark)
    lake.run(once=True)
    run("INSERT INTO t VALUES (4, 'hush', 40)")
    before = bronze(spark, lake).count()
    with lake.writing("wait"):
        [held] = lease._held.values()
        place = f"s3a://{bucket_of(file)}/a/lake/_lakehouse_cdc/shop.lease"
        ObjectStore(spark).delete(place)
        held.lease.renew()
        with pytest.raises(CdcError) as lost:
            lake.run(once=True)
    assert lost.value.code is codes.LEASE_LOST
    assert lost.value.hint == "Check with status that no other run writes to the tables, and run again."
    assert bronze(spark, lake).count() == before
    call(0, "status", "-c", file)
    assert of_rows(call(0, "run", "--once", "-c", file)) == {f"{database}.t": {"c": 1}}
    assert lake.verify().verified


@pytest.mark.long
@remedy(codes.OBJECT_STORE_REFUSED)
def test_a_bucket_that_is_not_there_is_made(spark: SparkSession, s3: S3Server, file: Path) -> None:
    file.write_text(file.read_text().replace(bucket_of(file), "lake-that-is-to-come"))
    said = call(2, "run", "--once", "-c", file)
    assert said["code"] == codes.OBJECT_STORE_REFUSED.label
    assert said["hint"].startswith("Check the bucket of target.path")
    s3.bucket("lake-that-is-to-come")
    call(0, "run", "--once", "-c", file)


def test_a_store_that_forbids_it_is_said_to(spark: SparkSession, s3: S3Server, file: Path) -> None:
    s3.refused = lambda asked: asked.method == "PUT"
    said = call(2, "run", "--once", "-c", file)
    assert said["code"] == codes.OBJECT_STORE_REFUSED.label
    assert SECRET not in str(said)


@pytest.mark.long
@remedy(codes.OBJECT_STORE_UNAVAILABLE)
def test_a_store_that_is_away_is_started(spark: SparkSession, s3: S3Server, file: Path) -> None:
    with S3Server() as server:
        port, bucket = server.port, server.bucket()
    text = file.read_text().replace(bucket_of(file), bucket).replace(s3.url, f"http://127.0.0.1:{port}")
    file.write_text(text)
    said = call(3, "run", "--once", "-c", file)
    assert said["code"] == codes.OBJECT_STORE_UNAVAILABLE.label
    assert said["hint"].startswith("Check target.storage.endpoint")
    with S3Server(port) as server:
        server.bucket(bucket)
        call(0, "run", "--once", "-c", file)


@pytest.mark.long
def test_a_second_run_is_refused_and_a_killed_one_replaced(
    spark: SparkSession, s3: S3Server, file: Path, database: str, run: Callable[..., None]
) -> None:
    """As processes of their own, the second with checkpoints of its own, as on another machine."""
    elsewhere = ["--set", "target.checkpoints=elsewhere"]
    with Driver(file) as driver:
        driver.wait_for(file.parent / "checkpoints" / "shop" / "bronze", 0)
        run("INSERT INTO t VALUES (4, 'hush', 40)")
        said = call(3, "run", "--once", "-c", file, *elsewhere)
        assert said["code"] == codes.TABLES_LOCKED.label
        assert str(driver.process.pid) in said["error"]
        if (children := driver.children()) and (text := Path(f"/proc/{children[0]}/cmdline").read_bytes()):
            assert SECRET.encode() not in text
        driver.kill(with_jvm=True)
    lake = Pipeline.from_yaml(file, spark)
    lake.run(once=True)
    assert lake.verify().verified
    assert lease._WRITER in properties(spark, lake.layout.changes)
    assert_each_event_once(bronze(spark, lake))
    assert SECRET not in shown(file.parent)
    assert last(file.parent / "checkpoints" / "shop" / "bronze") >= 0
    assert os.environ["STORE_SECRET"] == SECRET


OWN_SESSION = """
import sys
from pathlib import Path
from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.runtime.object_store import session_jars, session_settings
from lakehouse_cdc.runtime.session import local_session
from lakehouse_cdc.workers.launcher import programs

file, made, _ = sys.argv[1:]
how = {"jars": session_jars(), "conf": session_settings()} if made == "as the hint says" else {}
log = Path(file).with_name("s.log")
spark = None if made == "by the pipeline" else local_session(log=log, python=programs(), **how)
try:
    print(Pipeline.from_yaml(file, spark).run(once=True).to_json()["tables"][sys.argv[3]]["rows"])
except CdcError as error:
    print(error.code.label, error.hint)
"""


@pytest.mark.long
@remedy(codes.OBJECT_STORE_UNSUPPORTED)
def test_a_session_of_one_s_own_has_what_is_needed(file: Path, database: str, run: Callable[..., None]) -> None:
    said = []
    for number, made in enumerate(["without it", "as the hint says", "by the pipeline"]):
        run(f"INSERT INTO t VALUES ({number + 10}, 'hush', 40)")
        command = [sys.executable, "-c", OWN_SESSION, str(file), made, f"{database}.t"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.splitlines()[-1])
    assert said[0].startswith(codes.OBJECT_STORE_UNSUPPORTED.label)
    assert "lakehouse_cdc.runtime.object_store" in said[0]
    assert said[1:] == ["5", "1"]
