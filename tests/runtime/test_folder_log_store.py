"""The log of a table in a folder is listed as Delta's own store lists it, without a look at what is not asked for."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakehouse_cdc.runtime.java_store import FOLDER_LOG_STORE

pytestmark = pytest.mark.spark
USUAL = ("{:020}.json", "{:020}.crc", "{:020}.checkpoint.parquet", ".{:020}.json.crc")
ODD = (
    "{:020}.checkpoint.0000000001.0000000002.parquet", "{:020}.00000000000000000003.compacted.json",
    "{:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet",
)  # fmt: skip


def stores(spark: SparkSession) -> tuple[Any, Any, Any]:
    """Ours, Delta's, and Hadoop's configuration."""
    jvm: Any = spark._jvm
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    ours = jvm.lakehouse_cdc.store.FolderLogStore(configuration)
    return ours, jvm.io.delta.storage.LocalLogStore(configuration), configuration


def listed(spark: SparkSession, store: Any, path: Path) -> list[tuple[str, int, int]]:
    """Path, size and time of each file from that one on."""
    jvm: Any = spark._jvm
    statuses = store.listFrom(jvm.org.apache.hadoop.fs.Path(str(path)), spark.sparkContext._jsc.hadoopConfiguration())
    return [(one.getPath().toString(), one.getLen(), one.getModificationTime()) for one in statuses]


def test_a_session_has_it(spark: SparkSession) -> None:
    assert spark.sparkContext.getConf().get("spark.delta.logStore.file.impl") == FOLDER_LOG_STORE


def filled(log: Path, rng: random.Random, versions: range) -> None:
    """A log of those versions, some of which have checkpoints; at times with a checkpoint of another kind."""
    log.mkdir(parents=True)
    for version in versions:
        for name in (USUAL[0], *rng.sample(USUAL[1:], rng.randint(0, 3))):
            (log / name.format(version)).write_bytes(bytes(rng.randrange(50)))
    if rng.random() < 0.5:
        (log / "_last_checkpoint").write_text(f'{{"version":{rng.choice(versions)},"size":1}}')
    (log / "_staged_commits").mkdir()


def require_same(spark: SparkSession, log: Path, rng: random.Random, end: int) -> None:
    """Versions from any on are listed as Delta's store lists them."""
    ours, deltas, _ = stores(spark)
    for first in (0, *rng.choices(range(end + 5), k=4)):
        name = rng.choice(("{:020}.json", "{:020}.", "{:020}.checkpoint.parquet", "{:020}.crc")).format(first)
        wanted = [one for one in listed(spark, deltas, log / name) if one[0].rpartition("/")[2][0].isdigit()]
        assert listed(spark, ours, log / name) == wanted, name


def test_the_list_is_deltas(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Though old versions are deleted and new ones come, and checkpoints of other kinds."""
    rng = random.Random(seed)
    for n in range(2):
        log, begin = tmp_path / f"a %20 ä'b {n}" / "_delta_log", rng.choice([0, 30])
        filled(log, rng, range(begin, begin + 60))
        require_same(spark, log, rng, begin + 60)
        for version in range(begin, begin + 20):
            for name in USUAL:
                (log / name.format(version)).unlink(missing_ok=True)
        (log / USUAL[0].format(begin + 60)).touch()
        require_same(spark, log, rng, begin + 61)
        (log / rng.choice(ODD).format(begin + 61)).touch()
        (log / USUAL[0].format(begin + 61)).touch()
        (log / "_last_checkpoint").write_text(f'{{"version":{begin + 61},"parts":2}}')
        require_same(spark, log, rng, begin + 62)


def test_what_is_deleted_meanwhile_hides_nothing_newer(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    filled(log, random.Random(0), range(10))
    (log / "_last_checkpoint").write_text('{"version":8}')
    ours, _, configuration = stores(spark)
    first: Any = spark._jvm.org.apache.hadoop.fs.Path(str(log / USUAL[0].format(0)))  # type: ignore[union-attr]
    for _ in range(2):  # by a list of the folder, then by names
        assert len([*ours.listFrom(first, configuration)]) >= 10
    statuses = ours.listFrom(first, configuration)
    assert statuses.next().getPath().getName() == USUAL[0].format(0)
    for version in range(1, 8):
        for name in USUAL:
            (log / name.format(version)).unlink(missing_ok=True)
    names = [one.getPath().getName() for one in statuses]
    assert [name for name in names if name.endswith(".json")] == [USUAL[0].format(version) for version in (8, 9)]


def test_a_long_log_is_not_listed_again(spark: SparkSession, tmp_path: Path) -> None:
    """A folder that may be entered, and not be listed, is one whose names are known."""
    log = tmp_path / "_delta_log"
    filled(log, random.Random(1), range(20))
    (log / "_last_checkpoint").unlink(missing_ok=True)
    ours, _, _ = stores(spark)
    before = listed(spark, ours, log / USUAL[0].format(15))
    (log / ODD[0].format(15)).touch()  # of which nothing says that it has come
    assert listed(spark, ours, log / USUAL[0].format(15)) == before


def test_a_folder_that_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    for store in stores(spark)[:2]:
        with pytest.raises(Py4JJavaError) as caught:
            listed(spark, store, tmp_path / "nothing" / "0")
        assert caught.value.java_exception.getClass().getName() == "java.io.FileNotFoundException"
