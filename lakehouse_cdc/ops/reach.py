"""How far back each table can be had as it was, and why not further; and what is known before anything is read.

A table can be had from the first row of the ledger on at which it was not being read (see `ops.as_of`). Where its
schema has changed since, that takes a version of its silver table from before the change (see `silver.time_travel`), or
bronze from its beginning: without either, it can be had from the first such row after it.

The ledger has a row for each batch, and is read row by row, once for all tables, or twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.silver.tables.known_schemas import SchemaInForce, schemas_in_force
from lakehouse_cdc.silver.tables.ledger_table import require_ledger

if TYPE_CHECKING:
    from lakehouse_cdc.lake.readers.port import TableReader
    from lakehouse_cdc.model.table_layout import Layout

_COLUMNS = ("seq", "position", "commit_ts", "tables", "reading")


@dataclass(frozen=True)
class Reach:
    """From where on a table can be had, and why not from earlier."""

    file: str
    pos: int
    commit_ts: datetime
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.pos} ({self.commit_ts.isoformat()}): {self.reason}"


def newest_note(reader: TableReader, layout: Layout) -> CommitNote:
    """That of bronze's last batch. Raises DefiniteError before its first one."""
    require_begun(reader, layout)
    for commit in reader.commits(layout.changes):
        if commit.note is not None:
            return commit.note
    raise _empty(layout)


def require_begun(reader: TableReader, layout: Layout) -> None:
    """Raise DefiniteError where there is no bronze yet."""
    if not reader.exists(layout.changes):
        raise _empty(layout)


def _empty(layout: Layout) -> DefiniteError:
    return codes.BRONZE_EMPTY.error("nothing has been read yet", where=str(layout.changes), hint="run first")


def known_schemas(reader: TableReader, layout: Layout, table: str | None) -> dict[str, list[SchemaInForce]]:
    """Those of that table, or of all. Raises ConfigError for a table that bronze does not know."""
    known = schemas_in_force(reader, layout)
    if table is None:
        return known
    if table not in known:
        raise codes.TABLE_UNKNOWN.error(f"bronze knows no table {table}", hint=f"one of {', '.join(sorted(known))}")
    return {table: known[table]}


def reaches(reader: TableReader, layout: Layout, tables: Iterable[str] | None = None) -> dict[str, Reach | None]:
    """How far back those tables go, or all that bronze knows, as far as ledger and bronze show; None: not yet.

    Raises DefiniteError before bronze's first batch.
    """
    newest_note(reader, layout)
    in_force = schemas_in_force(reader, layout, tables)
    names = sorted(in_force) if tables is None else list(tables)
    if not require_ledger(reader, layout):
        return dict.fromkeys(names)
    begins, first = _first_rows(reader, layout, dict.fromkeys(names, 0))
    reasons = {
        name: "before that its first snapshot was not complete" if begins < row["seq"] else "there the ledger begins"
        for name, row in first.items()
    }
    later = {name: since for name, row in first.items() if (since := _since(reader, layout, name, row, in_force))}
    if later:
        _, after = _first_rows(reader, layout, later)
        first = {name: row for name, row in first.items() if name not in later} | after
        reasons |= dict.fromkeys(later, "its schema changed since, and Delta's log has no older version of it")
    return {name: _reach(first[name], reasons[name]) if name in first else None for name in names}


def _reach(row: Mapping[str, Any], reason: str) -> Reach:
    at = row["position"]
    return Reach(at["file"], at["pos"], row["commit_ts"].astimezone(timezone.utc), reason)


def _first_rows(
    reader: TableReader, layout: Layout, since: Mapping[str, int]
) -> tuple[int, dict[str, Mapping[str, Any]]]:
    """The least seq of all rows of the ledger, and for each table its first exact row from that seq on, if any."""
    begins, first = 0, dict[str, Mapping[str, Any]]()
    for row in reader.rows(layout.ledger, _COLUMNS):
        begins = min(begins or row["seq"], row["seq"])
        for name in _exact(row):
            if row["seq"] >= since.get(name, row["seq"] + 1) and (name not in first or row["seq"] < first[name]["seq"]):
                first[name] = row
    return begins, first


def _exact(row: Mapping[str, Any]) -> Iterator[str]:
    """The tables that are exact at a row of the ledger; none where it does not say which were being read."""
    if row["reading"] is None:
        return iter(())
    reading = dict(row["reading"])
    return (name for name, _ in row["tables"] if name not in reading)


def _since(
    reader: TableReader,
    layout: Layout,
    table: str,
    first: Mapping[str, Any],
    in_force: Mapping[str, list[SchemaInForce]],
) -> int:
    """From which seq on the table can be had, where that is later than its first exact row; else 0."""
    changes = [one for one in in_force.get(table, [])[1:] if not one.same]
    if not changes or changes[-1].seq <= first["seq"]:
        return 0
    held = _oldest(reader, layout, table)
    if held is None:
        return changes[-1].seq
    return held if held > first["seq"] else 0


def _oldest(reader: TableReader, layout: Layout, table: str) -> int | None:
    """The least seq through which a version of the silver table, that may be read, and is in the log, holds bronze."""
    oldest: int | None = None
    for commit in reader.commits(layout.silver_table(table)):
        if commit.note is not None and commit.note.through is not None:
            oldest = commit.note.through if oldest is None else min(oldest, commit.note.through)
        if commit.note is not None and commit.note.redacted:
            break
    return oldest
