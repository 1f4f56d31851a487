"""Delta's log in S3: each version is put once, on the condition that it is not there, and commits are made once."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakehouse_cdc.runtime.object_store import LOG_STORE
from tests.support.s3_server import S3Server

WRITER = """
import sys
from lakehouse_cdc.runtime.object_store import Storage, reach, session_jars, session_settings
from lakehouse_cdc.runtime.session import BRIEF, local_session

endpoint, bucket, who, rounds = sys.argv[1:]
spark = local_session(cores=1, conf={**BRIEF, **session_settings()}, jars=session_jars())
reach(spark, f"s3a://{bucket}", Storage(endpoint=endpoint, access_key="key", secret_key="secret"))
for n in range(int(rounds)):
    rows = spark.range(1).selectExpr(f"'{who}' AS who", f"CAST({n} AS BIGINT) AS n")
    rows.write.format("delta").mode("append").save(f"s3a://{bucket}/table")
spark.stop()
"""


def test_a_version_is_that_of_one_writer(spark: SparkSession, bucket: str) -> None:
    jvm: Any = spark._jvm
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    logs = getattr(jvm.lakehouse_cdc.store, LOG_STORE.rpartition(".")[2])

    refusals: list[str] = []

    def wrote(version: int, who: int) -> bool:
        path = jvm.org.apache.hadoop.fs.Path(f"s3a://{bucket}/t/_delta_log/{version:020}.json")
        lines = jvm.java.util.ArrayList()
        lines.add(json.dumps({"commitInfo": {"who": who}}))
        try:
            logs(configuration).write(path, lines.iterator(), False, configuration)
        except Py4JJavaError as error:
            refusals.append(error.java_exception.getClass().getName())
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        for version in range(10):
            won = [*pool.map(lambda who, at=version: wrote(at, who), range(6))]
            assert won.count(True) == 1
    assert refusals == ["java.nio.file.FileAlreadyExistsException"] * 50
    path = jvm.org.apache.hadoop.fs.Path(f"s3a://{bucket}/t/_delta_log/{0:020}.json")
    assert len([*logs(configuration).listFrom(path, configuration)]) == 10


@pytest.mark.long
def test_each_commit_is_made_once_though_every_answer_is_lost(spark: SparkSession, s3: S3Server, bucket: str) -> None:
    """The client asks again, and is refused for its own version; Delta would take that for somebody else's."""
    answers: dict[str, int] = {}

    def lost(asked: Any) -> bool:
        if asked.method != "PUT" or "/_delta_log/0" not in asked.path or not asked.path.endswith(".json"):
            return False
        answers[asked.path] = answers.get(asked.path, 0) + 1
        return answers[asked.path] == 1

    s3.lost = lost
    path = f"s3a://{bucket}/table"
    for n in range(5):
        rows = spark.range(1).selectExpr(f"CAST({n} AS BIGINT) AS n")
        options: dict[str, str | int] = {"txnAppId": "tests", "txnVersion": n}
        rows.write.format("delta").mode("append").options(**options).save(path)
    assert sorted(row.n for row in spark.read.format("delta").load(path).collect()) == [*range(5)]
    commits = s3.commits(bucket)
    assert {one.condition for one in commits} == {"*"}
    assert {one.path for one in commits if one.status.startswith("412")} == set(answers)
    assert len(answers) == 5


@pytest.mark.long
def test_two_processes_append_at_the_same_moment(
    spark: SparkSession, s3: S3Server, bucket: str, tmp_path: Path
) -> None:
    rounds = 100
    empty = spark.range(0).selectExpr("'' AS who", "CAST(0 AS BIGINT) AS n")
    empty.write.format("delta").save(f"s3a://{bucket}/table")  # of two that make a table Delta refuses one
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, s3.url, bucket, who, str(rounds)], stdout=subprocess.DEVNULL,
            stderr=(tmp_path / who).open("wb"),
        )
        for who in "ab"
    ]  # fmt: skip
    assert [writer.wait(900) for writer in writers] == [0, 0], [(tmp_path / who).read_text() for who in "ab"]
    from deltalake import DeltaTable

    options = {
        "AWS_ENDPOINT_URL": s3.url, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true",
    }  # fmt: skip
    table = DeltaTable(f"s3://{bucket}/table", storage_options=options)
    rows = table.to_pyarrow_table().to_pylist()
    assert sorted((row["who"], row["n"]) for row in rows) == [(who, n) for who in "ab" for n in range(rounds)]
    commits = s3.commits(bucket)
    assert {one.condition for one in commits} == {"*"}
    assert sum(one.status.startswith("200") for one in commits) == 2 * rounds + 1 == table.version() + 1
    assert any(one.status.startswith("412") for one in commits)
