"""The commits of a table, as the files of Delta's log say them: one for each version, without Spark.

Only what a commit says of itself is read, which is the first line of its file as Delta and deltalake write it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from lakehouse_cdc.lake.log_actions import name_of
from lakehouse_cdc.lake.log_files import log_at
from lakehouse_cdc.model.carried_note import carried_by
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.place import is_url
from lakehouse_cdc.model.table_layout import Table

_AT_ONCE = 16  # requests to a store


@dataclass(frozen=True)
class Commit:
    """One version of a table. `note` is None where somebody else wrote it, `rows` None where Delta counted none.

    `carried_for` is the application whose note the statement carried, "" for one that said none (see `carried_note`);
    None where the note is the commit's user metadata.
    """

    version: int
    note: CommitNote | None
    rows: int | None
    carried_for: str | None = None

    @classmethod
    def of(
        cls,
        version: int,
        note: str | None,
        metrics: Mapping[str, Any] | None,
        parameters: Mapping[str, Any] | None = None,
    ) -> Commit:
        """From what the commit says of itself: its user metadata, and metrics and parameters of its operation."""
        rows = (metrics or {}).get("numOutputRows")
        mark = carried_by(parameters) if note is None else None
        application, text = mark or (None, note)
        return cls(version, CommitNote.parse(text), None if rows is None else int(rows), application)

    def is_about(self, table: Table) -> bool:
        """False for a commit to another part of the table."""
        return self.note is None or table.part is None or self.note.part in (None, table.part)


def commit_info(table: Table, version: int) -> Mapping[str, Any] | None:
    """What the commit of a version says of itself (protocol, "Commit Provenance Information"), if it says anything.

    None where the log of a table by its path has no such version, or no longer.
    """
    if table.path is None or version < 0:
        return None
    try:
        for line in log_at(table.path).lines(name_of(version, "json")):  # the first, as Delta writes it
            if '"commitInfo"' in line and (info := json.loads(line).get("commitInfo")) is not None:
                return dict(info)
    except FileNotFoundError:
        return None
    return {}


def commits_in_log(table: Table, newest: int) -> Iterator[Commit]:
    """Those from the version `newest` on, newest first, as far as the log goes back."""
    for version, info in _infos(table, newest):
        yield Commit.of(version, *map(info.get, ("userMetadata", "operationMetrics", "operationParameters")))


def _infos(table: Table, newest: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """What each commit says of itself, newest first.

    Of a bucket more and more are asked for at once: most who ask need a few.
    """
    ask, version, at_once = partial(commit_info, table), newest, 1
    with ThreadPoolExecutor(_AT_ONCE) if is_url(table.path) else nullcontext() as pool:
        asked: Callable[..., Iterator[Mapping[str, Any] | None]] = map if pool is None else pool.map
        while version >= 0:
            wanted = range(version, max(-1, version - at_once), -1)
            for at, info in zip(wanted, asked(ask, wanted), strict=True):
                if info is None:
                    return
                yield at, info
            version -= at_once
            at_once = 1 if pool is None else min(_AT_ONCE, 2 * at_once)
