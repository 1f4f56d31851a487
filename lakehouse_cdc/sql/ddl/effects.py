"""What a DDL in the log does to the captured tables, as far as this version follows it.

No effect at all is a proof, too: such a statement is passed over. A table is read again where its rows changed and the
log does not say how. An ALTER TABLE that may change the schema, or is not understood, is said to alter it: what became
of the table is found out where the statement is followed. A table is known by its name, so one that is renamed is gone
under the old name, and what has its name then replaces it. All other DDL raises `NotUnderstood`. A table that is
created empty where there was none is followed from its birth on, if it is `wanted`. A repair may take away rows of an
engine that keeps no log of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakehouse_cdc.model.ddl_effect import Effect
from lakehouse_cdc.model.table_name import split
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.sql.ddl.alter import altered
from lakehouse_cdc.sql.ddl.column_type import Given
from lakehouse_cdc.sql.ddl.statement_session import UNKNOWN_SESSION, StatementSession
from lakehouse_cdc.sql.lexer import PLAIN, Dialect, NotUnderstood
from lakehouse_cdc.sql.statements import Statement, StatementKind


def effects(
    statement: Statement,
    text: str,
    tables: Mapping[str, TableSchema],
    wanted: Callable[[str], bool] = lambda _: False,
    *,
    session: StatementSession = UNKNOWN_SESSION,
    dialect: Dialect = PLAIN,
) -> tuple[Effect, ...]:
    """The effects of `statement`, which is `text` and was run by `session`, on `tables` (by `database.table`).

    `dialect`: how that session's server reads a text. Raises NotUnderstood.
    """
    if statement.kind is StatementKind.DROP_DATABASE:
        lost = [schema for name, schema in tables.items() if split(name)[0] in statement.databases]
        return tuple(Effect("drop", schema.name) for schema in lost)
    if statement.kind not in (StatementKind.TABLE_DDL, StatementKind.TRUNCATE):
        raise NotUnderstood
    outcome = []
    held = names_after(statement)
    for name in dict.fromkeys(statement.tables):
        schema = tables.get(name)
        if schema is None and statement.creates and name not in statement.unions and wanted(name):
            outcome.append(Effect("create", name))
        if schema is not None and name in statement.unions:
            outcome.append(Effect("alter", schema.name))
            continue
        if schema is None or statement.if_absent:
            continue
        if statement.repairs or statement.kind is StatementKind.TRUNCATE:
            outcome += _of_rows(statement, schema)
        elif held.get(name) != name:
            outcome.append(Effect("replace" if name in held else "drop", schema.name))
        elif not statement.renames or (name, name) in statement.renames:
            outcome += _altered(statement, text, schema, Given(schema.charset, session=session), dialect)
    return tuple(outcome)


def _of_rows(statement: Statement, schema: TableSchema) -> list[Effect]:
    """The effect of what leaves the table as it is, but not its rows."""
    if statement.kind is StatementKind.TRUNCATE:
        return [Effect("truncate", schema.name)]
    return [Effect("again", schema.name)] if schema.locked else []


def names_after(statement: Statement) -> dict[str, str]:
    """Which of the tables that are named, by its old name, has which name afterwards."""
    if statement.drops:
        return {}
    held = {name: name for name in statement.tables}
    if statement.replaces:
        return dict.fromkeys(held, "")
    for old, new in statement.renames:
        held[new] = held.pop(old, old)
    for name in statement.absorbed:
        held.pop(name, None)
    return held


def _altered(statement: Statement, text: str, schema: TableSchema, given: Given, dialect: Dialect) -> list[Effect]:
    try:
        after = altered(text, schema, given, dialect)
    except NotUnderstood:
        if not statement.alters:
            raise
        return [Effect("alter", schema.name)]
    # a column may be another one than that which has its name and definition now
    if after.schema != schema.declared or any(after.origin.get(c.name) != c.name for c in schema.columns):
        return [Effect("alter", schema.name)]
    return [] if after.kept else [Effect("again", schema.name)]
