"""What is exclusive in stores that are not S3: objects, versions of a log by all who commit, files of checkpoints."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.bronze.tables import create_bronze
from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.lake import file_systems
from lakehouse_cdc.lake.direct.commit import add_files
from lakehouse_cdc.lake.direct.newest_version import can_commit
from lakehouse_cdc.lake.object_store import ObjectStore
from lakehouse_cdc.lake.opened import opened
from lakehouse_cdc.lake.tables import append, create, drop, exists, read
from lakehouse_cdc.model.place import as_hadoop, store_of
from lakehouse_cdc.model.table_layout import Layout, Table
from lakehouse_cdc.runtime.object_store import reach
from tests.object_store.test_checkpoint_files import REFUSED, Manager
from tests.object_store.test_direct_commits import batches, files, note
from tests.support.lossy_proxy import LossyProxy
from tests.support.store_emulators import Emulator

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

WRITER = """
import json, sys
from lakehouse_cdc.runtime.object_store import Storage, reach, session_jars, session_settings
from lakehouse_cdc.runtime.session import BRIEF, local_session

kind, storage, table, who, rounds = sys.argv[1:]
spark = local_session(cores=1, conf={**BRIEF, **session_settings(kind)}, jars=session_jars(kind))
reach(spark, table, Storage(**json.loads(storage)))
for n in range(int(rounds)):
    rows = spark.range(1).selectExpr(f"'{who}' AS who", f"CAST({n} AS BIGINT) AS n")
    rows.write.format("delta").mode("append").save(table)
spark.stop()
"""


@pytest.fixture
def place(emulator: Emulator, spark: SparkSession) -> str:
    """The URL of a place that the session reaches, in a bucket of its own."""
    url = as_hadoop(emulator.place())
    reach(spark, url, emulator.storage)
    file_systems.reach(url, emulator.storage, ObjectStore(spark).put_new)
    return url


@pytest.fixture
def proxy(emulator: Emulator, place: str) -> Iterator[LossyProxy]:
    """Python's clients reach the store by it."""
    with LossyProxy(emulator.port) as one:
        file_systems.reach(place, replace(emulator.storage, endpoint=one.url))
        yield one


def test_of_many_who_put_an_object_one_does(spark: SparkSession, place: str) -> None:
    store = ObjectStore(spark)
    with ThreadPoolExecutor(8) as pool:
        for url in (f"{place}/deep/er/{n}" for n in range(5)):
            won = [*pool.map(lambda n, at=url: store.put_new(at, b"%d" % n), range(8))]
            assert won.count(True) == 1
            held = store.read(url)
            assert held is not None
            assert held[0] == b"%d" % won.index(True)
            tag = held[1]
            won = [*pool.map(lambda n, at=url, of=tag: store.replace(at, b"%d" % n, of), range(8, 16))]
            assert won.count(True) == 1
            assert store.read(url) != held
            assert not store.replace(url, b"late", tag)
    assert store.read(f"{place}/nothing") is None


@pytest.mark.parametrize("method", ["put_new", "replace"])
def test_a_put_whose_answer_is_lost_was_made(spark: SparkSession, place: str, proxy: LossyProxy, method: str) -> None:
    store, url, tag = ObjectStore(spark), f"{place}/object", ""
    if method == "replace":
        assert store.put_new(url, b"before")
        tag = store.read(url)[1]  # type: ignore[index]
    lost = iter([True])
    proxy.lost = lambda asked, path: asked != "GET" and "object" in path and next(lost, False)
    assert store.put_new(url, b"one") if method == "put_new" else store.replace(url, b"one", tag)
    assert next(lost, None) is None
    assert not store.put_new(url, b"two")
    assert store.read(url)[0] == b"one"  # type: ignore[index]


def test_what_is_refused_is_said_to_be(spark: SparkSession, place: str) -> None:
    store, bucket = ObjectStore(spark), store_of(place).rpartition("/")[2].partition("@")[0]
    elsewhere = place.replace(bucket, "lake-of-nobody")
    file_systems.reach(elsewhere, file_systems.storage_of(place))
    with pytest.raises(CdcError) as refused:
        store.put_new(f"{elsewhere}/object", b"one")
    assert refused.value.code is codes.OBJECT_STORE_REFUSED


def test_of_many_who_create_a_file_of_a_checkpoint_one_does(spark: SparkSession, place: str) -> None:
    manager = Manager(spark, f"{place}/checkpoint/offsets")
    with ThreadPoolExecutor(6) as pool:
        for batch in range(5):
            ends = [*pool.map(lambda who, of=batch: manager.create(str(of), f"end {who}"), range(6))]
            assert ends.count("") == 1
            assert {*ends} == {"", REFUSED}
            held = ObjectStore(spark).read(f"{manager.place}/{batch}")
            assert held is not None
            assert held[0].decode() == f"end {ends.index('')}"


def test_each_commit_is_made_once_though_every_answer_is_lost(spark: SparkSession, emulator: Emulator) -> None:
    """By Spark; Delta's own store for Azure would take each version for somebody else's, and commit again."""
    place, asked = as_hadoop(emulator.place()), dict[str, int]()

    def lost(method: str, path: str) -> bool:
        if method != "PUT" or "/_delta_log/0" not in path or ".json" not in path:
            return False
        asked[path] = asked.get(path, 0) + 1
        return asked[path] == 1

    with LossyProxy(emulator.port) as proxy:
        reach(spark, place, replace(emulator.storage, endpoint=proxy.url))
        spark.range(0).selectExpr("CAST(id AS BIGINT) AS n").write.format("delta").save(f"{place}/table")
        proxy.lost = lost
        for n in range(5):
            spark.range(1).selectExpr(f"CAST({n} AS BIGINT) AS n").write.format("delta").mode("append").save(
                f"{place}/table"
            )
        assert sorted(row.n for row in spark.read.format("delta").load(f"{place}/table").collect()) == [*range(5)]
    assert len(asked) >= 5


def test_many_read_one_object_at_one_moment(spark: SparkSession, place: str) -> None:
    store: Any = ObjectStore(spark)
    with ThreadPoolExecutor(8) as pool:
        for url in (f"{place}/read/{n}" for n in range(100)):
            assert store.put_new(url, b"content")
            read = [*pool.map(lambda _, at=url: bytes(store._java.content(store._configuration, at)), range(8))]
            assert read == [b"content"] * 8


def test_two_processes_append_at_the_same_moment(
    spark: SparkSession, emulator: Emulator, place: str, tmp_path: Path
) -> None:
    rounds, table = 50, f"{place}/table"
    empty = spark.range(0).selectExpr("'' AS who", "CAST(0 AS BIGINT) AS n")
    empty.write.format("delta").save(table)
    given = [emulator.kind, json.dumps(asdict(emulator.storage)), table]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, *given, who, str(rounds)], stdout=subprocess.DEVNULL,
            stderr=(tmp_path / who).open("wb"),
        )
        for who in "ab"
    ]  # fmt: skip
    assert [writer.wait(900) for writer in writers] == [0, 0], [(tmp_path / who).read_text() for who in "ab"]
    there = opened(table)
    rows = there.to_pyarrow_table().to_pylist()
    assert sorted((row["who"], row["n"]) for row in rows) == [(who, n) for who in "ab" for n in range(rounds)]
    assert there.version() == 2 * rounds


def test_two_writers_and_spark_at_the_same_moment(spark: SparkSession, place: str, proxy: LossyProxy) -> None:
    """The answer to each third version's first put of ours is lost, so that its writer does not know of it."""
    layout = Layout("tests", bronze="b", path=place)
    create_bronze(spark, layout)
    table, asked, rounds, rows = layout.changes, dict[str, int](), 20, 0

    def lost(method: str, path: str) -> bool:
        if method == "GET" or "/_delta_log/0" not in path:
            return False
        asked[path] = asked.get(path, 0) + 1
        return asked[path] == 1 and len(asked) % 3 == 0

    def direct(query: str, batch: int) -> int:
        made = files(table, batch)
        add_files(table, made, note(batch, query), "changes")
        return sum(file.count for file in made)

    def by_spark(batch: int) -> int:
        none = read(spark, table).limit(0)
        options: dict[str, str | int] = {"txnAppId": "lakehouse_cdc:tests:spark:changes", "txnVersion": batch}
        none.write.format("delta").mode("append").options(**options).save(str(table.path))
        return 0

    assert can_commit(spark, table)
    proxy.lost = lost
    with ThreadPoolExecutor(4) as pool:
        for batch in range(rounds):
            both = [pool.submit(direct, query, batch) for query in ("one", "other", "other")]
            rows += sum(one.result() for one in [*both, pool.submit(by_spark, batch)])
            rows -= both[2].result()  # the same batch once more
    taken = batches(table)
    assert len(taken) == len(set(taken))
    for query in ("one", "other", "spark"):
        assert [batch for of, batch in taken if of == query] == [*range(rounds)]
    assert read(spark, table).count() == rows


def test_a_table_is_deleted_and_made_again(spark: SparkSession, emulator: Emulator, place: str) -> None:
    table = Table("schema", "one", root=place)

    def made() -> int:
        create(spark, table, [("n", "bigint")], pipeline="tests", comment="", properties={})
        append(spark.range(1).selectExpr("id AS n"), table, {})
        return read(spark, table).count()

    assert made() == 1
    drop(spark, table, pipeline="tests")
    assert not exists(spark, table)
    assert emulator.names(str(table.path)) == []
    assert made() == 1
