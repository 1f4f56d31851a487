"""Data files that a batch has written, and that no commit names: what is left when a process dies in the middle of a
batch.

They are part of no table, and VACUUM deletes them after a week. But where the batch was planned under a configuration
that hides less than the one of now, they hold what is to be hidden now. So they go with the batch's plan.

All files of a batch are newer than its plan, and so is every commit that could name them. So a file that is newer than
the plan, and named by no commit that is, belongs to no version. To be used by the only writer of a table.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from urllib.parse import unquote

from lakehouse_cdc.lake.cleanup.unfinished_tables import LOG
from lakehouse_cdc.model.table_layout import Table

_SLACK = 3600.0  # seconds; to read more commits than necessary costs time only


def remove_uncommitted(table: Table, since: float) -> int:
    """Delete the data files of a table in a folder here that were written since then (seconds since 1970); how many."""
    if table.path is None or not os.path.isdir(table.path):
        return 0
    named = set(_named(os.path.join(table.path, LOG), since - _SLACK))
    removed = 0
    for at, folders, names in os.walk(table.path):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        for name in names:
            path = os.path.join(at, name)
            known = os.path.relpath(path, table.path) in named or not name.endswith(".parquet")
            if not known and os.path.getmtime(path) >= since:
                os.unlink(path)
                removed += 1
    return removed


def _named(log: str, since: float) -> Iterator[str]:
    """The files that commits since then add or remove (protocol, "Add File and Remove File")."""
    for name in os.listdir(log) if os.path.isdir(log) else []:
        path = os.path.join(log, name)
        if name.endswith(".json") and not name.startswith(".") and os.path.getmtime(path) >= since:
            with open(path, encoding="utf-8") as lines:
                for line in lines:
                    action = json.loads(line)
                    for kind in ("add", "remove"):
                        if kind in action:
                            yield unquote(action[kind]["path"])
