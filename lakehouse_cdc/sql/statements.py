"""What a statement in the binlog does to tables: transaction control, DDL, harmless, or not known.

A row-based binlog still carries text: every DDL, and whatever a session logs as a statement. The stream may pass over
a text only if it is proven not to change a captured table, so the classification is closed: a statement is HARMLESS
because the grammar (`sql.grammar`) has its head as such, never because nothing else fitted, and everything else is
UNKNOWN.

The head and the names settle which tables are concerned. They are read first; what follows may be too new, or hold
literals that cannot be decoded, without a doubt about the names. Only ALTER TABLE names tables after its head as well
(RENAME, EXCHANGE and CONVERT): where its clauses do not fit the grammar, these words are searched for, and where even
that is not possible, their absence from the text is the proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from lakehouse_cdc.sql.grammar.notation import ALL, GROUPS
from lakehouse_cdc.sql.grammar.parser import Node, parse
from lakehouse_cdc.sql.lexer import PLAIN, Dialect, NotUnderstood, Reader, Tokens


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

    `alters`: it is about one table, which is there before and afterwards under its name: ALTER TABLE, CREATE INDEX.
    `if_absent`: it is a CREATE TABLE that does nothing where the table is there; `replaces`: one that drops that table
    before; `creates`: one that is proven to leave an empty table which was not there. `drops`: it is a DROP TABLE.
    `renames` are pairs of an old and a new name, one after the other. `absorbed` are tables that become partitions of
    another. `repairs`: it is a REPAIR TABLE, which may take away rows that cannot be read. `unions` are the tables
    of a MERGE table: other changes of theirs are logged under its name from then on.
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
    absorbed: tuple[str, ...] = ()
    repairs: bool = False
    unions: tuple[str, ...] = ()


def servers_of(dialect: Dialect) -> frozenset[str]:
    """The servers whose grammar counts."""
    return ALL if dialect.mariadb is None else GROUPS["mariadb" if dialect.mariadb else "mysql"]


def classify(sql: str, default_database: str = "", *, lower_case: bool = False, dialect: Dialect = PLAIN) -> Statement:
    """What `sql`, run in `default_database`, may change.

    `lower_case`: the server has lower_case_table_names other than 0; the names come back in lower case and the caller
    compares them with names in lower case. `dialect`: how that session's server reads a text. Never raises.
    """
    reader = Reader(Tokens(sql, dialect), default_database, lower_case)
    try:
        tree = parse(reader, "statement", servers_of(dialect))
        return _statement(reader, tree, sql) if tree is not None else Statement(StatementKind.UNKNOWN)
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


def _statement(reader: Reader, tree: Node, sql: str) -> Statement:
    [parsed] = tree.parts
    if parsed.name == "set_statement":
        return _statement(reader, parsed.the("statement"), sql)
    if parsed.name in _FIXED:
        return Statement(_FIXED[parsed.name])
    names = tuple(_named(reader, node) for node in parsed.all("table"))
    if parsed.name != "create_sequence" and parsed.find("rest") and ";" in sql:
        raise NotUnderstood  # perhaps more than one statement
    if parsed.name in ("create_database", "drop_database", "alter_database"):
        return _database(reader, parsed)
    if parsed.name == "rename_table":
        pairs = [[_named(reader, table) for table in pair.all("table")] for pair in parsed.all("renamed")]
        renames = tuple((old, new) for old, new in pairs)
        return Statement(StatementKind.TABLE_DDL, tuple(name for pair in renames for name in pair), renames=renames)
    if parsed.name == "create_table":
        return _create_table(reader, parsed, names, sql)
    if parsed.name == "alter_table":
        return _alter_table(reader, parsed, names, sql)
    return _BY_NAMES[parsed.name](names)


_BY_NAMES: dict[str, Callable[[tuple[str, ...]], Statement]] = {
    "truncate_table": lambda names: Statement(StatementKind.TRUNCATE, names),
    "drop_table": lambda names: Statement(StatementKind.TABLE_DDL, names, drops=True),
    "create_sequence": lambda names: Statement(StatementKind.TABLE_DDL, names, replaces=True),
    "create_index": lambda names: Statement(StatementKind.TABLE_DDL, names, alters=True),
    "drop_index": lambda names: Statement(StatementKind.TABLE_DDL, names, alters=True),
    "repair_table": lambda names: Statement(StatementKind.TABLE_DDL, names, repairs=True),
}
_FIXED = {
    "transaction": StatementKind.TRANSACTION,
    "harmless": StatementKind.HARMLESS,
    "temporary": StatementKind.HARMLESS,
    "changes_rows": StatementKind.DML,
}


def _named(reader: Reader, node: Node) -> str:
    """The `database.table` at that node."""
    reader.at = node.begin
    return reader.table()


def _database(reader: Reader, parsed: Node) -> Statement:
    """DROP and CREATE OR REPLACE drop its tables; UPGRADE DATA DIRECTORY NAME renames it; the rest sets defaults."""
    if parsed.name == "alter_database":
        words = [reader.tokens.at(i) for i in range(reader.tokens.count())]
        upgrade = any(token is not None and token.text.upper() == "UPGRADE" for token in words)
        return Statement(StatementKind.UNKNOWN if upgrade else StatementKind.HARMLESS)
    if parsed.name == "create_database" and not parsed.find("or_replace"):
        return Statement(StatementKind.HARMLESS)
    reader.at = parsed.the("database").begin
    return Statement(StatementKind.DROP_DATABASE, databases=(reader.database(),))


def _create_table(reader: Reader, parsed: Node, names: tuple[str, ...], sql: str) -> Statement:
    if_absent = parsed.find("if_not_exists") is not None
    empty = parsed.find("created") is not None
    if (body := parsed.find("body")) is not None:
        reader.at = body.begin
        empty = not _may_hold_a_query(reader)
    unions = _unions(reader, sql)
    return Statement(
        StatementKind.TABLE_DDL,
        (*names, *unions),
        unions=unions,
        if_absent=if_absent,
        replaces=parsed.find("or_replace") is not None,
        creates=empty and not if_absent,
    )


def _may_hold_a_query(reader: Reader) -> bool:
    """Whether one of the words with which a query may begin is after the table's name."""
    words = [reader.word(i) for i in range(reader.tokens.count() - reader.at)]
    limits = [after in ("LESS", "IN") for word, after in pairwise([*words, ""]) if word == "VALUES"]  # partitions
    return not all(limits) or bool({"SELECT", "WITH", "TABLE"} & set(words))


def _unions(reader: Reader, sql: str) -> tuple[str, ...]:
    """The tables in the option UNION, which has them in parentheses; the word may also be in a query."""
    tables = list[str]()
    if "UNION" not in sql.upper():
        return ()
    for i in range(reader.tokens.count()):
        reader.at = i
        if reader.skip("UNION", "=", "(") or reader.skip("UNION", "("):
            try:
                tables.append(reader.table())
                while reader.skip(","):
                    tables.append(reader.table())
            except NotUnderstood:
                continue
    return tuple(tables)


_NAMING = ("RENAME", "EXCHANGE", "CONVERT")  # the clauses that name another table


def _alter_table(reader: Reader, parsed: Node, names: tuple[str, ...], sql: str) -> Statement:
    """The table, its new name, and the other table of an operation on a partition."""
    table, new, others, absorbed = names[0], list[str](), list[str](), list[str]()
    if (clauses := parsed.find("alterations")) is not None:
        for node in clauses.walk():
            if node.name in ("rename_to", "partition_exchanged", "partition_converted", "partition_absorbed"):
                other = _named(reader, node.the("table"))
                (new if node.name == "rename_to" else others).append(other)
                absorbed += [other] if node.name == "partition_absorbed" else []
    elif (body := parsed.find("body")) is not None:
        reader.at = body.begin
        new, others = _named_in(reader)
    elif any(word in sql.upper() for word in _NAMING):
        raise NotUnderstood
    unions = _unions(reader, sql)
    tables = (table, *new, *others)
    return Statement(
        StatementKind.TABLE_DDL,
        (*tables, *unions),
        unions=unions,
        alters=set(tables) == {table},
        renames=tuple((table, name) for name in new),
        absorbed=tuple(absorbed),
    )


def _named_in(reader: Reader) -> tuple[list[str], list[str]]:
    """The new names and the other tables in clauses that do not fit the grammar; what CONVERT names is not known."""
    new, others = list[str](), list[str]()
    for i in reader.outside_parentheses():
        reader.at = i
        if reader.word(-1) == ".":  # a name that is also a word
            continue
        if reader.skip("RENAME"):
            if reader.word() in ("COLUMN", "INDEX", "KEY"):
                continue
            for word in ("TO", "AS", "="):
                reader.skip(word)
            new.append(reader.table())
        elif reader.skip("EXCHANGE", "PARTITION"):
            reader.identifier()
            reader.expect("WITH", "TABLE")
            others.append(reader.table())
        elif reader.skip("CONVERT", "PARTITION") or reader.skip("CONVERT", "TABLE"):
            raise NotUnderstood
    return new, others
