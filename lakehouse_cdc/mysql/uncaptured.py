"""What matches `source.tables` and is not captured, each with the reason: nothing is left out in silence.

What cannot be captured because of its columns or its key is refused, or quarantined, by name elsewhere. Here is what a
catalog query for tables would not list (INFORMATION_SCHEMA.TABLES, TABLE_TYPE): views, sequences; tables of which the
rows are never in the log, or not as they become visible, unless a pattern spells their names; and tables
that are named as those of tools for online schema changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.table_name import join, split
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.literals import quoted
from lakehouse_cdc.mysql.system_versioning import VERSIONED, by_transactions
from lakehouse_cdc.schema.engines import MERGE, canonical, not_captured
from lakehouse_cdc.schema.selection import SYSTEM_SCHEMAS, Selection
from lakehouse_cdc.sql.statements import classify

_LISTED = 10
BASE = "BASE TABLE"
CAPTURED = (BASE, VERSIONED)
SHADOW = "is named as gh-ost and pt-online-schema-change name theirs; it is captured when source.tables spells its name"
_WITHOUT_ROWS = {
    "VIEW": "is a view: its rows are those of the tables that it selects from",
    "SYSTEM VIEW": "is a view of the server's own",
    "SEQUENCE": "is a sequence, which is not captured",
}
_REASONS = {"TEMPORARY": "is a temporary table"}


@dataclass(frozen=True)
class Uncaptured:
    """By `database.table` why it is not captured: `tables`, and in `without_rows` what has no rows of its own.

    `unfit` are tables that cannot be captured for what they belong to or how they are logged, selected or not.
    """

    tables: Mapping[str, str] = field(default_factory=dict)
    without_rows: Mapping[str, str] = field(default_factory=dict)
    unfit: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        selection: Selection,
        types: Mapping[str, str],
        engines: Mapping[str, str | None] = MappingProxyType({}),
        unfit: Mapping[str, str] = MappingProxyType({}),
    ) -> Uncaptured:
        """Of all that there is, by name its TABLE_TYPE, of tables their ENGINE, and those that are `unfit`."""
        tables: dict[str, str] = {}
        without: dict[str, str] = {}
        for name, kind in sorted(types.items()):
            if selection.passes_over(name):
                if kind not in _WITHOUT_ROWS:
                    tables[name] = SHADOW
            elif kind not in CAPTURED and selection.matches(name):
                if (reason := _WITHOUT_ROWS.get(kind)) is not None:
                    without[name] = reason
                else:
                    tables[name] = _REASONS.get(kind, f"is of the type {kind}, which is not supported")
            elif name in engines and selection.matches(name) and not selection.spells(name):
                reason = not_captured(engines[name]) or unfit.get(name)
                tables |= {} if reason is None else {name: reason}
        return cls(tables, without, unfit)

    @property
    def all(self) -> dict[str, str]:
        """All of them, by name."""
        return {**self.tables, **self.without_rows}

    def lines(self) -> list[str]:
        """A sentence for each reason, with the first names and the count."""
        return [*sentences(self.tables), *sentences(self.without_rows)]


def uncaptured(session: Session, selection: Selection) -> Uncaptured:
    """What this user sees of it now."""
    places = ", ".join(["%s"] * len(SYSTEM_SCHEMAS))
    rows = session.query(
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE FROM INFORMATION_SCHEMA.TABLES"
        f" WHERE TABLE_SCHEMA NOT IN ({places})",
        SYSTEM_SCHEMAS,
    )
    named = [(join(str(database), str(table)), str(kind), engine) for database, table, kind, engine in rows]
    engines = {name: engine for name, _, engine in named}
    merged = [name for name, engine in engines.items() if engine is not None and canonical(engine) == MERGE]
    types = {name: kind for name, kind, _ in named}
    unfit = _members(session, merged) | (by_transactions(session) if VERSIONED in types.values() else {})
    return Uncaptured.of(selection, types, engines, unfit)


def _members(session: Session, merged: Iterable[str]) -> dict[str, str]:
    """The tables that belong to some MERGE tables, each with the reason why it is not captured."""
    members = {}
    for name in merged:
        database, table = split(name)
        with suppress(DefiniteError):  # it is gone, or cannot be opened: nobody writes by way of it
            [(_, text)] = session.query(f"SHOW CREATE TABLE {quoted(database)}.{quoted(table)}")
            for member in classify(str(text), database).unions:
                members[member] = f"belongs to the MERGE table {name}, under whose name its changes may be logged"
    return members


def some(names: Iterable[str]) -> str:
    """The first names, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - _LISTED:,} more" if len(listed) > _LISTED else ""
    return ", ".join(listed[:_LISTED]) + more


def sentences(reasons: Mapping[str, str]) -> list[str]:
    """One for each reason, of names by which it is said."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    return [
        f"{group[0]} matches source.tables and is not captured: it {reason}"
        if len(group) == 1
        else f"{len(group):,} names match source.tables and are not captured: each {reason}: {some(group)}"
        for reason, group in names.items()
    ]
