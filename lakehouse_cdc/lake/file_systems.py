"""pyarrow's file systems of the places in which tables and small files lie: this machine's, and one for each bucket.

Tasks, the planner and the driver alike read and write by them: only the driver has a JVM.

How a bucket is reached, its keys among that, is known to a process by the bucket's name, as it is to Hadoop in the JVM
(see `runtime.object_store`), so no location has a key in it. What tasks are given has them beside what they are to do
(`in_task`, and the option of the source). pyarrow puts no object on a condition; who has a client that does says so as
well (`reach`). Where pyarrow does not put an object as a whole either, another client does (`put_whole`).

pyarrow does not say by a type whether a store refused or failed: both are transient errors of ours, with its words. A
run asks Spark's client, which does (see `pipeline.run.store`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.stores.choice import CLIENTS
from lakehouse_cdc.model.place import Storage, address, is_url, store_of

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from lakehouse_cdc.lake.stores.objects import Objects

T = TypeVar("T")
PutNew = Callable[[str, bytes], bool]  # an object, by its URL; False where there is one
HOW_TO_REACH = (
    "check the buckets of target.path and target.checkpoints, and target.storage: the endpoint, and that the keys may"
    " list the bucket, and get, put and delete its objects; a run tries again"
)
_storages: dict[str, Storage] = {}  # by bucket, as `store_of` calls it
_put_new: dict[str, PutNew] = {}  # likewise
_clients: dict[tuple[int, str, str], Any] = {}  # of a process: they have threads, which a fork does not take along


def reach(location: str, storage: Storage, put_new: PutNew | None = None) -> None:
    """Have this process reach the bucket of a location so from now on; without it, as the environment says.

    `put_new` puts an object of it on the condition that there is none of its name.
    """
    bucket = store_of(location)
    if _storages.get(bucket) != storage:
        _storages[bucket] = storage
        for key in [key for key in [*_clients] if key[1] == bucket]:
            del _clients[key]
    if put_new is not None:
        _put_new[bucket] = put_new


@dataclass(frozen=True)
class InTask:
    """A function for tasks, which first reach the buckets that the driver does."""

    function: Callable[..., Any]
    storages: Mapping[str, Storage] = field(repr=False)

    def __call__(self, *given: Any) -> Any:
        """The function's."""
        for bucket, storage in self.storages.items():
            reach(bucket, storage)
        return self.function(*given)


def in_task(function: Callable[..., T]) -> Callable[..., T]:
    """The function, as tasks are to call it."""
    return InTask(function, dict(_storages)) if _storages else function


def knows(location: str) -> bool:
    """Whether it has been said how the bucket of a location is reached."""
    return store_of(location) in _storages


def storage_of(location: str) -> Storage:
    """How the bucket of a location is reached."""
    return _storages.get(store_of(location), Storage())


def put_new(url: str, content: bytes) -> bool:
    """Put an object on the condition that there is none; False where there is. Raises LookupError where nobody can."""
    return _put_new[store_of(url)](url, content)


def can_put_new(url: str) -> bool:
    """Whether this process can put objects of the bucket on a condition."""
    return store_of(url) in _put_new


def file_system(location: str) -> tuple[FileSystem, str]:
    """The file system of a folder or a URL, and what it calls the place."""
    if not is_url(location):
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem(), location
    place = address(location)
    make = CLIENTS[place.kind].file_system
    return _client(location, "files", lambda: make(place, storage_of(location))), place.path


def objects_of(location: str) -> Objects | None:
    """What puts whole objects of the bucket of a location, and on a condition, where pyarrow is not to."""
    place = address(location)
    make = CLIENTS[place.kind].objects
    made: Objects | None = _client(location, "objects", lambda: make(place, storage_of(location)))
    return made


def _client(location: str, what: str, make: Callable[[], Any]) -> Any:
    key = os.getpid(), store_of(location), what
    if key not in _clients:
        _clients[key] = make()
    return _clients[key]


def put_whole(url: str, content: bytes) -> None:
    """Put an object in the place of one that may be: who reads gets the whole of one. Raises errors of ours."""
    if (objects := objects_of(url)) is not None:
        objects.put(address(url).prefix, content)
        return
    files, path = file_system(url)
    with asking(url), files.open_output_stream(path, compression=None) as out:
        out.write(content)


def names_at(location: str) -> list[str]:
    """The names of what is right in a folder or at a URL; none where there is nothing. Raises as `asking` does."""
    from pyarrow.fs import FileSelector

    files, path = file_system(location)
    with asking(location):
        return [one.base_name for one in files.get_file_info(FileSelector(path, allow_not_found=True))]


def writes_as_given(storage: Storage) -> bool:
    """Whether pyarrow is who Hadoop is in the JVM: a role is taken on with the environment's credentials alone."""
    return not (storage.role_arn and storage.access_key)


@contextmanager
def asking(where: str) -> Iterator[None]:
    """While the store at `where` is asked. Raises TransientError for what it fails to do, but FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        what = f"the store did not do what it was asked for: {error}"
        raise codes.OBJECT_STORE_UNAVAILABLE.error(what, where=where, hint=HOW_TO_REACH) from error
