"""Data files that a batch has written, and that no commit names: what is left when a process dies in the middle of a
batch.

They are part of no table, and VACUUM deletes them after a week. But where the batch was planned under a configuration
that hides less than the one of now, they hold what is to be hidden now. So they go with the batch's plan.

All files of a batch are newer than its plan, and so is every commit that could name them. So a file that is newer than
the plan, and named by no commit that is, belongs to no version. To be used by the only writer of a table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

from lakehouse_cdc.lake.cleanup.unfinished_tables import LOG
from lakehouse_cdc.lake.file_systems import file_system
from lakehouse_cdc.lake.log_files import LogFiles, log_at
from lakehouse_cdc.lake.refused_writes import writing_to
from lakehouse_cdc.model.place import is_url
from lakehouse_cdc.model.table_layout import Table

_SLACK = 3600.0  # seconds; to read more commits than necessary costs time only
_SKEW = 300.0  # seconds by which the clock of a store may be after that of who has written the plan


def remove_uncommitted(table: Table, since: float) -> int:
    """Delete the data files of a table by its path that were written since then (seconds since 1970); how many.

    Raises TransientError where a store does not do what it is asked for.
    """
    if table.path is None:
        return 0
    from pyarrow.fs import FileSelector

    files, root = file_system(table.path)
    since -= _SKEW if is_url(table.path) else 0.0
    with writing_to(table.path):
        listed = files.get_file_info(FileSelector(root, allow_not_found=True, recursive=True))
        places = {one.path.removeprefix(f"{root}/"): one for one in listed if one.is_file}
        commits = (name for name, one in places.items() if _is_commit(name) and _written(one) >= since - _SLACK)
        named = set(_named(log_at(table.path), commits))
        data = (name for name, one in places.items() if _is_data(name) and _written(one) >= since)
        left = [places[name].path for name in data if name not in named]
        for path in left:
            files.delete_file(path)
    return len(left)


def _written(file: Any) -> float:
    return float(file.mtime_ns) / 1e9


def _is_data(name: str) -> bool:
    return name.endswith(".parquet") and not name.startswith(("_", "."))


def _is_commit(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return folder == LOG and name.endswith(".json") and not name.startswith(".")


def _named(log: LogFiles, commits: Iterable[str]) -> Iterator[str]:
    """The files that commits add or remove (protocol, "Add File and Remove File")."""
    for commit in commits:
        for line in log.lines(commit.rpartition("/")[2]):
            action = json.loads(line)
            yield from (unquote(action[kind]["path"]) for kind in ("add", "remove") if kind in action)
