"""Which statements concern us: classified text against the tables that are captured or watched."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakehouse_cdc.mysql.binlog.rare import Query
from lakehouse_cdc.mysql.binlog.tables import Captured
from lakehouse_cdc.schema.statements import Statement, StatementKind, classify, concerns


class Watch:
    """`captured` and `watched` as `BinlogScanner` has them."""

    def __init__(self, captured: Captured, watched: Callable[[str], bool] | None, lower_case: bool) -> None:
        self._watched = watched
        self._lower_case = lower_case
        self._predicate: Callable[[str], bool] | None = None
        self._tables: set[str] = set()
        self._databases: set[str] = set()
        if isinstance(captured, Mapping):
            self._tables = {self._cased(name) for name in captured}
            self._databases = {self._cased(schema.database) for schema in captured.values()}
        else:
            self._predicate = captured

    def _cased(self, name: str) -> str:
        return name.lower() if self._lower_case else name

    def judge(self, query: Query) -> tuple[Statement, bool]:
        """What the statement is, and whether it may touch a captured or watched table."""
        if not query.readable:
            return Statement(StatementKind.UNKNOWN), True
        statement = classify(
            query.text, query.database, lower_case=self._lower_case, no_backslash_escapes=not query.plain_quotes
        )
        return statement, concerns(statement, self._has, self._has_in)

    def _has(self, name: str) -> bool:
        predicates = (self._predicate, self._watched)
        return name in self._tables or any(known(name) for known in predicates if known is not None)

    def _has_in(self, database: str) -> bool:
        """Whether a dropped database may hold a captured table; a predicate over tables cannot tell."""
        return self._predicate is not None or database in self._databases
