"""The same with tables in the server's catalog: nothing is at hand but SQL, as on serverless compute."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakehouse_cdc.lake.commit_log import Commit
from lakehouse_cdc.testing import MySqlServer
from tests.spark_connect.test_folder import ALTERED, CHANGES, OF_FORMS, TABLES
from tests.support.connect_server import answer, client, configuration

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
COMPUTED = ['  "*.t": {computed: {twice: "v * 2"}, filter: "v >= 0"}']
CATALOG = "spark_catalog"
HISTORY = """
import json, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
rows = spark.sql(sys.argv[2]).collect()
print(json.dumps([row.asDict() for row in rows], default=str))
"""


@pytest.fixture
def file(connect: str, mysql: MySqlServer, database: str, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "pipeline.yml"
    target = {"catalog": CATALOG, "bronze": f"{database}_b", "silver": f"{database}_s"}
    target |= {"checkpoints": "state", "metrics": "true"}
    path.write_text(configuration(mysql.url, connect, database, target, OF_FORMS + COMPUTED))
    yield path
    for layer in "bs":
        asked(connect, f"DROP SCHEMA IF EXISTS {CATALOG}.{database}_{layer} CASCADE")


def asked(server: str, sql: str) -> Any:
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", HISTORY, server, sql], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_all_forms_and_ddl(connect: str, file: Path, database: str, run: Callable[..., None]) -> None:
    run(*TABLES)
    for statements in ([], CHANGES, ALTERED, ["UPDATE t SET v = v + 1", "DELETE FROM n", "UPDATE h SET v = 0"]):
        run(*statements)
        report = answer("run", "--once", "-c", file)
        assert (report["quarantined"], report["restarts"]) == ({}, 0)
    assert answer("verify", "-c", file)["verified"] is True
    assert answer("status", "-c", file)["tables"][f"{database}.t"]["silver_rows"] == 3
    assert asked(connect, f"SELECT * FROM {CATALOG}.{database}_s.t WHERE twice <> v * 2") == []
    for table in "thsna":
        require_notes(asked(connect, f"DESCRIBE HISTORY {CATALOG}.{database}_s.{table}"))


def require_notes(history: list[dict[str, Any]]) -> None:
    """Each MERGE says its batch, once for each application; what else says none comes after a commit that does."""
    commits = [Commit.of(one["version"], one["userMetadata"], None, one["operationParameters"]) for one in history]
    merges = [commit for commit, one in zip(commits, history, strict=True) if one["operation"] == "MERGE"]
    assert all(commit.note is not None for commit in merges)
    made = [(commit.carried_for, commit.note.batch) for commit in merges if commit.note is not None]
    assert len(made) == len(set(made))
    assert [commit.note for commit in commits if commit.note is not None] != []


def test_a_client_that_is_killed_leaves_what_the_next_one_continues(file: Path, run: Callable[..., None]) -> None:
    """In the middle of a batch of silver, too: a MERGE that is in is not done again."""
    run(*TABLES)
    died = 0
    for number in (5, 14, 22, 29, 35):
        done = client("run", "--once", "-c", file, code=None, environment={"DIE_AT": str(number)})
        assert done.returncode in (0, -9), done.stderr
        died += done.returncode == -9
        run("UPDATE t SET v = v + 1", "INSERT INTO n VALUES (7, 7)", "UPDATE h SET v = v + 1 WHERE id = 1")
    assert died >= 3
    answer("run", "--once", "-c", file)
    assert answer("verify", "-c", file)["verified"] is True
