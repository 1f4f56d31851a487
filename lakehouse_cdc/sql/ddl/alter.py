"""What ALTER TABLE, CREATE INDEX and DROP INDEX make of a table: its schema afterwards, and whether its rows are kept.

`altered` is exact or it raises: the schema is the one that the server has after the statement. `Altered.kept` is True
only where each row of the table holds afterwards what its image said before, under the names and types of the new
schema, and in a new column NULL, or what `Altered.filled` says. That is a proof from the statement and the old schema
alone; where there is none (a default that is no constant, types that are no pair of `preserved`, a partition that was
dropped) it is False, and the table must be read again.

The columns are put in order as the server does it (sql_table.cc, mysql_prepare_alter_table): the old ones stay where
they are, then each one that is new or has a place is put where its clause says, among the names as they are then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from lakehouse_cdc.schema.charsets import MAX_BYTES
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.versioning import Versioning
from lakehouse_cdc.sql.ddl.clauses import (
    Action,
    Add,
    Change,
    Clauses,
    Convert,
    Default,
    Drop,
    DropIndex,
    Engine,
    Key,
    Rename,
    Unique,
    Unproven,
    Versioned,
    whole_columns,
)
from lakehouse_cdc.sql.ddl.column_type import BLOBS, TEXTS, Given
from lakehouse_cdc.sql.ddl.parsed import Parsed
from lakehouse_cdc.sql.ddl.preserved import preserved, survives_copy
from lakehouse_cdc.sql.ddl.statement_session import StatementSession
from lakehouse_cdc.sql.ddl.unique_index import with_unique_after
from lakehouse_cdc.sql.generated_columns import generated_as, same_everywhere
from lakehouse_cdc.sql.grammar.parser import Node, parse
from lakehouse_cdc.sql.lexer import PLAIN, Dialect, NotUnderstood, Reader, Tokens, tokens
from lakehouse_cdc.sql.statements import servers_of

_LEAST_LONG_KEY = 767  # bytes, of any row format


@dataclass(frozen=True)
class Altered:
    """See above. `origin` has the old name of each column of the new schema that there was before; `filled` the text of
    what all rows hold in some of the others.

    `key_known`: which unique index can be the key of a table without a primary key afterwards (`TableSchema.unique`) is
    proven, too. `silent`: no clause speaks of columns or rows, so this holds for whatever the table was before.
    """

    schema: TableSchema
    kept: bool
    origin: Mapping[str, str]
    filled: Mapping[str, str]
    silent: bool
    key_known: bool = True


def altered(sql: str, schema: TableSchema, given: Given, dialect: Dialect = PLAIN) -> Altered:
    """What `sql`, one statement about that table alone, makes of it. Raises NotUnderstood.

    `dialect`: how that session's server reads a text. A key that the user gives is none to a statement.
    """
    schema = schema.declared
    tokens = Tokens(sql, dialect)
    tree = parse(Reader(tokens, schema.database, lower_case=False), "statement", servers_of(dialect))
    [statement] = _without_settings(tokens, tree).parts
    parsed = Parsed(tokens, dialect)
    if statement.name in ("create_index", "drop_index"):
        result = _apply(schema, _index(parsed, schema, statement), given)
    else:
        clauses = statement.find("alterations")
        if statement.name != "alter_table" or clauses is None:
            raise NotUnderstood
        todo = Clauses(parsed, schema, given).actions(clauses)
        result = _apply(schema, [*todo, *([Unproven()] if statement.says("IGNORE") else [])], given)
    if dialect.mariadb and any(node.says("UNIQUE") for node in statement.walk()):
        hashes = schema.hidden_hashes or _may_be_hashed(result.schema, statement)
        known = result.key_known and (not result.schema.unique or schema.unique is not None or not hashes)
        return replace(result, schema=replace(result.schema, hidden_hashes=hashes), key_known=known)
    return result


def _may_be_hashed(schema: TableSchema, statement: Node) -> bool:
    """Whether MariaDB may keep a UNIQUE key as a hash: it is declared so, or may be longer than an index."""
    sizes = [
        (column.length or 0) * MAX_BYTES.get(column.charset or "binary", 1)
        for column in schema.columns
        if column.type not in (*TEXTS, *BLOBS)
    ]
    long = len(sizes) < len(schema.columns) or sum(sizes) > _LEAST_LONG_KEY
    return long or any(node.says("HASH") for node in statement.walk())


def _without_settings(tokens: Tokens, tree: Node | None) -> Node:
    """The statement, or that after SET STATEMENT ... FOR. Raises NotUnderstood for a setting that may change it."""
    if tree is None:
        raise NotUnderstood
    [outer] = tree.parts
    if outer.name != "set_statement":
        return tree
    for setting in outer.all("setting_of"):
        name = tokens.at(setting.begin)
        if name is None or name.text.lower() not in _WITHOUT_INFLUENCE:
            raise NotUnderstood
    return _without_settings(tokens, outer.the("statement"))


# variables of MariaDB that limit a statement, or say how it is run, and not what it does
_WITHOUT_INFLUENCE = ("max_statement_time", "lock_wait_timeout", "innodb_lock_wait_timeout", "sort_buffer_size",
                      "alter_algorithm", "foreign_key_checks", "unique_checks")  # fmt: skip


def _index(parsed: Parsed, schema: TableSchema, statement: Node) -> list[Action]:
    """What CREATE INDEX and DROP INDEX do: of a table with a primary key only the second does, to the index PRIMARY."""
    if statement.find("rest"):
        raise NotUnderstood
    name = parsed.name(statement.the("identifier"))
    if schema.key:
        return [Key(())] if statement.name == "drop_index" and name.upper() == "PRIMARY" else []
    if statement.name == "drop_index":
        return [DropIndex(name)]
    if not statement.says("UNIQUE"):
        return []
    idle = statement.find("if_not_exists", "or_replace")
    columns = whole_columns(parsed, statement.the("created_index").the("key_parts"))
    return [Unique(None if idle else name, columns)]


def _apply(schema: TableSchema, todo: Sequence[Action], given: Given) -> Altered:
    todo = [_with_generated(action, schema, given) for action in todo]
    versioning = _versioning(schema, todo, given)
    columns = _Columns(schema, todo)
    key, prefixed = _key(schema, columns, todo)
    key = versioning.current_key(key) if versioning else key
    members = {name.lower() for name in key}
    columns_after = tuple(
        replace(column, nullable=False) if column.name.lower() in members else column for column in columns.now
    )
    kept = columns.kept and not any(isinstance(action, Unproven) for action in todo)
    kept = kept and _values_kept(schema, columns_after, columns, given.session)
    charsets = [action.charset for action in todo if isinstance(action, Convert | Default)]
    engine = [schema.engine, *(action.name for action in todo if isinstance(action, Engine))][-1]
    after = replace(
        schema, columns=columns_after, key=key, charset=(*charsets, schema.charset)[0], prefixed=prefixed, unique=None,
        more_unique=None, versioning=versioning, engine=engine,
    )  # fmt: skip
    kept = kept and _same_key(schema, after, columns.origin)
    after, known = with_unique_after(schema, after, columns.origin, todo)
    return Altered(after, kept, columns.origin, columns.filled if kept else {}, silent=not todo, key_known=known)


def _versioning(schema: TableSchema, todo: Sequence[Action], given: Given) -> Versioning | None:
    """How the table is versioned afterwards. Raises NotUnderstood where declared columns of a period are concerned.

    The current rows stay what they are: seen on 10.11 and 11.8, and compared by tests.
    """
    versioning = schema.versioning
    if versioning is not None and any(column.name == versioning.end for column in schema.columns):
        period = {versioning.start.lower(), versioning.end.lower()}
        named = [a.name if isinstance(a, Drop) else a.old for a in todo if isinstance(a, Drop | Change | Rename)]
        if period & {name.lower() for name in named} or any(isinstance(action, Versioned) for action in todo):
            raise NotUnderstood
    for action in todo:
        if isinstance(action, Versioned):
            if action.added == (versioning is not None) or given.greatest_end is None:
                raise NotUnderstood
            versioning = Versioning.hidden(given.greatest_end) if action.added else None
    return versioning


def _same_key(before: TableSchema, after: TableSchema, origin: Mapping[str, str]) -> bool:
    """Rows are told apart by the same columns, in the same order."""
    return tuple(origin.get(name) for name in after.key) == before.key


def _values_kept(before: TableSchema, after: Sequence[Column], columns: _Columns, session: StatementSession) -> bool:
    """Whether each column that was there, and is captured, is proven to hold what it held."""
    if columns.redefined and any(column.generated and column.captured for column in before.columns):
        return False  # it may be computed from what is defined otherwise now
    old = {column.name: column for column in before.columns}
    for new in after:
        was = old.get(columns.origin.get(new.name, ""))
        if was is None or not was.captured:
            continue
        same = new.name not in columns.redefined and was.nullable == new.nullable
        if not (survives_copy(was, session) if same else preserved(was, new, session)):
            return False
    return True


class _Columns:
    """The columns as the clauses make them, and where they come from."""

    def __init__(self, schema: TableSchema, todo: Sequence[Action]) -> None:
        self.kept = True
        self.origin: dict[str, str] = {}
        self.filled: dict[str, str] = {}
        self.redefined: set[str] = set()  # new names of old columns that get a definition, or another character set
        self.now: list[Column] = []
        self._todo = todo
        known = {column.name.lower() for column in schema.columns}
        named = [a.name if isinstance(a, Drop) else a.old for a in todo if isinstance(a, Drop | Change | Rename)]
        if {name.lower() for name in named} - known or len({name.lower() for name in named}) < len(named):
            raise NotUnderstood  # of another table, or twice
        for column in schema.columns:
            self._old(column)
        for action in todo:
            if isinstance(action, Add):
                self._put(action.definition.column, action.definition.place)
                self._fill(action)
            elif isinstance(action, Change):
                self.kept &= not action.definition.numbered and action.definition.expression is None
                if action.definition.place is not None:
                    self._put(self._changed(schema, action), action.definition.place)
            elif isinstance(action, Convert):
                self.now = [_converted(column, action.charset) for column in self.now]
                self.redefined |= {column.name for column in self.now if column.charset is not None}
        names = [column.name.lower() for column in self.now]
        if len(set(names)) < len(names) or not names:
            raise NotUnderstood

    def _fill(self, action: Add) -> None:
        one = action.definition
        if one.filled is not None:
            self.filled[one.column.name] = one.filled
        self.kept &= not one.numbered and (one.filled is not None or not one.fill)

    def _old(self, column: Column) -> None:
        """A column that was there stays in its place, unless it goes or gets another."""
        for action in self._todo:
            if isinstance(action, Drop) and _same(action.name, column.name):
                return
            if isinstance(action, Rename) and _same(action.old, column.name):
                self.now.append(self._named(replace(column, name=action.new), column))
                return
            if isinstance(action, Change) and _same(action.old, column.name):
                new = self._from(action, column)
                self.origin[new.name] = column.name
                self.redefined.add(new.name)
                if action.definition.place is None:
                    self.now.append(new)
                return
        self.now.append(self._named(column, column))

    def _named(self, new: Column, old: Column) -> Column:
        self.origin[new.name] = old.name
        return new

    def _changed(self, schema: TableSchema, action: Change) -> Column:
        return self._from(action, next(c for c in schema.columns if _same(c.name, action.old)))

    def _from(self, action: Change, old: Column) -> Column:
        return replace(action.definition.column, captured=old.captured, carried=old.carried, mask=old.mask)

    def _put(self, column: Column, place: str | None) -> None:
        at = len(self.now)
        if place == "":
            at = 0
        elif place is not None:
            at = next((i + 1 for i, one in enumerate(self.now) if _same(one.name, place)), -1)
            if at < 0:
                raise NotUnderstood
        self.now.insert(at, column)


def _with_generated(action: Action, schema: TableSchema, given: Given) -> Action:
    """An action that defines a generated column, with what is proven of its values (`sql.generated_columns`).

    Raises NotUnderstood for one that may show what is masked.
    """
    if not isinstance(action, Add | Change) or action.definition.expression is None:
        return action
    one = action.definition
    captured = {column.name.lower(): column.captured for column in schema.columns}
    expression = _with_quotes(one.expression or "", captured)
    same = same_everywhere(one.column, expression, schema.columns, virtual=captured)
    if given.logs_generated is None or any(column.mask for column in schema.columns):
        raise NotUnderstood
    kind = generated_as(same, virtual=one.virtual, logged=given.logs_generated)
    fill = one.fill and kind not in ("virtual", "unlogged")  # what has no value is not captured
    return replace(action, definition=replace(one, column=replace(one.column, generated=kind), fill=fill))


def _with_quotes(expression: str, columns: Collection[str]) -> str:
    """An expression with the names of columns in quotes, as the server's catalog has it; a function's name is none."""
    written = tokens(expression)
    parts = []
    for token, after in zip(written, [*written[1:], None], strict=True):
        called = after is not None and after.text == "("
        named = token.form == "quoted" or (token.form == "word" and token.text.lower() in columns and not called)
        parts.append(f"`{token.text.replace('`', '``')}`" if named else token.text)
    return " ".join(parts)


def _same(a: str, b: str) -> bool:
    """Names of columns do not depend on case."""
    return a.lower() == b.lower()


def _key(schema: TableSchema, columns: _Columns, todo: Sequence[Action]) -> tuple[tuple[str, ...], bool]:
    """The primary key's columns, by the names that they now have, and whether it is over prefixes."""
    names = {column.name.lower(): column.name for column in columns.now}
    new_of = {old: new for new, old in columns.origin.items()}
    key = [new_of[name] for name in schema.key if name in new_of]  # one that is dropped leaves the key
    prefixed = schema.prefixed
    for action in todo:
        if isinstance(action, Key):
            prefixed = action.prefixed
            if any(name.lower() not in names for name in action.columns):
                raise NotUnderstood
            key = [names[name.lower()] for name in action.columns]
    return tuple(key), prefixed


def _converted(column: Column, charset: str) -> Column:
    """CONVERT TO CHARACTER SET; a TEXT grows until it holds as many characters."""
    if column.charset is None:
        return column
    if charset == "binary" or column.charset == "binary":
        raise NotUnderstood
    before, after = (MAX_BYTES.get(name, 1) for name in (column.charset, charset))
    if after > before and (column.type in TEXTS or column.type == "varchar"):
        raise NotUnderstood  # it may become another type
    return replace(column, charset=charset, collation=None)
