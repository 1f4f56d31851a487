"""Which statements concern us: classified text against the tables that are captured or watched.

A DDL that names a captured table is passed over where it is proven, from its text and the table's schema, that it
leaves columns, key and rows as they are: an index, a foreign key, a default, a partition that is split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakehouse_cdc.model.effect import Effect
from lakehouse_cdc.mysql.binlog.rare import Query
from lakehouse_cdc.mysql.binlog.tables import Captured
from lakehouse_cdc.schema.ddl.effects import effects
from lakehouse_cdc.schema.lexer import Dialect, NotUnderstood
from lakehouse_cdc.schema.statements import Statement, classify, concerns
from lakehouse_cdc.schema.table import TableSchema


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
        statement = classify(query.text, query.database, lower_case=self._lower_case, dialect=dialect)
        if not concerns(statement, self._has, self._has_in):
            return statement, False, ()
        found = self._effects(statement, query, dialect, alone)
        return statement, found != () or self._names_others(statement), found

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
        """Whether it names a table whose schema is not known here."""
        return any(name not in self._tables and self._has(name) for name in statement.tables)

    def _has(self, name: str) -> bool:
        return name in self._tables or any(known(name) for known in self._predicates)

    def _has_in(self, database: str) -> bool:
        """Whether a dropped database may hold a captured table; a predicate over tables cannot tell."""
        return self._captured_predicate or database in self._databases
