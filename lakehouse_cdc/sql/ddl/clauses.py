"""The clauses of ALTER TABLE, as what they do to the columns, the key and the rows.

The grammar says what a clause may be (`sql.grammar`), this module what it does. The list is closed: a clause gives
no action because it is known to change neither rows nor columns, and one that is not known here raises `NotUnderstood`.
Whether IF EXISTS and IF NOT EXISTS let a clause do anything follows from the table as it was before the statement: the
server asks the same (sql_table.cc of MariaDB, handle_if_exists_options).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakehouse_cdc.schema.engines import INNODB, canonical, not_captured
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.sql.ddl.column_type import Given, charset_name, charset_of_collation
from lakehouse_cdc.sql.ddl.definition import Definition, definition
from lakehouse_cdc.sql.ddl.parsed import Parsed
from lakehouse_cdc.sql.grammar.parser import Node
from lakehouse_cdc.sql.lexer import NotUnderstood


@dataclass(frozen=True)
class Add:
    """A new column."""

    definition: Definition


@dataclass(frozen=True)
class Drop:
    """A column goes."""

    name: str


@dataclass(frozen=True)
class Change:
    """A column is defined again, perhaps under a new name."""

    old: str
    definition: Definition


@dataclass(frozen=True)
class Rename:
    """A column gets another name."""

    old: str
    new: str


@dataclass(frozen=True)
class Key:
    """The primary key's columns; none where it is dropped. `prefixed`: of some of them a prefix alone."""

    columns: tuple[str, ...]
    prefixed: bool = False


@dataclass(frozen=True)
class Unique:
    """A new UNIQUE index of a table without a primary key; no columns where one of its parts is not a whole column.

    `name` is None where the statement gives none, or may do nothing.
    """

    name: str | None
    columns: tuple[str, ...] | None


@dataclass(frozen=True)
class DropIndex:
    """An index of a table without a primary key goes, if there is one of that name."""

    name: str


@dataclass(frozen=True)
class RenameIndex:
    """An index of a table without a primary key gets another name."""

    old: str
    new: str


@dataclass(frozen=True)
class Convert:
    """Every column of text gets that character set."""

    charset: str


@dataclass(frozen=True)
class Default:
    """A new column of text that names no character set gets that one."""

    charset: str


@dataclass(frozen=True)
class Versioned:
    """The table gets system versioning, with hidden columns for its period, or loses it with all that has ended."""

    added: bool


@dataclass(frozen=True)
class Engine:
    """The table is kept by another storage engine; '' is InnoDB."""

    name: str


@dataclass(frozen=True)
class Unproven:
    """The rows may change, without an event that says how."""


Action = (
    Add | Drop | Change | Rename | Key | Unique | DropIndex | RenameIndex | Convert | Default | Versioned | Engine
    | Unproven
)  # fmt: skip

_SILENT = (
    "how", "add_index", "drop_foreign_key", "alter_index", "alter_check", "alter_column",
    "maintenance",
)  # fmt: skip
_NO_OPTION = ("SEQUENCE",)  # options that make another object of a table


class Clauses:
    """What the clauses of one statement do to the table `before`, whose defaults are `given`."""

    def __init__(self, parsed: Parsed, before: TableSchema, given: Given) -> None:
        self._parsed, self._before, self._given = parsed, before, given
        self._columns = {column.name.lower() for column in before.columns}

    def actions(self, alterations: Node) -> list[Action]:
        """What they do, in their order. Raises NotUnderstood."""
        actions: list[Action] = []
        for node in alterations.parts:
            if node.name == "partition_operation":
                kept = node.parts[0].name == "partition_kept"
                actions += [] if kept else [Unproven()]
            elif node.name == "tablespace_operation":
                actions += [Unproven()] if node.says("TABLESPACE") else []  # another's rows
            elif node.name == "table_options":
                actions += self._options(node)
            elif node.name == "how_or_clause":
                actions += self._clause(node.parts[0])
            elif node.name not in ("partitioning", "order_by"):
                raise NotUnderstood
        defaults = [one for one in actions if isinstance(one, Convert | Default)]
        if len(defaults) > 1 or (defaults and any(isinstance(one, Add | Change) for one in actions)):
            raise NotUnderstood  # which of the defaults a new column gets
        return actions

    def _clause(self, node: Node) -> list[Action]:
        if node.name == "how":
            return []
        if all(part.name == "table_option" for part in node.parts):
            return self._options(node)
        [clause] = node.parts
        if clause.name in _SILENT:
            return []
        actions = _DOING.get(clause.name)
        if actions is None:
            raise NotUnderstood
        return actions(self, clause)

    def _idle(self, node: Node, name: str) -> bool:
        """Whether its condition lets it do nothing to the column of that name."""
        there = name.lower() in self._columns
        return bool(node.find("if_exists") and not there) or bool(node.find("if_not_exists") and there)

    def _name(self, node: Node) -> str:
        return self._parsed.name(node.the("identifier"))

    def _add(self, node: Node) -> list[Action]:
        one = definition(self._parsed, node.the("column_definition"), self._given, node.find("place"))
        return [] if self._idle(node, one.column.name) else [Add(one), *self._own_key(one)]

    def _add_columns(self, node: Node) -> list[Action]:
        actions: list[Action] = []
        for element in node.all("element"):
            [part] = element.parts
            if part.name == "column_definition":
                one = definition(self._parsed, part, self._given)
                actions += [] if self._idle(node, one.column.name) else [Add(one), *self._own_key(one)]
            elif part.name == "constraint":
                actions += self._constraint(element)
            elif part.name != "index_definition":
                raise NotUnderstood
        return actions

    def _constraint(self, node: Node) -> list[Action]:
        [kind] = node.the("constraint").parts
        if kind.name == "unique_key":
            return self._unique(kind)
        if kind.name != "primary_key":
            return []
        named = kind.find("constraint_name")
        if (kind.find("if_not_exists") or (named and named.find("if_not_exists"))) and self._before.key:
            return []
        columns, prefixed = [], False
        for part in kind.the("key_parts").all("key_part"):
            if part.find("parentheses") or part.says("WITHOUT"):
                raise NotUnderstood
            columns.append(self._name(part))
            prefixed |= part.find("number") is not None
        return [Key(tuple(columns), prefixed)]

    def _unique(self, kind: Node) -> list[Action]:
        """A unique constraint: of a table with a primary key it says nothing."""
        if self._before.key:
            return []
        label, constraint = kind.find("index_label"), kind.find("constraint_name")
        named = [node for node in (label and label.find("index_name"), constraint) if node and node.find("identifier")]
        may_do_nothing = any(node.name == "if_not_exists" for node in kind.walk())
        name = self._name(named[0]) if named and not may_do_nothing else None
        return [Unique(name, whole_columns(self._parsed, kind.the("key_parts")))]

    def _drop(self, node: Node) -> list[Action]:
        name = self._name(node)
        return [] if self._idle(node, name) else [Drop(name)]

    def _drop_named(self, node: Node) -> list[Action]:
        """An index or a constraint: it is the primary key by that name alone."""
        name = self._name(node)
        if not self._before.key:
            return [DropIndex(name)]
        return [Key(())] if name.upper() == "PRIMARY" else []

    def _drop_period(self, node: Node) -> list[Action]:
        """A period of the application's is no column, and its columns stay what they are."""
        if self._parsed.word(node.the("identifier")).upper() == "SYSTEM_TIME":
            raise NotUnderstood
        return []

    def _rename_index(self, node: Node) -> list[Action]:
        old, new = (self._parsed.name(name) for name in node.all("identifier"))
        return [] if self._before.key else [RenameIndex(old, new)]

    def _modify(self, node: Node) -> list[Action]:
        one = definition(self._parsed, node.the("column_definition"), self._given, node.find("place"))
        return [] if self._idle(node, one.column.name) else [Change(one.column.name, one), *self._own_key(one)]

    def _change(self, node: Node) -> list[Action]:
        old = self._parsed.name(node.the("column_name"))
        one = definition(self._parsed, node.the("column_definition"), self._given, node.find("place"))
        return [] if self._idle(node, old) else [Change(old, one), *self._own_key(one)]

    def _rename(self, node: Node) -> list[Action]:
        old, new = (self._parsed.name(name) for name in node.all("identifier"))
        return [] if self._idle(node, old) else [Rename(old, new)]

    def _convert(self, node: Node) -> list[Action]:
        if node.says("DEFAULT"):
            raise NotUnderstood
        return [Convert(charset_name(self._parsed.word(node.the("charset_name"))))]

    def _options(self, node: Node) -> list[Action]:
        actions: list[Action] = []
        for part in node.walk():
            if part.name == "charset_option":
                actions = self._charset(part)
            elif part.name == "engine":
                actions += self._engine(part.the("engine_name"))
            elif part.name == "option" and part.find("engine_name"):
                raise NotUnderstood  # a secondary one
            elif part.name == "versioned" or (part.name == "option" and part.says(*_NO_OPTION)):
                raise NotUnderstood
        return actions

    def _engine(self, node: Node) -> list[Action]:
        """An engine that is not there is another one by the server's choice, unless the session forbids that."""
        engine = canonical(self._parsed.word(node))
        name = "" if engine == INNODB else engine
        if name == self._before.engine:
            return []
        if not_captured(engine) is not None or not self._given.session.keeps_to_the_engine:
            raise NotUnderstood
        return [Engine(name), Unproven()]

    def _own_key(self, one: Definition) -> list[Action]:
        if one.primary:
            return [Key((one.column.name,))]
        return [Unique(None, (one.column.name,))] if one.unique and not self._before.key else []

    def _charset(self, node: Node) -> list[Action]:
        choices = [c.find("charset_name", "collation_name") for c in node.all("charset_choice", "collation_choice")]
        if None in choices:
            raise NotUnderstood  # DEFAULT
        names = [self._parsed.word(choice).lower() for choice in choices if choice is not None]
        charset = charset_of_collation(names[0]) if _collates_alone(node) else charset_name(names[0])
        assert charset is not None
        return [Default(charset)]


def _collates_alone(node: Node) -> bool:
    return not (node.says("SET") or node.says("CHARSET"))


def whole_columns(parsed: Parsed, parts: Node) -> tuple[str, ...] | None:
    """The columns of an index; None where a part is a prefix or an expression."""
    columns = []
    for part in parts.all("key_part"):
        if part.find("number", "parentheses") or part.says("WITHOUT"):
            return None
        columns.append(parsed.name(part.the("identifier")))
    return tuple(columns)


_DOING: dict[str, Callable[[Clauses, Node], list[Action]]] = {
    "add_column": Clauses._add,
    "add_columns": Clauses._add_columns,
    "add_constraint": Clauses._constraint,
    "drop_primary_key": lambda _, __: [Key(())],
    "drop_index_clause": Clauses._drop_named,
    "drop_constraint": Clauses._drop_named,
    "drop_column": Clauses._drop,
    "modify_column": Clauses._modify,
    "change_column": Clauses._change,
    "rename_column": Clauses._rename,
    "rename_index": Clauses._rename_index,
    "add_versioning": lambda _, __: [Versioned(added=True)],
    "drop_period": Clauses._drop_period,
    "drop_versioning": lambda _, __: [Versioned(added=False)],
    "rename_to": lambda _, __: [],  # what has its name afterwards is not said by the clauses
    "convert_to": Clauses._convert,
}
