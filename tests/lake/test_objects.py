"""Single objects that are put whole, and on a condition, by a client without a JVM: asked of a server of S3.

Tables in S3 are not kept by it; what it does is the same in every store (see tests/object_store for the others).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from obstore.store import S3Store

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.lake.stores.objects import Objects
from tests.support.s3_server import S3Server


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as one:
        yield one


def of(server: S3Server, bucket: str) -> Objects:
    config = {"endpoint": server.url, "access_key_id": "key", "secret_access_key": "secret", "region": "us-east-1"}
    return Objects(lambda **how: S3Store(bucket, config=config, **how), plain=True)  # type: ignore[arg-type]


@pytest.fixture
def objects(server: S3Server) -> Iterator[Objects]:
    """Those of an empty bucket."""
    yield of(server, server.bucket())
    server.lost = server.refused = lambda _: False


def test_what_is_put_is_read(objects: Objects) -> None:
    assert objects.read("deep/one") is None
    for content in (b"first", b"", b"x" * 100_000):
        objects.put("deep/one", content)
        assert objects.read("deep/one")[0] == content  # type: ignore[index]
    objects.delete("deep/one")
    objects.delete("deep/one")
    assert objects.read("deep/one") is None


def test_of_many_who_put_an_object_one_does(objects: Objects) -> None:
    with ThreadPoolExecutor(8) as pool:
        won = [*pool.map(lambda n: objects.put_new("one", b"%d" % n), range(8))]
        assert won.count(True) == 1
        content, tag = objects.read("one")  # type: ignore[misc]
        assert content == b"%d" % won.index(True)
        won = [*pool.map(lambda n: objects.replace("one", b"%d" % n, tag), range(8, 16))]
        assert won.count(True) == 1
    assert objects.read("one")[0] == b"%d" % (8 + won.index(True))  # type: ignore[index]
    assert not objects.replace("one", b"late", tag)


@pytest.mark.parametrize("method", ["put", "put_new", "replace"])
def test_a_put_whose_answer_is_lost_was_made(server: S3Server, objects: Objects, method: str) -> None:
    objects.put("one", b"before")
    tag = objects.read("one")[1]  # type: ignore[index]
    if method == "put_new":
        objects.delete("one")
    lost = iter([True])
    server.lost = lambda asked: asked.method == "PUT" and next(lost, False)
    puts: dict[str, Callable[[], bool | None]] = {
        "put": lambda: objects.put("one", b"after"),
        "put_new": lambda: objects.put_new("one", b"after"),
        "replace": lambda: objects.replace("one", b"after", tag),
    }
    assert puts[method]() in (True, None)
    assert next(lost, None) is None
    assert not objects.put_new("one", b"of another")
    assert objects.read("one")[0] == b"after"  # type: ignore[index]


def test_what_is_refused_is_said_to_be(server: S3Server, objects: Objects) -> None:
    with pytest.raises(CdcError) as missing:
        of(server, "lake-of-nobody").put_new("one", b"")
    server.refused = lambda asked: asked.method == "PUT"
    with pytest.raises(CdcError) as refused:
        objects.put_new("one", b"")
    assert missing.value.code is refused.value.code is codes.OBJECT_STORE_REFUSED
    assert "secret" not in str(refused.value)
