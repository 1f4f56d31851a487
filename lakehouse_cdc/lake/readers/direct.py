"""The reader for tables in folders of this machine, or in buckets: deltalake, and the files of the table themselves.

deltalake opens a table whatever features it has, and lists its files. Rows it reads where it knows all features of the
table; how many there are is in the files and their statistics (see `live_files`), so that is known of any.

A table is opened once, and is then as it was at that moment.

Names of files and of features: Delta protocol, "Delta Log Entries", "Table Features".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.lake.bare import is_openable_path
from lakehouse_cdc.lake.cleanup.unfinished_tables import LOG, has_version, not_a_table, require_nothing_else
from lakehouse_cdc.lake.commit_log import commit_info, commits_in_log
from lakehouse_cdc.lake.file_systems import names_at
from lakehouse_cdc.lake.log_actions import POINTER, name_of
from lakehouse_cdc.lake.log_files import log_at
from lakehouse_cdc.lake.object_store import DELETING
from lakehouse_cdc.lake.opened import opened, state_of
from lakehouse_cdc.lake.readers.live_files import LiveFile, live_files
from lakehouse_cdc.model.place import is_url

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from lakehouse_cdc.lake.commit_log import Commit
    from lakehouse_cdc.lake.table_state import State
    from lakehouse_cdc.model.table_layout import Table

_AT_ONCE = "1024"  # rows that become Python objects at a time: one of the ledger may be as wide as there are tables


class DirectReader:
    """See `port.TableReader`. What it cannot read raises an error of deltalake's, or ValueError."""

    def __init__(self) -> None:
        self._opened: dict[str, tuple[DeltaTable, State]] = {}

    def exists(self, table: Table) -> bool:
        """See `port.TableReader`."""
        if is_url(table.path):
            return _is_in_bucket(str(table.path))
        if has_version(_path(table)):
            return True
        require_nothing_else(table)
        return False

    def properties(self, table: Table) -> Mapping[str, str]:
        """See `port.TableReader`."""
        return self._state(table).properties

    def id(self, table: Table) -> str:
        """See `port.TableReader`."""
        return self._state(table).id

    def columns(self, table: Table) -> list[tuple[str, str]]:
        """See `port.TableReader`."""
        beside = () if table.part is None else (table.own.source_table,)
        return [(name, kind) for name, kind in self._state(table).columns if name not in beside]

    def commits(self, table: Table) -> Iterator[Commit]:
        """See `port.TableReader`."""
        newest = self._state(table).version
        if commit_info(table, newest) is None:
            raise ValueError(f"the newest commit of {table} is not in its log")
        return (commit for commit in commits_in_log(table, newest) if commit.is_about(table))

    def rows(self, table: Table, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """See `port.TableReader`."""
        from deltalake import QueryBuilder

        if table.part is not None:
            raise ValueError(f"{table} is a part of a table, of which rows are read by Spark")
        held = {name for name, _ in self.columns(table)}
        chosen = ", ".join(_quoted(name) for name in columns if name in held)
        query = QueryBuilder({"datafusion.execution.batch_size": _AT_ONCE}).register("t", self._open(table)[0])
        batches = iter(query.execute(f"SELECT {chosen} FROM t"))
        return _in_python(next(batches, None), batches)

    def count(self, table: Table, null: str | None = None) -> int:
        """See `port.TableReader`."""
        files = [file for file in self._files(table) if _is_of(table, file)]
        if null in self._state(table).partition_by:  # files do not have such a column
            return sum(file.count(None) for file in files if file.partition[null] is None)
        path = None if null is None else self._state(table).physical(null.split("."))
        return sum(file.count(path) for file in files)

    def counts(self, table: Table, by: str) -> Mapping[str, int]:
        """See `port.TableReader`."""
        counts: Counter[str] = Counter()
        for file in self._files(table):
            if rows := file.count(None):
                counts[str(file.partition[by])] += rows
        return dict(counts)

    def _files(self, table: Table) -> list[LiveFile]:
        return live_files(_path(table), *self._open(table))

    def _state(self, table: Table) -> State:
        return self._open(table)[1]

    def _open(self, table: Table) -> tuple[DeltaTable, State]:
        path = _path(table)
        if path not in self._opened:
            if not is_openable_path(path):
                raise ValueError(f"{table} is in no place that deltalake reads")
            now = opened(path)
            self._opened[path] = now, state_of(now)
        return self._opened[path]


def _is_in_bucket(url: str) -> bool:
    """Whether a table is there, as a whole (see `object_store`). Raises DefiniteError where something else is."""
    there = {name.rstrip("/") for name in names_at(url)}
    if not there or DELETING in there:
        return False
    log = log_at(url)
    if log.exists(name_of(0, "json")) or log.exists(POINTER):
        return True
    if there - {LOG}:
        raise not_a_table(url)
    return False


def _path(table: Table) -> str:
    if table.path is None:
        raise ValueError(f"{table} is in no folder")
    return table.path


def _is_of(table: Table, file: LiveFile) -> bool:
    """Whether the file has rows of the part that is meant: a table that several go into is partitioned by them."""
    return table.part is None or file.partition[table.own.source_table] == table.part


def _in_python(first: Any, others: Iterator[Any]) -> Iterator[Mapping[str, Any]]:
    while first is not None:
        names = first.schema.names
        columns = [first.column(name).to_pylist() for name in names]
        for values in zip(*columns, strict=True):
            yield dict(zip(names, values, strict=True))
        first = next(others, None)


def _quoted(name: str) -> str:
    """An identifier as DataFusion's SQL reads it."""
    return '"' + name.replace('"', '""') + '"'
