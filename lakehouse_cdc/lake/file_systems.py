"""pyarrow's file systems of the places in which tables and small files lie: this machine's, and one for each bucket.

Tasks, the planner and the driver alike read and write by them: only the driver has a JVM.

How a bucket is reached, its keys among that, is known to a process by the bucket's name, as it is to Hadoop in the JVM
(see `runtime.object_store`), so no location has a key in it. What tasks are given has them beside what they are to do
(`in_task`, and the option of the source). pyarrow puts no object on a condition; who has a client that does says so as
well (`reach`).

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
from lakehouse_cdc.model.place import Storage, bucket_and_prefix, is_url

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

T = TypeVar("T")
PutNew = Callable[[str, bytes], bool]  # an object, by its URL; False where there is one
HOW_TO_REACH = (
    "check the buckets of target.path and target.checkpoints, and target.storage: the endpoint, and that the keys may"
    " list the bucket, and get, put and delete its objects; a run tries again"
)
_ATTEMPTS = 5
_CONNECT, _REQUEST = 5.0, 20.0  # seconds
_storages: dict[str, Storage] = {}
_put_new: dict[str, PutNew] = {}
_systems: dict[tuple[int, str], Any] = {}  # by process: a file system has threads, which a fork does not take along


def reach(bucket: str, storage: Storage, put_new: PutNew | None = None) -> None:
    """Have this process reach a bucket so from now on; without it, as the environment says.

    `put_new` puts an object of it on the condition that there is none of its name.
    """
    if _storages.get(bucket) != storage:
        _storages[bucket] = storage
        _systems.pop((os.getpid(), bucket), None)
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
    return bucket_and_prefix(location)[0] in _storages


def storage_of(location: str) -> Storage:
    """How the bucket of a location is reached."""
    return _storages.get(bucket_and_prefix(location)[0], Storage())


def put_new(url: str, content: bytes) -> bool:
    """Put an object on the condition that there is none; False where there is. Raises LookupError where nobody can."""
    return _put_new[bucket_and_prefix(url)[0]](url, content)


def can_put_new(url: str) -> bool:
    """Whether this process can put objects of the bucket on a condition."""
    return bucket_and_prefix(url)[0] in _put_new


def file_system(location: str) -> tuple[FileSystem, str]:
    """The file system of a folder or a URL, and what it calls the place."""
    if not is_url(location):
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem(), location
    bucket, prefix = bucket_and_prefix(location)
    key = os.getpid(), bucket
    if key not in _systems:
        _systems[key] = _made(bucket, _storages.get(bucket, Storage()))
    return _systems[key], "/".join(filter(None, (bucket, prefix)))


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


def _made(bucket: str, storage: Storage) -> FileSystem:
    """The file system of a bucket. With an endpoint of its own a bucket is a part of the path, not of the host's name.

    Without a region, and without such an endpoint, S3 is asked which it is.
    """
    import pyarrow as pa
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem, resolve_s3_region

    scheme, _, address = storage.endpoint.rpartition("://")
    region = storage.region or ("us-east-1" if address else resolve_s3_region(bucket))
    puts_at_once = int(pa.__version__.split(".")[0]) >= 21  # before, each put is three requests
    one_request = {"allow_delayed_open": True} if puts_at_once else {}
    return S3FileSystem(
        access_key=storage.access_key or None, secret_key=storage.secret_key or None, role_arn=storage.role_arn or None,
        region=region, scheme=scheme or "https", endpoint_override=address or None, **one_request,
        connect_timeout=_CONNECT, request_timeout=_REQUEST, retry_strategy=AwsStandardS3RetryStrategy(_ATTEMPTS),
    )  # fmt: skip
