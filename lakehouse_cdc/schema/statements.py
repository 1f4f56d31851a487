"""What a statement in the binlog does to tables: transaction control, DDL, harmless, or not known.

A row-based binlog still carries text: every DDL, and whatever a session logs as a statement. The stream may pass over
a text only if it is proven not to change a captured table, so the classification is closed: a statement is HARMLESS
because its head is on the list below, never because nothing else fitted, and everything else is UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from lakehouse_cdc.schema.lexer import NotUnderstood, Reader, tokens


class StatementKind(str, Enum):
    """What a statement may do."""

    TRANSACTION = "transaction"  # BEGIN, COMMIT, ROLLBACK, SAVEPOINT, ROLLBACK TO, RELEASE, XA
    HARMLESS = "harmless"  # cannot change the rows or the shape of a table
    TABLE_DDL = "table ddl"  # changes exactly the tables that are named
    TRUNCATE = "truncate"  # takes all rows of the table that is named
    DROP_DATABASE = "drop database"
    DML = "dml"  # changes rows, logged as text: there are no row images to read
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Statement:
    """A classified statement: `tables` are `database.table`, in the order of the text; `databases` those dropped.

    `alters`: it is an ALTER TABLE of one table, which is there afterwards under its name. `if_absent`: it is a CREATE
    TABLE that does nothing where the table is there; `replaces`: one that drops that table before; `creates`: one that
    is proven to leave an empty table which was not there. `drops`: it is a DROP TABLE. `renames` are pairs of an old
    and a new name, one after the other.
    """

    kind: StatementKind
    tables: tuple[str, ...] = ()
    databases: tuple[str, ...] = ()
    alters: bool = False
    if_absent: bool = False
    drops: bool = False
    replaces: bool = False
    creates: bool = False
    renames: tuple[tuple[str, str], ...] = ()


_HARMLESS_OBJECTS = frozenset(
    (
        "VIEW",
        "FUNCTION",
        "PROCEDURE",
        "TRIGGER",
        "EVENT",
        "USER",
        "ROLE",
        "SERVER",
        "TABLESPACE",
        "LOGFILE",
        "RESOURCE",
        "INSTANCE",
        "LIBRARY",
        "SEQUENCE",
        "PACKAGE",
    )
)
# REPAIR: captured tables are of InnoDB, of which it leaves every row as it is
_HARMLESS_HEADS = frozenset(("GRANT", "REVOKE", "FLUSH", "ANALYZE", "OPTIMIZE", "REPAIR", "INSTALL", "UNINSTALL"))
_DML_HEADS = frozenset(("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "DO", "WITH", "SELECT"))
_LARGEST_TEXT = 1 << 20  # characters; a longer DDL is not cut, it is UNKNOWN


def classify(
    sql: str,
    default_database: str = "",
    *,
    lower_case: bool = False,
    no_backslash_escapes: bool = False,
) -> Statement:
    """What `sql`, run in `default_database`, may change.

    `lower_case`: the server has lower_case_table_names other than 0; the names come back in lower case and the caller
    compares them with names in lower case. `no_backslash_escapes`: the session had that mode, or ANSI_QUOTES; a text
    with a backslash is then UNKNOWN, since where its quotes end depends on it. Never raises.
    """
    if len(sql) > _LARGEST_TEXT or (no_backslash_escapes and "\\" in sql):
        return Statement(StatementKind.UNKNOWN)
    try:
        return _statement(Reader(tokens(sql), default_database, lower_case))
    except NotUnderstood:
        return Statement(StatementKind.UNKNOWN)


def concerns(
    statement: Statement,
    captured: Callable[[str], bool],
    captured_database: Callable[[str], bool] = lambda _: True,
) -> bool:
    """True unless it is certain that `statement` leaves every captured table as it is.

    `captured` is asked for each `database.table` that a DDL names, `captured_database` whether a dropped database
    holds a captured table; without it every DROP DATABASE concerns us.
    """
    if statement.kind in (StatementKind.TRANSACTION, StatementKind.HARMLESS):
        return False
    if statement.kind in (StatementKind.TABLE_DDL, StatementKind.TRUNCATE):
        return any(captured(name) for name in statement.tables)
    if statement.kind is StatementKind.DROP_DATABASE:
        return any(captured_database(name) for name in statement.databases)
    return True


def _statement(reader: Reader) -> Statement:
    head = reader.word()
    if _is_transaction(reader):
        return Statement(StatementKind.TRANSACTION)
    if head in _HARMLESS_HEADS or reader.skip("SET", "PASSWORD") or reader.skip("SET", "DEFAULT", "ROLE"):
        return Statement(StatementKind.HARMLESS)
    if head in _DML_HEADS:
        return Statement(StatementKind.DML)
    if head in ("CREATE", "ALTER", "DROP"):
        return _definition(reader)
    if reader.skip("TRUNCATE"):
        reader.skip("TABLE")
        return Statement(StatementKind.TRUNCATE, (_one_table(reader),))
    if reader.skip("RENAME", "USER"):
        return Statement(StatementKind.HARMLESS)
    if reader.skip("RENAME"):
        return _rename(reader)
    return Statement(StatementKind.UNKNOWN)


def _is_transaction(reader: Reader) -> bool:
    """BEGIN must stand alone: a compound statement also begins so."""
    if reader.word() == "BEGIN":
        return len(reader.tokens) == 1 or (reader.word(1) == "WORK" and len(reader.tokens) == 2)
    if reader.word() == "START":
        return reader.word(1) == "TRANSACTION"
    return reader.word() in ("COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "XA")


def _any(reader: Reader, *words: str) -> bool:
    return any(reader.skip(word) for word in words)


def _definition(reader: Reader) -> Statement:
    """CREATE, ALTER and DROP of everything."""
    verb = reader.word()
    reader.at += 1
    replaces = reader.skip("OR", "REPLACE")
    if reader.skip("TEMPORARY"):
        _tables_keyword(reader)
        return Statement(StatementKind.HARMLESS)
    _modifiers(reader)
    word = reader.word()
    if word in _HARMLESS_OBJECTS or reader.skip("SPATIAL", "REFERENCE", "SYSTEM"):
        return Statement(StatementKind.HARMLESS)
    if _any(reader, "DATABASE", "SCHEMA"):
        return _database(reader, verb)
    if verb == "ALTER":
        return _alter_table(reader)
    _any(reader, "UNIQUE", "FULLTEXT", "SPATIAL", "ONLINE", "OFFLINE")
    if reader.skip("INDEX"):
        return _index(reader)
    _tables_keyword(reader)
    if verb == "DROP":
        reader.skip("IF", "EXISTS")
        return Statement(StatementKind.TABLE_DDL, _list(reader, "RESTRICT", "CASCADE"), drops=True)
    if_absent = reader.skip("IF", "NOT", "EXISTS")
    created = reader.table()
    reader.outside_parentheses()
    creates = not if_absent and not _may_hold_a_query(reader)
    return Statement(StatementKind.TABLE_DDL, (created,), if_absent=if_absent, replaces=replaces, creates=creates)


def _may_hold_a_query(reader: Reader) -> bool:
    """Whether one of the words stands behind the table's name with which a query may begin."""
    words = [reader.word(i) for i in range(len(reader.tokens) - reader.at)]
    limits = [behind in ("LESS", "IN") for word, behind in pairwise([*words, ""]) if word == "VALUES"]  # partitions
    return not all(limits) or bool({"SELECT", "WITH", "TABLE"} & set(words))


def _tables_keyword(reader: Reader) -> None:
    if not _any(reader, "TABLE", "TABLES"):
        raise NotUnderstood


def _modifiers(reader: Reader) -> None:
    """What may stand between the verb and the object; it never changes what kind of object it is."""
    if reader.skip("ALGORITHM", "="):
        reader.identifier()
    if reader.skip("DEFINER", "="):
        if reader.at < len(reader.tokens) and reader.tokens[reader.at].form == "string":
            reader.at += 1
        else:
            reader.identifier()
        reader.skip("(", ")")
        if reader.skip("@"):
            if reader.at < len(reader.tokens) and reader.tokens[reader.at].form == "string":
                reader.at += 1
            else:
                reader.identifier()
                while _any(reader, ".", "-"):  # an unquoted host: a.example
                    reader.identifier()
    if reader.skip("SQL", "SECURITY"):
        reader.identifier()
    _any(reader, "AGGREGATE", "UNDO")
    if reader.skip("JSON"):
        reader.skip("RELATIONAL")
        reader.expect("DUALITY")


def _database(reader: Reader, verb: str) -> Statement:
    """DROP drops its tables; UPGRADE DATA DIRECTORY NAME (5.7) renames a database; the rest sets defaults."""
    if verb != "DROP":
        upgrade = any(token.text.upper() == "UPGRADE" for token in reader.tokens)
        return Statement(StatementKind.UNKNOWN if upgrade else StatementKind.HARMLESS)
    reader.skip("IF", "EXISTS")
    name = reader.database()
    reader.end()
    return Statement(StatementKind.DROP_DATABASE, databases=(name,))


def _alter_table(reader: Reader) -> Statement:
    """The table, its new name (RENAME [TO|AS|=] t), and the other table of EXCHANGE PARTITION p WITH TABLE t."""
    _any(reader, "ONLINE", "OFFLINE", "IGNORE")
    reader.skip("IGNORE")
    reader.expect("TABLE")
    tables = [reader.table()]
    renames = []
    for i in reader.outside_parentheses():
        reader.at = i
        if reader.skip("RENAME"):
            if reader.word() in ("COLUMN", "INDEX", "KEY"):
                continue
            _any(reader, "TO", "AS", "=")
            tables.append(reader.table())
            renames.append((tables[0], tables[-1]))
        elif reader.skip("EXCHANGE", "PARTITION"):
            reader.identifier()
            reader.expect("WITH", "TABLE")
            tables.append(reader.table())
    return Statement(StatementKind.TABLE_DDL, tuple(tables), alters=len(tables) == 1, renames=tuple(renames))


def _index(reader: Reader) -> Statement:
    """CREATE INDEX name [USING type] ON t (...), DROP INDEX name ON t."""
    reader.identifier()
    if _any(reader, "USING", "TYPE"):
        reader.identifier()
    reader.expect("ON")
    table = reader.table()
    reader.outside_parentheses()
    return Statement(StatementKind.TABLE_DDL, (table,))


def _one_table(reader: Reader) -> str:
    table = reader.table()
    reader.end()
    return table


def _list(reader: Reader, *closing: str) -> tuple[str, ...]:
    tables = [reader.table()]
    while reader.skip(","):
        tables.append(reader.table())
    if closing:
        _any(reader, *closing)
        reader.end()
    return tuple(tables)


def _rename(reader: Reader) -> Statement:
    _tables_keyword(reader)
    tables: list[str] = []
    while True:
        tables.append(reader.table())
        reader.expect("TO")
        tables.append(reader.table())
        if not reader.skip(","):
            reader.end()
            pairs = tuple(zip(tables[::2], tables[1::2], strict=True))
            return Statement(StatementKind.TABLE_DDL, tuple(tables), renames=pairs)
