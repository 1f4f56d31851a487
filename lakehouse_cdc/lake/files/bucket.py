"""Small files in a prefix of a bucket, by pyarrow's file system: the planner, beside Spark, has no JVM.

Invariant: who reads an object gets the whole of what one writer put, or nothing.

Why it holds: an object is put by one request, or by an upload that is completed by one, and the store shows it from
then on as a whole. A process that dies before leaves nothing, or parts of an upload, which nobody sees. pyarrow
completes an upload also as a stream is closed by an exception, so each is written by a thread of its own, which no
interrupt reaches. It reads as many bytes as the object had when it was opened, whatever has taken its place since; so
the tag is looked at before and after, and where these differ it is read once more. Nothing that is replaced becomes
within these two requests what it was before. Where pyarrow does not put whole objects, another client puts and reads
them, each by one request (`file_systems.objects_of`).

To delete a place, an object beside it is put first that says so (`<name>.deleting`), and deleted last. A run deletes to
the end what is left before it looks at anything (see `pipeline.start.settling`); nothing is renamed in a store.

How a bucket is reached, and what a failure becomes: see `lake.file_systems`.

Guards: tests/lake/files, tests/object_store.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.lake.failpoints import Door, commit_to
from lakehouse_cdc.lake.file_systems import asking, file_system, objects_of, put_new, put_whole
from lakehouse_cdc.model.place import address

_DELETING = ".deleting"
_seen: dict[str, tuple[float, list[str]]] = {}  # when who glances has listed a place, and its names then
_changes: Counter[str] = Counter()  # by place, what this process has written and deleted


@dataclass(frozen=True)
class Bucket:
    """See `port.Files`. `where` is a URL without a slash at its end. Raises TransientError."""

    where: str
    pause: float = 5.0  # each look is a request, which costs money
    glances: bool = False

    def read(self, name: str) -> str | None:
        """See `port.Files`."""
        with self._asked() as files, suppress(FileNotFoundError):
            if (objects := objects_of(self.where)) is not None:
                held = objects.read(address(f"{self.where}/{name}").prefix)
                return None if held is None else held[0].decode()
            while True:
                content, failure = b"", None
                with files.open_input_file(self._key(name)) as file:
                    before = file.metadata()["ETag"]
                    try:
                        content = file.read()
                    except OSError as error:  # as where it is shorter by now
                        failure = error
                with files.open_input_file(self._key(name)) as file:
                    if before == file.metadata()["ETag"]:
                        break
            if failure is not None:
                raise failure
            return content.decode()
        return None

    def write(self, name: str, text: str) -> None:
        """See `port.Files`."""
        with commit_to(Door.FILE, _last(name)):
            self._put(name, text)

    def _put(self, name: str, text: str) -> None:
        try:
            with ThreadPoolExecutor(1) as thread:
                thread.submit(put_whole, f"{self.where}/{name}", text.encode()).result()
        finally:
            self._changed(name)

    def create(self, name: str, text: str) -> bool:
        """See `port.Files`."""
        try:
            with commit_to(Door.FILE, _last(name)):
                return put_new(f"{self.where}/{name}", text.encode())
        finally:
            self._changed(name)

    def delete(self, name: str) -> None:
        """See `port.Files`."""
        try:
            with commit_to(Door.FILE, _last(name)):
                self._delete(name)
        finally:
            self._changed(name)

    def _delete(self, name: str) -> None:
        if (objects := objects_of(self.where)) is not None:  # pyarrow's takes several requests, and tries none again
            objects.delete(address(f"{self.where}/{name}").prefix)
            return
        with self._asked() as files, suppress(FileNotFoundError):
            files.delete_file(self._key(name))

    def exists(self, name: str) -> bool:
        """See `port.Files`."""
        with self._asked() as files:
            try:
                with files.open_input_file(self._key(name)):  # one request; to ask for its kind is two
                    return True
            except FileNotFoundError:
                return False

    def written_at(self, name: str) -> float:
        """See `port.Files`."""
        with self._asked() as files:
            return float(files.get_file_info(self._key(name)).mtime_ns) / 1e9

    def names(self, prefix: str = "") -> list[str]:
        """See `port.Files`."""
        return [name for name in self._names() if name.startswith(prefix)]

    def _names(self) -> list[str]:
        if self.glances and (seen := _seen.get(self.where)) and time.monotonic() - seen[0] < self.pause:
            return seen[1]
        began, before = time.monotonic(), _changes[self.where]
        listed = self._listed()
        folders = {one.base_name for one in listed if not one.is_file}  # what stands for one in Azure is a file, too
        names = sorted(one.base_name for one in listed if one.is_file and one.base_name not in folders)
        if self.glances and before == _changes[self.where]:
            _seen[self.where] = began, names
        return names

    def _changed(self, name: str) -> None:
        place = f"{self.where}/{name}".rpartition("/")[0]
        _changes[place] += 1
        _seen.pop(place, None)

    def glancing(self) -> Bucket:
        """See `port.Files`."""
        return replace(self, glances=True)

    def within(self, name: str) -> Bucket:
        """See `port.Files`."""
        return replace(self, where=f"{self.where}/{name}")

    @property
    def is_there(self) -> bool:
        """See `port.Files`."""
        return bool(self._listed())

    def size(self, name: str) -> int | None:
        """See `port.Files`."""
        files = [one for one in self.within(name)._listed(recursive=True) if one.is_file]
        return sum(one.size for one in files) if files else None

    def throw_away(self, name: str) -> None:
        """See `port.Files`."""
        self.write(f"{name}{_DELETING}", name)
        self._delete_to_the_end(name)
        self.empty_trash()

    def empty_trash(self) -> None:
        """See `port.Files`."""
        for name in self.names():
            if name.endswith(_DELETING):
                self._delete_to_the_end(name.removesuffix(_DELETING))

    def _delete_to_the_end(self, name: str) -> None:
        with self._asked() as files, suppress(FileNotFoundError):
            files.delete_dir(self._key(name))
        if (objects := objects_of(self.where)) is not None:  # what stands for a folder has its name there
            objects.delete(address(f"{self.where}/{name}").prefix)
        for place in [place for place in _seen if place.startswith(f"{self.where}/{name}")]:
            del _seen[place]
        self.delete(f"{name}{_DELETING}")

    def refusal(self) -> str:
        """See `port.Files`."""
        name = f"writable-{uuid.uuid4().hex}"
        try:
            self._put(name, name)
            self.delete(name)
            self.names()
        except CdcError as error:
            return error.what
        return ""

    def _listed(self, *, recursive: bool = False) -> list[Any]:
        from pyarrow.fs import FileSelector

        with self._asked() as files:
            return list(files.get_file_info(FileSelector(self._path, recursive=recursive, allow_not_found=True)))

    @property
    def _path(self) -> str:
        return address(self.where).path

    def _key(self, name: str) -> str:
        return f"{self._path}/{name}"

    @contextmanager
    def _asked(self) -> Iterator[Any]:
        """pyarrow's file system. What it fails to do is an error of ours, but for a file that is not there."""
        with asking(self.where):
            yield file_system(self.where)[0]


def _last(name: str) -> str:
    return name.rpartition("/")[2]
