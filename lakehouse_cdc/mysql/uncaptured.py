"""What matches `source.tables` and is not captured, each with the reason: nothing is left out in silence.

What cannot be captured because of its columns, key or engine is refused, or quarantined, by name elsewhere. Here is
what a catalog query for tables would not list (INFORMATION_SCHEMA.TABLES, TABLE_TYPE): views, sequences; and tables
that are named as those of tools for online schema changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakehouse_cdc.model.table_name import join
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.system_versioning import VERSIONED
from lakehouse_cdc.schema.selection import SYSTEM_SCHEMAS, Selection

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
    """By `database.table` why it is not captured: `tables`, and in `without_rows` what has no rows of its own."""

    tables: Mapping[str, str] = field(default_factory=dict)
    without_rows: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, selection: Selection, types: Mapping[str, str]) -> Uncaptured:
        """Of all that there is, by name its TABLE_TYPE."""
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
        return cls(tables, without)

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
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM INFORMATION_SCHEMA.TABLES"
        f" WHERE TABLE_SCHEMA NOT IN ({places})",
        SYSTEM_SCHEMAS,
    )
    return Uncaptured.of(selection, {join(str(database), str(table)): str(kind) for database, table, kind in rows})


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
