"""The checksum file of a version of a table (Delta protocol, "Version Checksum File").

Purpose: Delta in Spark reads from it the table's schema, properties and features, and the last batch of each
application. For a version without one it makes the whole state of the table, by a job, and each batch of a stream that
reads the table would wait for that.

Invariant: what the file says of a version is so. A version may have none: readers then find out by the log.

Why it holds: it is made from the file of the version before, and from what the commit between them adds and removes;
the commits here change neither schema nor properties nor features. Where that file is missing (a crash came before it
was written, or another writer made the version), the files and their bytes are counted, and schema, properties and
features are those of the newest checksum that says just what the table now has. Then it leaves out the transactions, of
which it cannot know all. It is written under another name and renamed, so it is there as a whole.

Guards: tests/lake/test_checksum.py.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lakehouse_cdc.lake.table_state import State

_OF_VERSION = re.compile(r"^\.?(\d{20})\.(?:json\.|crc\.)?crc$")  # and the sums that Hadoop keeps beside files
_COMMIT = re.compile(r"^(\d{20})\.json$")
# what a commit of ours leaves as it was, or is told
_KEPT = ("numMetadata", "numProtocol", "domainMetadata", "metadata", "protocol")


@dataclass(frozen=True)
class Change:
    """What a commit makes of the table: so many more files and bytes, and the batch of an application."""

    files: int
    size: int
    once: tuple[str, int] | None = None


def write(log: str, version: int, change: Change, before: State, count: Any) -> None:
    """Write that of a version. `before` is the version before; `count` gives the files and bytes that it has."""
    held = _read(log, version - 1) or _counted(log, before, count)
    if held is None:
        return
    said = {
        "tableSizeBytes": held["tableSizeBytes"] + change.size,
        "numFiles": held["numFiles"] + change.files,
        **{name: held[name] for name in _KEPT if name in held},
    }
    if (transactions := held.get("setTransactions")) is not None:
        said["setTransactions"] = [*_others(transactions, change), *_own(change)]
    temporary = os.path.join(log, f".making-{uuid.uuid4()}")
    try:
        with open(temporary, "x", encoding="utf-8") as out:
            out.write(json.dumps(said, ensure_ascii=False) + "\n")
        os.replace(temporary, _path(log, version))
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def remove_old(log: str) -> None:
    """Delete those of versions of which the commits are gone."""
    names = os.listdir(log)
    oldest = min((int(match[1]) for name in names if (match := _COMMIT.match(name))), default=0)
    for name in names:
        if (match := _OF_VERSION.match(name)) and int(match[1]) < oldest:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(log, name))


def _path(log: str, version: int) -> str:
    return os.path.join(log, f"{version:020}.crc")


def _read(log: str, version: int) -> dict[str, Any] | None:
    try:
        with open(_path(log, version), encoding="utf-8") as file:
            held: dict[str, Any] = json.load(file)
    except (OSError, ValueError):  # there is none, or a crash has left a part of it
        return None
    whole = held.get("numMetadata") == held.get("numProtocol") == 1 and held.get("metadata") and held.get("protocol")
    return held if whole and "numFiles" in held and "tableSizeBytes" in held else None


def _counted(log: str, now: State, count: Any) -> dict[str, Any] | None:
    versions = sorted(int(match[1]) for name in os.listdir(log) if (match := re.match(r"^(\d{20})\.crc$", name)))
    for version in reversed(versions):
        if version < now.version and (held := _read(log, version)) is not None:
            if not _says(held, now):
                return None
            files, size = count()
            same = {name: held[name] for name in ("numMetadata", "numProtocol", "metadata", "protocol")}
            return {"tableSizeBytes": size, "numFiles": files, **same}
    return None


def _says(held: Mapping[str, Any], now: State) -> bool:
    metadata, features = held["metadata"], held["protocol"].get("writerFeatures") or ()
    return (
        metadata.get("id") == now.id
        and tuple(json.loads(metadata["schemaString"])["fields"]) == now.fields
        and metadata.get("configuration") == dict(now.properties)
        and tuple(metadata.get("partitionColumns", ())) == now.partition_by
        and frozenset(features) == now.features
    )


def _others(transactions: list[dict[str, Any]], change: Change) -> Iterator[dict[str, Any]]:
    return (one for one in transactions if change.once is None or one["appId"] != change.once[0])


def _own(change: Change) -> Iterator[dict[str, Any]]:
    if change.once is not None:
        yield {"appId": change.once[0], "version": change.once[1]}
