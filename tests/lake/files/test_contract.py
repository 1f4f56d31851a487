"""What places of small files promise, asked of a folder and of buckets alike."""

from __future__ import annotations

import pickle
import random
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from lakehouse_cdc.errors import TransientError, codes
from lakehouse_cdc.lake import file_systems
from lakehouse_cdc.lake.files.bucket import Bucket
from lakehouse_cdc.lake.files.choice import files_at, parted
from lakehouse_cdc.lake.files.port import FAILURES, Files
from lakehouse_cdc.model.place import Storage
from tests.support.s3_server import Request, S3Server
from tests.support.store_emulators import EMULATORS, Emulator

SECRET = "a-key-that-nobody-sees"
# a request, a table whose name ends as that of a compressed file does, one whose name is encoded, and a long one
NAMES = ["paused", "snapshot-shop.t.gz", "snapshot-shop.a%20b%2Fc", f"aside-{'x' * 200}", "3f.json"]


@dataclass(frozen=True)
class Place:
    """An empty place, by its location, and the server that it is on, if it is on one."""

    location: str
    server: S3Server | None

    @property
    def files(self) -> Files:
        return files_at(self.location)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def in_bucket(s3: S3Server) -> Iterator[Place]:
    name = s3.bucket()
    file_systems.reach(
        f"s3://{name}", Storage(endpoint=s3.url, access_key="key", secret_key=SECRET), partial(put_new, s3)
    )
    yield Place(f"s3://{name}/deep/place", s3)
    s3.lost = s3.refused = lambda _: False


def put_new(s3: S3Server, url: str, content: bytes) -> bool:
    """As a client of S3 puts an object on a condition."""
    signed = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
    headers = {"If-None-Match": "*", "Authorization": signed, "Content-Type": "application/octet-stream"}
    at = s3.url + "/" + url.partition("://")[2]
    try:
        urllib.request.urlopen(urllib.request.Request(at, content, headers, method="PUT")).close()
    except urllib.error.HTTPError as error:
        if error.code != 412:
            raise
        return False
    return True


@pytest.fixture(
    params=["folder", "bucket", *(pytest.param(name, marks=pytest.mark.long, id=name) for name in EMULATORS)]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        return Place(str(tmp_path / "deep" / "place"), None)
    if request.param == "bucket":
        made: Place = request.getfixturevalue("in_bucket")
        return made
    emulator: Emulator = request.getfixturevalue("emulators")(request.param)
    location = emulator.place()
    file_systems.reach(location, emulator.storage)
    return Place(f"{location}/deep/place", None)


def test_an_empty_place_has_nothing(place: Place) -> None:
    files = place.files
    assert not files.is_there
    assert (files.names(), files.read("a"), files.exists("a"), files.size("a")) == ([], None, False, None)
    files.delete("a")
    files.throw_away("a")
    files.empty_trash()
    assert files.names() == []


def test_what_is_written_is_read(place: Place) -> None:
    files = place.files
    for name in NAMES:
        files.write(name, f"of {name}, ü\n")
    assert files.names() == sorted(NAMES)
    assert files.names("snapshot-") == sorted(NAMES[1:3])
    assert {name: files.read(name) for name in NAMES} == {name: f"of {name}, ü\n" for name in NAMES}
    files.write("paused", "")
    assert (files.read("paused"), files.exists("paused")) == ("", True)
    files.delete("paused")
    assert (files.read("paused"), files.exists("paused")) == (None, False)
    assert files.is_there
    assert abs(files.written_at("3f.json") - time.time()) < 60


def test_a_file_is_created_once(place: Place) -> None:
    files = place.files
    if files.pause and not file_systems.can_put_new(place.location):
        pytest.skip("this process has no client that puts objects there on a condition")
    assert files.create("offsets/1", "of the first")
    assert not files.create("offsets/1", "of another")
    assert (files.read("offsets/1"), files.within("offsets").names()) == ("of the first", ["1"])
    files.delete("offsets/1")
    assert files.create("offsets/1", "of another")
    with ThreadPoolExecutor(8) as pool:  # of all that create one at the same moment
        assert sum(pool.map(lambda n: files.create("commits/1", str(n)), range(16))) == 1
    assert files.within("commits").names() == ["1"]
    if place.server is None:
        assert [path.name for path in Path(place.location, "commits").iterdir()] == ["1"]


def test_a_place_has_places(place: Place) -> None:
    files = place.files
    files.write("offsets/9", "nine")
    files.within("offsets").write("10", "ten")
    files.write("metadata", "who")
    assert files.names() == ["metadata"]
    assert files.within("offsets").names() == ["10", "9"]
    assert (files.read("offsets/10"), files.exists("offsets"), files.size("offsets")) == ("ten", False, 7)
    above, name = parted(place.location)
    assert (above.within(name).where, above.size(name)) == (files.where, 10)
    assert files_at(files.where) == files


def test_who_reads_gets_the_whole_of_what_one_writer_wrote(place: Place) -> None:
    files, numbers, ended = place.files, count(), threading.Event()

    def text(number: int) -> str:
        return f"{number} {'x' * (number * 389 % 1000)}"

    def write() -> None:
        while not ended.wait(random.uniform(0, 0.1)):
            files.write("note", text(next(numbers)))

    files.write("note", text(next(numbers)))
    writer, seen, until = threading.Thread(target=write), list[str](), time.monotonic() + 2
    writer.start()
    try:
        while time.monotonic() < until:
            seen.append(str(files.read("note")))
    finally:
        ended.set()
        writer.join()
    assert [one for one in seen if one != text(int(one.partition(" ")[0]))] == []
    assert len({*seen}) > 1


@pytest.mark.parametrize("place", ["folder", "bucket"], indirect=True)
def test_a_write_that_fails_leaves_what_was_there(place: Place, tmp_path: Path) -> None:
    files = place.files
    files.write("note", "before")
    if place.server is None:
        files.write("other/file", "")  # no file can take the place of a folder
        with pytest.raises(FAILURES):
            files.write("other", "after")
        assert sorted(one.name for one in Path(place.location).iterdir()) == ["note", "other"]
        return
    place.server.refused = lambda asked: asked.method in ("PUT", "POST")
    with pytest.raises(FAILURES) as failed:
        files.write("note", "after")
    assert isinstance(failed.value, TransientError)
    assert failed.value.code is codes.OBJECT_STORE_UNAVAILABLE
    assert SECRET not in str(failed.value)
    assert "Access Denied" in files.refusal()
    place.server.refused = lambda _: False
    assert (files.read("note"), files.names(), files.refusal()) == ("before", ["note"], "")


def test_a_place_is_thrown_away(place: Place) -> None:
    files = place.files
    for name in ("silver/metadata", "silver/offsets/0", "silver/offsets/1", "bronze/metadata"):
        files.write(name, "x")
    files.throw_away("silver")
    assert (files.size("silver"), files.size("bronze"), files.names()) == (None, 1, [])
    files.write("silver/metadata", "another")
    files.empty_trash()
    assert files.read("silver/metadata") == "another"


def test_a_deletion_that_is_interrupted_is_brought_to_its_end(in_bucket: Place) -> None:
    files, server = in_bucket.files, in_bucket.server
    assert server is not None
    name_of_bucket = in_bucket.location.split("/")[2]
    said_before: list[bool] = []  # of each request that deletes
    for step in range(1, 10):
        for name in ("silver/metadata", "silver/offsets/0"):
            files.write(name, "x")
        asked = iter(range(1, 1000))

        def refused(request: Request, at: int = step, numbers: Iterator[int] = asked) -> bool:
            if request.method == "POST":
                said_before.append("deep/place/silver.deleting" in server.objects(name_of_bucket))
            return request.method in ("PUT", "POST", "DELETE") and next(numbers) >= at

        server.refused = refused
        try:
            files.throw_away("silver")
        except TransientError:
            server.refused = lambda _: False
            begun = "silver.deleting" in files.names()
            assert begun or files.size("silver") in (2, None)  # nothing of it is gone, or all
            files.empty_trash()
            assert (files.size("silver") is None) or not begun
            assert files.names() == []
        else:
            server.refused = lambda _: False
            assert step > 3
            assert said_before
            assert all(said_before)
            return
    pytest.fail("it never ends")


def test_an_answer_that_is_lost_is_asked_for_again(in_bucket: Place) -> None:
    files, server = in_bucket.files, in_bucket.server
    assert server is not None
    lost = iter([True])
    server.lost = lambda asked: asked.method == "PUT" and next(lost, False)
    files.write("note", "once")
    assert next(lost, None) is None
    assert files.read("note") == "once"


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also where the tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_leaves_the_whole(in_bucket: Place) -> None:
    """As by Ctrl-C: pyarrow would complete what it has so far."""
    files, server = in_bucket.files, in_bucket.server
    assert server is not None
    files.write("note", "before")
    main = threading.main_thread().ident
    assert main is not None

    def slow(asked: Request) -> bool:
        if asked.method == "PUT":
            signal.pthread_kill(main, signal.SIGINT)
            time.sleep(0.3)
        return False

    server.refused = slow
    with pytest.raises(KeyboardInterrupt):
        files.write("note", "after")
    server.refused = lambda _: False
    assert files.read("note") == "after"


def test_who_glances_sees_what_this_process_does_at_once(place: Place) -> None:
    files = place.files.within("signals").glancing()
    assert files.names() == []
    files.write("paused", "")
    assert files.names() == ["paused"]
    place.files.write("signals/stop", "")
    assert files.names() == ["paused", "stop"]
    place.files.delete("signals/paused")
    assert files.names() == ["stop"]
    place.files.throw_away("signals")
    assert files.names() == []


def test_who_glances_asks_seldom(in_bucket: Place) -> None:
    server = in_bucket.server
    assert server is not None
    files = files_at(in_bucket.location).glancing()
    before = len(server.requests)
    assert [files.names() for _ in range(20)] == [[]] * 20
    assert len(server.requests) == before + 1
    assert [in_bucket.files.names() for _ in range(3)] == [[]] * 3
    assert len(server.requests) == before + 4


def test_no_location_and_no_file_has_a_key(in_bucket: Place) -> None:
    files = in_bucket.files
    files.write("note", "text")
    for shown in (repr(files), str(files), files.where, repr(Storage(secret_key=SECRET))):
        assert SECRET not in shown
    packed = pickle.dumps(files)
    assert SECRET.encode() not in packed
    assert pickle.loads(packed).read("note") == "text"


def test_a_bucket_is_reached_otherwise_from_then_on(in_bucket: Place) -> None:
    files, server = in_bucket.files, in_bucket.server
    assert server is not None
    assert isinstance(files, Bucket)
    files.write("note", "text")
    name = files.where.removeprefix("s3a://").partition("/")[0]
    file_systems.reach(f"s3://{name}", Storage(endpoint="http://127.0.0.1:9", access_key="key", secret_key=SECRET))
    with pytest.raises(TransientError):
        files.within("x").read("note")
    file_systems.reach(f"s3://{name}", Storage(endpoint=server.url, access_key="key", secret_key=SECRET))
    assert files.read("note") == "text"
