"""Which statements concern us: classified text against the tables that are captured or watched.

A DDL that names a captured table is passed over where it is proven, from its text and the table's schema, that it
leaves columns, key and rows as they are: an index, a foreign key, a default, a partition that is split.

What a statement may change that is not known, or changes rows, is not to be seen in its text alone. Of such a one only
the names that it mentions are taken here, and of a definition (of a view, a trigger, a routine, a foreign key) those
that it connects; `sql.references` says what they mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lakehouse_cdc.model.ddl_effect import Effect
from lakehouse_cdc.mysql.binlog.rare_events import Query
from lakehouse_cdc.mysql.binlog.tables import Captured
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.sql.ddl.effects import effects
from lakehouse_cdc.sql.dml_names import Names, all_names, dml_names, is_dml, lower, raw_names
from lakehouse_cdc.sql.lexer import Dialect, NotUnderstood
from lakehouse_cdc.sql.references import Definition
from lakehouse_cdc.sql.statements import Statement, StatementKind, classify, concerns

_DEFINES = re.compile(r"\b(?:VIEW|TRIGGER|FUNCTION|PROCEDURE|PACKAGE|LIBRARY)\b", re.IGNORECASE)
_CONNECTS = re.compile(r"\b(?:REFERENCES|RENAME)\b", re.IGNORECASE)
# what is defined goes by a statement that says what kind of thing it is, or with its table or database
_TAKES_AWAY = re.compile(r"\b(?:DATABASE|SCHEMA|DROP\s+TABLES?|REPLACE\s+TABLE)\b", re.IGNORECASE)
_HEAD = re.compile(r"\W*(CREATE|ALTER|DROP|RENAME)\b(\s+OR\s+REPLACE\b)?", re.IGNORECASE)
_TRIGGER = re.compile(r"\bTRIGGER\b", re.IGNORECASE)


@dataclass(frozen=True)
class Text:
    """The names in a statement. `unknown`: it may be DDL of each of them. `names` is None of what only defines."""

    names: Names | None
    unknown: bool = False
    definition: Definition | None = None


def _defined(query: Query, statement: Statement) -> Text | None:
    """What a statement defines, or takes away, that may lead from one name to another."""
    kind, head = statement.kind, _HEAD.match(query.text)
    if kind is StatementKind.DROP_DATABASE:
        return Text(None, definition=Definition(Names(), whole=frozenset(map(lower, statement.databases))))
    if head is None or kind is StatementKind.TRUNCATE:
        return None
    gone = statement.drops or statement.replaces
    if kind is StatementKind.TABLE_DDL and not gone and not _CONNECTS.search(query.text):
        return None
    if kind is StatementKind.HARMLESS and not _DEFINES.search(query.text):
        return None
    names = all_names(query.text, query.database, plain_quotes=query.plain_quotes and query.readable)
    new = head[1].upper() == "CREATE" and not head[2]
    whole = {database for _, database, _ in names.nodes} if not new and _TRIGGER.search(query.text) else set()
    return Text(None, definition=Definition(names, new=new, whole=frozenset(whole)))


class Watch:
    """`captured` and `watched` as `BinlogScanner` has them."""

    def __init__(self, captured: Captured, watched: Captured | None, lower_case: bool) -> None:
        self._lower_case = lower_case
        self._captured_predicate = not isinstance(captured, Mapping)
        self._predicates: list[Callable[[str], bool]] = []
        self._tables: dict[str, TableSchema] = {}
        self._databases: set[str] = set()
        for tables in (captured, watched or {}):
            if isinstance(tables, Mapping):
                self._tables |= {self._cased(name): schema for name, schema in tables.items()}
                self._databases |= {self._cased(schema.database) for schema in tables.values()}
            else:
                self._predicates.append(tables)

    def locked(self) -> Names | None:
        """The tables whose rows may change where the server ends by a crash (see `schema.engines`); None for none."""
        tables = [schema for schema in self._tables.values() if schema.locked]
        return Names(alone=frozenset((lower(t.database), lower(t.table)) for t in tables)) if tables else None

    def _cased(self, name: str) -> str:
        return name.lower() if self._lower_case else name

    def judge(
        self, query: Query, dialect: Dialect, *, alone: bool
    ) -> tuple[Statement, bool, tuple[Effect, ...] | None]:
        """What the statement is, whether it may touch a captured or watched table, and its effects, where known.

        `dialect`: how the session's server reads a text. `alone`: it is a transaction by itself. One that is of watched
        tables alone, which are not captured yet, has no effect, unless it creates them and has no part in what fills
        them.
        """
        if is_dml(query.text):
            return Statement(StatementKind.DML), False, ()
        statement = classify(query.text, query.database, lower_case=self._lower_case, dialect=dialect)
        if statement.kind is StatementKind.DML:
            return statement, False, ()
        if statement.kind is StatementKind.UNKNOWN:
            return statement, False, None
        if not concerns(statement, self._has, self._has_in):
            return statement, False, ()
        outcome = self._effects(statement, query, dialect, alone)
        return statement, outcome != () or self._names_others(statement), outcome

    def names(
        self, query: Query, statement: Statement, effects: tuple[Effect, ...] | None, *, alone: bool
    ) -> Text | None:
        """The names in a statement that changes rows, is not understood, or defines something; None for others."""
        kind = statement.kind
        if kind is StatementKind.TRANSACTION:
            return None
        if kind in (StatementKind.DML, StatementKind.UNKNOWN):
            names = (
                dml_names(query.text, query.database, plain_quotes=query.plain_quotes)
                if query.readable
                else raw_names(query.text, unreadable=True)
            )
            if names is not None and (kind is StatementKind.DML or query.readable):
                return Text(names)
        if effects is None:
            names = all_names(query.text, query.database, plain_quotes=query.plain_quotes and query.readable)
            names = names if query.readable else replace(names, unreadable=True)
            if not alone:  # DDL that is not known would have ended the transaction
                return Text(names) if kind is StatementKind.UNKNOWN else None
            defines = any(kind.search(query.text) for kind in (_DEFINES, _CONNECTS, _TAKES_AWAY))
            return Text(names, unknown=True, definition=Definition(names) if defines else None)
        return _defined(query, statement)

    def _effects(self, statement: Statement, query: Query, dialect: Dialect, alone: bool) -> tuple[Effect, ...] | None:
        if self._captured_predicate:
            return None
        try:
            return effects(
                statement,
                query.text,
                self._tables,
                lambda name: alone and self._has(name),
                session=query.session,
                dialect=dialect,
            )
        except NotUnderstood:
            return None

    def _names_others(self, statement: Statement) -> bool:
        """Whether it names a table whose schema is not known here, or may drop such tables."""
        dropped = bool(statement.databases) and bool(self._predicates)
        return dropped or any(name not in self._tables and self._has(name) for name in statement.tables)

    def _has(self, name: str) -> bool:
        return name in self._tables or any(known(name) for known in self._predicates)

    def _has_in(self, database: str) -> bool:
        """Whether a dropped database may hold a captured or watched table; a predicate over tables cannot know."""
        return bool(self._predicates) or database in self._databases
