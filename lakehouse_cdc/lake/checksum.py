"""The checksum file of a version of a table (Delta protocol, "Version Checksum File"): what the table is, in one file.

Purpose: to know the newest version's schema, properties and features, and the last batch of each application, in the
time of reading a small file, however many files the table has. Delta in Spark reads it, too; for a version without one
it makes the whole state of the table, by a job, and each batch of a stream would wait for that.

Invariant: what the file says of a version is so. A version may have none: readers then find out by the log.

Why it holds: it is made from that of the version before and from the actions of the commit between them, as Delta makes
its own. Where that of the version before is missing (a crash came before it was written, or it is another writer's) or
lacks something, the log is read from its newest checkpoint on, by the protocol's rules ("Action Reconciliation"). It is
written under another name and renamed, so it is there as a whole; what is torn all the same counts as missing.

Guards: tests/lake/test_checksum.py.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any

from lakehouse_cdc.lake.cleanup.unfinished_tables import LOG
from lakehouse_cdc.lake.log_actions import (
    Action,
    checkpoints_among,
    last_checkpoint,
    name_of,
    of_checkpoint,
    of_commit,
)
from lakehouse_cdc.lake.log_files import MAKING, LogFiles, log_at
from lakehouse_cdc.lake.table_state import State
from lakehouse_cdc.model.place import is_url

_SUMMED = 1_000  # versions that have one: a reader of the log looks at the names of all of its files
_SURELY = 86_400.0  # seconds after which nobody is at it any more
Checksum = dict[str, Any]  # as the protocol has it
_COMMIT = re.compile(r"^(\d{20})\.json$")
_SUMS = re.compile(r"^\.?(\d{20})\.(?:json\.|crc\.)?crc$")  # checksums, and the sums that Hadoop keeps beside files
# what a commit that adds and removes whole files leaves as it was
_KEPT = ("domainMetadata", "metadata", "protocol", "numDeletedRecordsOpt", "numDeletionVectorsOpt")
_COLUMNS = ["add.path", "add.size", "add.deletionVector", "txn", "metaData", "protocol", "domainMetadata"]


def newest_version(folder: str) -> int | None:
    """The newest version of the table in a folder, None where it has none."""
    log = log_at(folder)
    version = last_checkpoint(log)
    if version is None:
        version = max((int(match[1]) for name in log.names() if (match := _COMMIT.match(name))), default=None)
    while version is not None and log.exists(name_of(version + 1, "json")):
        version += 1
    return version


def checksum_of(folder: str, version: int) -> Checksum | None:
    """That of a version, read or made from the log; None where the log does not simply say."""
    log = log_at(folder)
    return _read(log, version) or _replayed(log, version)


def state_in(held: Checksum, version: int) -> State:
    """The table as its checksum says that it is."""
    metadata, protocol = held["metadata"], held["protocol"]
    return State(
        metadata["id"],
        version,
        tuple(json.loads(metadata["schemaString"])["fields"]),
        dict(metadata.get("configuration") or {}),
        tuple(metadata.get("partitionColumns") or ()),
        frozenset(protocol.get("writerFeatures") or ()),
    )


def last_batch_in(held: Checksum, application: str) -> int | None:
    """The last batch that the application has committed, None for none."""
    batches = {one["appId"]: int(one["version"]) for one in held["setTransactions"]}
    return batches.get(application)


def state_by_checksum(folder: str) -> State | None:
    """The newest version's state, None where it has no checksum."""
    version = newest_version(folder)
    held = None if version is None else _read(log_at(folder), version)
    return None if version is None or held is None else state_in(held, version)


def state_by_log(folder: str) -> State | None:
    """The same by all of the log; None where that does not simply say."""
    version = newest_version(folder)
    held = None if version is None else _replayed(log_at(folder), version)
    return None if version is None or held is None else state_in(held, version)


def write_checksum(folder: str, version: int, before: Checksum, actions: Iterable[Action]) -> None:
    """Write that of a version, from that of the version before and what was committed.

    Raises OSError, of a bucket TransientError.
    """
    said = json.dumps(_after(before, actions), ensure_ascii=False)
    log_at(folder).replace(name_of(version, "crc"), f"{said}\n")


def remove_old(folder: str, newest: int) -> None:
    """Delete those of versions long before the newest, or whose commits are gone, and what a crash left unfinished.

    Nobody needs them but readers of just that version, who are faster with one.
    """
    log = log_at(folder)
    names = log.names()
    if not is_url(folder):
        _remove_left(folder)
        _remove_left(os.path.join(folder, LOG))
    oldest = min((int(match[1]) for name in names if (match := _COMMIT.match(name))), default=0)
    for name in names:
        if (match := _SUMS.match(name)) and int(match[1]) < max(oldest, newest - _SUMMED):
            log.delete(name)


def _remove_left(folder: str) -> None:
    """Delete what a crash has left unfinished there."""
    surely = time.time() - _SURELY
    for path in (os.path.join(folder, name) for name in os.listdir(folder) if name.startswith(MAKING)):
        if not os.path.exists(path) or os.path.getmtime(path) >= surely:
            continue
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(FileNotFoundError):
                os.unlink(path)


def _after(before: Checksum, actions: Iterable[Action]) -> Checksum:
    """What commits make of a checksum that add and remove files, say which batch they are, or what the table is."""
    files, size = int(before["numFiles"]), int(before["tableSizeBytes"])
    last = {one["appId"]: one for one in before["setTransactions"]}
    kept = {name: before[name] for name in _KEPT if name in before}
    for action in actions:
        if (added := action.get("add")) is not None:
            files, size = files + 1, size + added["size"]
        elif (removed := action.get("remove")) is not None:
            files, size = files - 1, size - removed["size"]
        elif (batch := action.get("txn")) is not None:
            last[batch["appId"]] = batch
        elif (metadata := action.get("metaData")) is not None:
            kept["metadata"] = metadata
    counted = {"tableSizeBytes": size, "numFiles": files, "numMetadata": 1, "numProtocol": 1}
    return {**counted, **kept, "setTransactions": [last[name] for name in sorted(last)]}


def _read(log: LogFiles, version: int) -> Checksum | None:
    try:
        held = json.loads(log.read(name_of(version, "crc")))
    except (OSError, ValueError):  # likewise
        return None
    whole = isinstance(held, dict) and all(held.get(name) for name in ("metadata", "protocol"))
    counted = whole and all(name in held for name in ("numFiles", "tableSizeBytes", "setTransactions"))
    return held if counted and held["setTransactions"] is not None else None


def _replayed(log: LogFiles, version: int) -> Checksum | None:
    """The same by the log."""
    try:
        checkpoints = checkpoints_among(log.names())
        checkpoint = max((each for each in checkpoints if each <= version), default=None)
        actions = iter(()) if checkpoint is None else of_checkpoint(log, checkpoint, _COLUMNS)
        return _folded(actions, log, range(0 if checkpoint is None else checkpoint + 1, version + 1))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _folded(actions: Iterator[Action], log: LogFiles, versions: range) -> Checksum | None:
    files: dict[str, int] = {}
    last: dict[str, Any] = {}
    domains: dict[str, Any] = {}
    latest: dict[str, Any] = {}
    for action in chain(actions, (one for version in versions for one in of_commit(log, version))):
        if (added := action.get("add")) is not None:
            if added.get("deletionVector") is not None:
                return None  # a path alone does not name a file
            files[added["path"]] = added["size"]
        elif (removed := action.get("remove")) is not None:
            files.pop(removed["path"], None)
        elif (batch := action.get("txn")) is not None:
            last[batch["appId"]] = batch
        elif (domain := action.get("domainMetadata")) is not None:
            domains[domain["domain"]] = domain
        latest |= {name: action[name] for name in ("metaData", "protocol") if action.get(name) is not None}
    return {
        "tableSizeBytes": sum(files.values()), "numFiles": len(files), "numMetadata": 1, "numProtocol": 1,
        "setTransactions": [last[name] for name in sorted(last)],
        "domainMetadata": [domain for domain in domains.values() if not domain["removed"]],
        "metadata": latest["metaData"], "protocol": latest["protocol"],
    }  # fmt: skip
