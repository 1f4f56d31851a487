"""What the tail of the binlog says of statements logged as text: which names they mention, where, and how often.

Many of them are alike (a heartbeat every second for a day is 86,400), so they are kept by what they mention.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql.binlog.scan import LoggedStatement
from lakehouse_cdc.sql.dml_names import Names
from lakehouse_cdc.sql.references import Definition


@dataclass(frozen=True)
class Seen:
    """Statements that mention the same: where each ends, in the log's order, and one of them."""

    places: tuple[Position, ...]
    alike: LoggedStatement


class TextHistory:
    """Texts and definitions from a tail's origin on, but for the texts of XA transactions that were prepared."""

    def __init__(self) -> None:
        self._at: dict[Names, list[Position]] = {}
        self._first: dict[Names, LoggedStatement] = {}
        self._definitions: list[tuple[Position, Definition]] = []

    def take(self, statements: Iterable[LoggedStatement], more: Iterable[LoggedStatement]) -> None:
        """Statements in the log's order; `more` of the same stretch."""
        for statement in (*statements, *more):
            if statement.named is not None and statement.named.definition is not None:
                self._definitions.append((statement.position, statement.named.definition))
            if statement.names is not None and not statement.unknown:
                self._at.setdefault(statement.names, []).append(statement.position)
                self._first.setdefault(statement.names, statement)

    def rows(self, after: Position, until: Position | None = None) -> dict[Names, Seen]:
        """The statements in (after, until] that change rows, by what they mention."""
        seen = {}
        for names, places in self._at.items():
            end = len(places) if until is None else bisect_right(places, until)
            if within := tuple(places[bisect_right(places, after) : end]):
                seen[names] = Seen(within, self._first[names])
        return seen

    def definitions(self, after: Position) -> list[tuple[Position, Definition]]:
        """The definitions after a position, in the log's order."""
        return [(position, definition) for position, definition in self._definitions if position > after]

    def begin_at(self, position: Position) -> None:
        """The origin moves to a position."""
        kept = {names: places[bisect_right(places, position) :] for names, places in self._at.items()}
        self._at = {names: places for names, places in kept.items() if places}
        self._first = {names: first for names, first in self._first.items() if names in self._at}
        self._definitions = self.definitions(position)
