"""Which rows of a file are deleted: deletion vectors, found in Delta's log and decoded.

deltalake gives them of a table whose other features it knows, which excludes type widening, so of few tables of ours.

`vectors_of` looks for the last commit that added each file of the table as it is now: with a vector, or without. Older
ones are in the checkpoint. Kinds of checkpoints that cannot be read here raise, as does a vector in another place.

Sources: Delta protocol, "Deletion Vectors" (descriptor, its storage types, format of the file) and "Checkpoints"; the
bitmap is of RoaringFormatSpec ("Extension for 64-bit Implementations"), in Delta's portable form. Texts of 85 digits
are ZeroMQ's Z85 (RFC 32).

Guards: tests/lake/readers/test_deletion_vectors.py, where Spark has written them.
"""

from __future__ import annotations

import os
import re
import struct
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakehouse_cdc.lake.cleanup.unfinished_tables import LOG
from lakehouse_cdc.lake.log_actions import of_commit
from lakehouse_cdc.lake.log_files import FolderLog

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAGIC = 1681511377
_RUNS, _NO_RUNS = 12347, 12346  # cookies of a bitmap with runs, and of one without
_BITMAP_BYTES, _MOST_IN_ARRAY, _FEW_CONTAINERS = 8192, 4096, 4
_UUID_DIGITS = 20
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(\.\d{10}\.\d{10})?\.parquet")


@dataclass(frozen=True)
class DeletionVector:
    """The vector of one file of the table in `folder`; the other fields are those of the protocol's descriptor."""

    folder: str
    storage: str
    place: str
    offset: int
    size: int
    cardinality: int

    @classmethod
    def of(cls, folder: str, descriptor: Mapping[str, Any] | None) -> DeletionVector | None:
        """From an action of the log."""
        if descriptor is None:
            return None
        kind, place, offset = descriptor["storageType"], descriptor["pathOrInlineDv"], descriptor.get("offset") or 0
        return cls(folder, kind, place, offset, descriptor["sizeInBytes"], descriptor["cardinality"])

    def rows(self, count: int) -> NDArray[np.bool_]:
        """For each of the file's `count` rows, in its order, whether it is deleted.

        Raises ValueError where the vector is not as its descriptor says.
        """
        import numpy as np

        deleted = np.zeros(count, np.bool_)
        for at, values in _bitmaps(self._bytes()):
            deleted[at + values] = True
        if int(deleted.sum()) != self.cardinality:
            raise ValueError(f"a deletion vector of {self.folder} marks another number of rows than the log says")
        return deleted

    def _bytes(self) -> bytes:
        if self.storage == "i":
            return z85_decoded(self.place)[: self.size]
        if self.storage != "u":
            raise ValueError(f"a deletion vector of {self.folder} is in a place of its own")
        prefix, name = self.place[:-_UUID_DIGITS], uuid.UUID(bytes=z85_decoded(self.place[-_UUID_DIGITS:]))
        path = os.path.join(self.folder, prefix, f"deletion_vector_{name}.bin")
        with open(path, "rb") as file:
            file.seek(self.offset)
            (size,) = struct.unpack(">i", file.read(4))
            data = file.read(size)
            (checksum,) = struct.unpack(">I", file.read(4))
        if size != self.size or zlib.crc32(data) != checksum:
            raise ValueError(f"{path} is damaged")
        return data


def vectors_of(folder: str, version: int, paths: Iterable[str]) -> dict[str, DeletionVector]:
    """Those that files of the table have at that version, by path; `paths` are those of all its files."""
    missing, vectors = set(paths), dict[str, DeletionVector]()
    for path, descriptor in _added(os.path.join(folder, LOG), version):
        if not missing:
            break
        if path in missing:
            missing.remove(path)
            if (vector := DeletionVector.of(folder, descriptor)) is not None:
                vectors[path] = vector
    if missing:
        raise ValueError(f"the log of {folder} does not say how its files came")
    return vectors


def _added(log: str, version: int) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    """Files that were added, newest commit first, those of a checkpoint last: path, and descriptor."""
    names = [match for match in map(_CHECKPOINT.fullmatch, os.listdir(log)) if match and int(match[1]) <= version]
    checkpoint = max((int(match[1]) for match in names), default=-1)
    for at in range(version, checkpoint, -1):
        added = (action.get("add") for action in of_commit(FolderLog(log), at))
        yield from ((unquote(one["path"]), one.get("deletionVector")) for one in added if one is not None)
    for match in names:
        if int(match[1]) == checkpoint:
            yield from _in_checkpoint(os.path.join(log, match[0]))


def _in_checkpoint(path: str) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=["add.path", "add.deletionVector"]):
            for added in batch.column("add").to_pylist():
                if added is not None:
                    yield unquote(added["path"]), added.get("deletionVector")


def z85_decoded(text: str) -> bytes:
    """Five digits are four bytes."""
    words = []
    for at in range(0, len(text), 5):
        value = 0
        for digit in text[at : at + 5]:
            value = value * 85 + _DIGITS.index(digit)
        words.append(struct.pack(">I", value))
    return b"".join(words)


def _bitmaps(data: bytes) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Of a bitmap of 64-bit numbers its parts: what to add, and numbers."""
    magic, count = struct.unpack_from("<iq", data)
    if magic != _MAGIC:
        raise ValueError("a deletion vector is of another format")
    at = 12
    for _ in range(count):
        (high,) = struct.unpack_from("<I", data, at)
        for low, values in (parts := _Containers(data, at + 4)):
            yield (high << 32) + low, values
        at = parts.end


class _Containers:
    """The containers of a bitmap of 32-bit numbers, and where it ends once they have been read."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.end = data, at

    def __iter__(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        (cookie,) = self._take("<I")
        runs = b""
        if cookie & 0xFFFF == _RUNS:
            count = (cookie >> 16) + 1
            runs = bytes(self._take(f"<{(count + 7) // 8}B"))
        elif cookie == _NO_RUNS:
            (count,) = self._take("<I")
        else:
            raise ValueError("a deletion vector is of another format")
        heads = self._take(f"<{2 * count}H")
        if not runs or count >= _FEW_CONTAINERS:
            self._take(f"<{count}I")  # where each begins; they follow one another
        for n in range(count):
            is_run = bool(runs) and bool(runs[n // 8] >> n % 8 & 1)
            yield heads[2 * n] << 16, self._container(heads[2 * n + 1] + 1, is_run=is_run)

    def _container(self, cardinality: int, *, is_run: bool) -> NDArray[np.int64]:
        import numpy as np

        if is_run:
            (count,) = self._take("<H")
            pairs = self._take(f"<{2 * count}H")
            spans = (np.arange(pairs[i], pairs[i] + pairs[i + 1] + 1) for i in range(0, len(pairs), 2))
            return np.concatenate([*spans]).astype(np.int64)
        if cardinality <= _MOST_IN_ARRAY:
            return np.array(self._take(f"<{cardinality}H"), np.int64)
        bits = np.frombuffer(self._data, np.uint8, _BITMAP_BYTES, self.end)
        self.end += _BITMAP_BYTES
        return np.flatnonzero(np.unpackbits(bits, bitorder="little")).astype(np.int64)

    def _take(self, kind: str) -> tuple[int, ...]:
        values = struct.unpack_from(kind, self._data, self.end)
        self.end += struct.calcsize(kind)
        return values
