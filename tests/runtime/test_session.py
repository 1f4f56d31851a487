"""The local session: Delta works, nothing is left in the folder, the console is clear, real executors too."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import codes
from lakehouse_cdc.runtime.session import local_session
from tests.remedies import remedy

pytestmark = pytest.mark.spark

SCRIPT = """
import os, sys
from lakehouse_cdc.runtime.session import local_session
from lakehouse_cdc.workers.launcher import programs
from pathlib import Path
names = ("JAVA_HOME", "SPARK_HOME", "SPARK_LOCAL_IP", "PYSPARK_PYTHON")
before = [os.environ.get(name) for name in names]
spark = local_session({arguments}, python=programs())
assert [os.environ.get(name) for name in names] == before
spark.range(100).selectExpr("id", "id * 2 AS twice").write.format("delta").save({table!r})
spark.sql("MERGE INTO delta.`{table}` t USING (SELECT 7L id, 1L twice) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *")
spark.sql("CREATE TABLE t (a INT) USING delta")

def worker(_):
    there = set(["lakehouse_cdc.images.rows.decode", "pandas"]) <= set(sys.modules)  # before anything here imports them
    import lakehouse_cdc.errors, pyspark
    there &= os.path.isfile(pyspark.__file__)  # not from an archive, of which each process compiles its own
    return [(sys.executable, bool(os.environ["NUMBA_CACHE_DIR"]) and there)]

told = spark.range(2).rdd.mapPartitions(worker).collect()
assert told[0] == (sys.executable, True), told
print(spark.sql("SELECT SUM(twice) FROM delta.`{table}`").head()[0])
spark.stop()
"""


ON_EXECUTORS = "conf={'spark.master': 'local-cluster[1,1,1024]'}, log=Path('the log')"


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [
        "cores=1",
        pytest.param("conf={'spark.master': 'local-cluster[1,1,1024]'}, log=Path('the log')", marks=pytest.mark.long),
    ],
)
def test_a_session_in_a_process_of_its_own(tmp_path: Path, arguments: str) -> None:
    folder = tmp_path / "the folder"
    folder.mkdir()
    script = SCRIPT.format(table=str(tmp_path / "table"), arguments=arguments)
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, str(99 * 100 - 13)), done.stderr
    assert done.stderr == ""
    assert [entry.name for entry in folder.iterdir()] == (["the log"] if "log" in arguments else [])


WITHOUT_DELTA = """
from pyspark.sql import SparkSession
from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.runtime.session import local_session

def attempt():
    try:
        local_session()
    except CdcError as error:
        print(error)

plain = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
attempt()
plain.stop()
attempt()
"""
AS_THE_HINT_SAYS = """
from importlib import import_module
from pyspark.sql import SparkSession

getattr(import_module({module!r}), {function!r})(cores=1)
theirs = SparkSession.builder.getOrCreate()
theirs.range(3).write.format("delta").save({table!r})
print(theirs.read.format("delta").load({table!r}).count())
"""


@pytest.mark.long
@remedy(codes.SPARK_WITHOUT_DELTA)
def test_a_session_without_delta_is_not_taken_for_ours(tmp_path: Path) -> None:
    """Nor is one of the JVM that it leaves. Whoever asks for ours first has Delta."""

    def said(script: str) -> list[str]:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    running, stopped = said(WITHOUT_DELTA)
    assert "CDC-7006 spark_without_delta: a Spark session without Delta runs in this process" in running
    assert "CDC-7006 spark_without_delta: Spark was started in this process without Delta's jars" in stopped
    named = re.search(r"Hint: Run this in a process of its own, or call ([\w.]+)\.(\w+)\(\) before", running)
    assert named, running
    names = {"module": named[1], "function": named[2]}
    assert said(AS_THE_HINT_SAYS.format(**names, table=str(tmp_path / "table"))) == ["3"]


def test_the_running_session_is_used(spark: SparkSession) -> None:
    assert local_session() is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
