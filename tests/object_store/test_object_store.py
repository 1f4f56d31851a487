"""Objects that are put on a condition, tables that are deleted, and what a store's refusals are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import CdcError, DefiniteError, codes
from lakehouse_cdc.lake.object_store import ObjectStore
from lakehouse_cdc.lake.tables import append, create, drop, exists, read
from lakehouse_cdc.model.table_layout import Table
from tests.support.s3_server import Request, S3Server

COLUMNS = [("n", "bigint")]


def made(spark: SparkSession, bucket: str, name: str = "one") -> Table:
    """A table of a row."""
    table = Table("schema", name, root=f"s3a://{bucket}/lake")
    create(spark, table, COLUMNS, pipeline="tests", comment="", properties={})
    append(spark.range(1).selectExpr("id AS n"), table, {})
    return table


def objects(s3: S3Server, store: ObjectStore, url: str) -> list[str]:
    """All below a prefix."""
    return [
        one
        for name in store.names(url)
        for one in (objects(s3, store, f"{url}/{name.rstrip('/')}") if name.endswith("/") else [f"{url}/{name}"])
    ]


def test_of_many_who_put_an_object_one_does(store: ObjectStore, bucket: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        for place in (f"s3a://{bucket}/deep/er/{n}" for n in range(5)):
            won = [*pool.map(lambda n, at=place: store.put_new(at, b"%d" % n), range(8))]
            assert won.count(True) == 1
            held = store.read(place)
            assert held is not None
            assert held[0] == b"%d" % won.index(True)
            tag = held[1]
            won = [*pool.map(lambda n, at=place, of=tag: store.replace(at, b"%d" % n, of), range(8, 16))]
            assert won.count(True) == 1
            assert store.read(place) != held
            assert not store.replace(place, b"late", tag)
    assert store.read(f"s3a://{bucket}/nothing") is None


@pytest.mark.parametrize("method", ["put_new", "replace"])
def test_a_put_whose_answer_is_lost_was_made(s3: S3Server, store: ObjectStore, bucket: str, method: str) -> None:
    place = f"s3a://{bucket}/object"
    tag = ""
    if method == "replace":
        assert store.put_new(place, b"before")
        tag = store.read(place)[1]  # type: ignore[index]
    lost = iter([True])
    s3.lost = lambda asked: asked.method == "PUT" and asked.path.endswith("/object") and next(lost, False)
    assert store.put_new(place, b"one") if method == "put_new" else store.replace(place, b"one", tag)
    puts = [one for one in s3.requests if one.method == "PUT" and one.path == f"/{bucket}/object" and one.condition]
    assert [one.status.split()[0] for one in puts[-2:]] == ["200", "412"]  # asked again, and refused for its own object
    assert not store.put_new(place, b"two")
    assert store.read(place)[0] == b"one"  # type: ignore[index]


def test_a_table_is_deleted_and_made_again(spark: SparkSession, s3: S3Server, store: ObjectStore, bucket: str) -> None:
    table = made(spark, bucket)
    assert exists(spark, table)
    assert read(spark, table).count() == 1
    drop(spark, table, pipeline="tests")
    assert not exists(spark, table)
    assert objects(s3, store, str(table.path)) == []
    assert read(spark, made(spark, bucket)).count() == 1


@pytest.mark.long
def test_a_deletion_that_is_interrupted_is_brought_to_its_end(
    spark: SparkSession, s3: S3Server, store: ObjectStore, bucket: str
) -> None:
    for step in range(1, 20):
        table = made(spark, bucket, f"at-{step}")
        numbers = count(1)

        def refused(asked: Request, at: int = step, numbers: count[int] = numbers) -> bool:
            deletes = asked.method in ("DELETE", "POST")
            return deletes and next(numbers) == at

        s3.refused = refused
        failures: list[CdcError] = []
        try:
            drop(spark, table, pipeline="tests")
        except CdcError as error:
            failures.append(error)
        s3.refused = lambda _: False
        assert not exists(spark, table)
        if not failures:
            assert objects(s3, store, str(table.path)) == []
            assert step > 2
            return
        assert [error.code for error in failures] == [codes.OBJECT_STORE_REFUSED]
        made(spark, bucket, f"at-{step}")
        assert read(spark, table).count() == 1
    pytest.fail("it never ends")


def test_a_log_without_a_version_is_no_table(spark: SparkSession, store: ObjectStore, bucket: str) -> None:
    log = f"s3a://{bucket}/lake/schema/one/_delta_log"
    assert store.put_new(f"{log}/.temporary", b"")
    table = Table("schema", "one", root=f"s3a://{bucket}/lake")
    assert not exists(spark, table)
    assert read(spark, made(spark, bucket)).count() == 1


def test_what_is_no_table_is_left_alone(spark: SparkSession, store: ObjectStore, bucket: str) -> None:
    assert store.put_new(f"s3a://{bucket}/lake/schema/one/notes.txt", b"of somebody")
    with pytest.raises(DefiniteError) as refused:
        exists(spark, Table("schema", "one", root=f"s3a://{bucket}/lake"))
    assert refused.value.code is codes.NOT_A_DELTA_TABLE


def test_what_stands_for_a_folder_is_deleted_and_nothing_below_it(
    s3: S3Server, store: ObjectStore, bucket: str
) -> None:
    for name in ("lake/one", "lake/two/object"):
        assert store.put_new(f"s3a://{bucket}/{name}", b"1")
    store.delete(f"s3a://{bucket}/lake/two/object")
    assert s3.folders(bucket) == ["lake/two/"]
    for place in ("lake/two", "lake", "lake/one", "lake/three"):
        store.delete_folder_object(f"s3a://{bucket}/{place}")
    assert s3.folders(bucket) == []
    assert s3.objects(bucket) == ["lake/one"]
