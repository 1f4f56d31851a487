"""What the log of a table has: actions of commits and of checkpoints, as the protocol has them.

Source: Delta's protocol, "Delta Log Entries", "Checkpoints", "Last Checkpoint File". Only checkpoints in one file are
read; what has others is left to Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lakehouse_cdc.lake.log_files import LogFiles

Action = Mapping[str, Any]
POINTER = "_last_checkpoint"
_CHECKPOINT = re.compile(r"^(\d{20})\.checkpoint\.parquet$")


def name_of(version: int, kind: str) -> str:
    """The name of the file of a version: json, crc or checkpoint.parquet."""
    return f"{version:020}.{kind}"


def last_checkpoint(log: LogFiles) -> int | None:
    """The version of the newest checkpoint, as `_last_checkpoint` says, if its commit is there, too."""
    try:
        version = int(json.loads(log.read(POINTER))["version"])
    except (OSError, ValueError, KeyError, TypeError):  # there is none, or a crash has left a part of it
        return None
    return version if log.exists(name_of(version, "json")) else None


def checkpoints_among(names: Iterable[str]) -> Iterator[int]:
    """The versions of the checkpoints in one file that are among the names of a log's files."""
    return (int(match[1]) for name in names if (match := _CHECKPOINT.match(name)))


def of_commit(log: LogFiles, version: int) -> Iterator[Action]:
    """The actions of a commit. Raises OSError and ValueError, of a bucket TransientError."""
    return map(json.loads, log.lines(name_of(version, "json")))


def of_checkpoint(log: LogFiles, version: int, columns: Sequence[str]) -> Iterator[Action]:
    """The actions of a checkpoint, with these columns, such as `add.path`, as far as it has them; no value is None.

    Raises OSError and ValueError, of a bucket TransientError.
    """
    import pyarrow.parquet as pq

    with log.open(name_of(version, "checkpoint.parquet")) as opened, pq.ParquetFile(opened) as file:
        there = {name.partition(".")[0] for name in columns} & set(file.schema_arrow.names)
        read = [name for name in columns if name.partition(".")[0] in there]
        for row in file.read(columns=read).to_pylist(maps_as_pydicts="strict"):
            yield {name: _without_none(value) for name, value in row.items() if value is not None}


def _without_none(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: _without_none(each) for name, each in value.items() if each is not None}
