"""The clauses of ALTER TABLE, as what they do to the columns, the key and the rows.

The lists are closed: a clause gives no action because it is known to change neither rows nor columns, and one that is
not known raises `NotUnderstood`. Source: the reference manuals, "ALTER TABLE" and "ALTER TABLE Partition Operations".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakehouse_cdc.schema.ddl.column_type import Given, charset_name, charset_of_collation
from lakehouse_cdc.schema.ddl.definition import Definition, check, definition
from lakehouse_cdc.schema.ddl.literals import number, parentheses, text
from lakehouse_cdc.schema.lexer import NotUnderstood, Reader


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
    """A column is defined anew, perhaps under a new name."""

    old: str
    definition: Definition


@dataclass(frozen=True)
class Rename:
    """A column gets another name."""

    old: str
    new: str


@dataclass(frozen=True)
class Key:
    """The primary key's columns; none where it is dropped."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class Convert:
    """Every column of text gets that character set."""

    charset: str


@dataclass(frozen=True)
class Default:
    """A new column of text that names no character set gets that one."""

    charset: str


@dataclass(frozen=True)
class Unproven:
    """The rows may change, without an event that says how."""


Action = Add | Drop | Change | Rename | Key | Convert | Default | Unproven

_KEPT = ("COALESCE", "REORGANIZE", "ANALYZE", "CHECK", "OPTIMIZE", "REBUILD")  # the rows, by operations on partitions
_LOST = ("TRUNCATE", "DROP", "EXCHANGE", "DISCARD", "IMPORT", "REPAIR")
_OPTIONS = (
    "AUTO_INCREMENT", "AVG_ROW_LENGTH", "CHECKSUM", "TABLE_CHECKSUM", "COMMENT", "COMPRESSION", "DELAY_KEY_WRITE",
    "ENCRYPTION", "KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS", "PACK_KEYS", "PAGE_CHECKSUM", "PAGE_COMPRESSED",
    "PAGE_COMPRESSION_LEVEL", "ROW_FORMAT", "STATS_AUTO_RECALC", "STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "TABLESPACE",
    "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE", "SECONDARY_ENGINE", "TRANSACTIONAL", "ENCRYPTED",
    "ENCRYPTION_KEY_ID",
)  # fmt: skip


def actions(reader: Reader, given: Given) -> list[Action]:
    """What the clauses from the cursor on do, in their order. Raises NotUnderstood."""
    found = _partitions(reader)
    if found is not None:
        return found
    found = []
    for clause in _clauses(reader):
        if clause.skip("ORDER", "BY"):
            break  # names of columns follow, and nothing else
        found += _action(clause, given)
    defaults = [one for one in found if isinstance(one, Convert | Default)]
    if len(defaults) > 1 or (defaults and any(isinstance(one, Add | Change) for one in found)):
        raise NotUnderstood  # which of the defaults a new column gets
    return found


def _clauses(reader: Reader) -> Iterator[Reader]:
    """Each clause with a cursor of its own: what stands between commas outside parentheses."""
    commas = [i for i in reader.outside_parentheses() if reader.tokens[i].text == ","]
    begin = reader.at
    for end in (*commas, len(reader.tokens)):
        yield reader.part(begin, end)
        begin = end + 1


def _partitions(reader: Reader) -> list[Action] | None:
    """An operation on partitions stands alone."""
    verb = reader.word()
    if verb in (*_KEPT, *_LOST) and reader.word(1) == "PARTITION":
        return [] if verb in _KEPT else [Unproven()]
    if reader.word() == "ADD" and reader.word(1) == "PARTITION":
        return []
    return None


def _action(clause: Reader, given: Given) -> list[Action]:
    found: list[Action]
    if clause.skip("ADD"):
        found = _add(clause, given)
    elif clause.skip("DROP"):
        found = _drop(clause)
    elif clause.either("MODIFY COLUMN", "MODIFY"):
        one = definition(clause, given)
        found = [Change(one.column.name, one), *_own_key(one)]
    elif clause.either("CHANGE COLUMN", "CHANGE"):
        old = clause.identifier()
        one = definition(clause, given)
        found = [Change(old, one), *_own_key(one)]
    elif clause.skip("RENAME"):
        found = _rename(clause)
    elif clause.skip("ALTER"):
        found = _alter(clause)
    elif clause.skip("CONVERT", "TO"):
        found = _convert(clause)
    elif clause.either("DISCARD TABLESPACE", "IMPORT TABLESPACE"):
        found = [Unproven()]  # another's rows
    else:
        return _options(clause)
    clause.end()
    return found


def _own_key(one: Definition) -> list[Action]:
    return [Key((one.column.name,))] if one.primary else []


def _add(clause: Reader, given: Given) -> list[Action]:
    if clause.word() in ("INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "FOREIGN", "VECTOR"):
        clause.at = len(clause.tokens)
        return []
    if clause.word() in ("CONSTRAINT", "PRIMARY", "CHECK"):
        return _constraint(clause)
    clause.skip("COLUMN")
    if clause.word() == "IF":
        raise NotUnderstood  # whether it did anything is not said
    if clause.word() != "(":
        return _added(definition(clause, given))
    parentheses(inside := clause.part(clause.at, len(clause.tokens)))
    inside.end()
    found: list[Action] = []
    for one in _clauses(clause.part(clause.at + 1, len(clause.tokens) - 1)):
        if one.word() in ("INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "FOREIGN", "CONSTRAINT", "PRIMARY", "CHECK"):
            found += _add(one, given)
        else:
            found += _added(definition(one, given))
    clause.at = len(clause.tokens)
    return found


def _added(one: Definition) -> list[Action]:
    return [Add(one), *_own_key(one)]


def _constraint(clause: Reader) -> list[Action]:
    if clause.skip("CONSTRAINT") and clause.word() not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
        clause.identifier()
    if clause.word() in ("UNIQUE", "FOREIGN"):
        clause.at = len(clause.tokens)
        return []
    if clause.word() == "CHECK":
        check(clause)
        return []
    clause.expect("PRIMARY", "KEY")
    if clause.either("USING", "TYPE"):
        clause.identifier()
    clause.expect("(")
    columns = []
    while True:
        columns.append(clause.identifier())
        clause.either("ASC", "DESC")
        if not clause.skip(","):
            break
    clause.expect(")")
    while clause.word():
        if clause.either("USING", "TYPE"):
            clause.identifier()
        elif clause.skip("COMMENT"):
            text(clause)
        else:
            raise NotUnderstood
    return [Key(tuple(columns))]


def _drop(clause: Reader) -> list[Action]:
    if clause.skip("PRIMARY", "KEY"):
        return [Key(())]
    if clause.either("FOREIGN KEY", "INDEX", "KEY", "CONSTRAINT", "CHECK"):
        clause.skip("IF", "EXISTS")
        return [Key(())] if clause.identifier().upper() == "PRIMARY" else []
    clause.skip("COLUMN")
    if clause.word() == "IF":
        raise NotUnderstood
    name = clause.identifier()
    clause.either("RESTRICT", "CASCADE")
    return [Drop(name)]


def _rename(clause: Reader) -> list[Action]:
    if clause.either("INDEX", "KEY"):
        clause.identifier()
        clause.expect("TO")
        clause.identifier()
        return []
    if not clause.skip("COLUMN"):
        raise NotUnderstood  # of the table
    old = clause.identifier()
    clause.expect("TO")
    return [Rename(old, clause.identifier())]


def _alter(clause: Reader) -> list[Action]:
    """Defaults, and what is visible or enforced: nothing of it touches a row that is there."""
    if clause.either("INDEX", "KEY", "CHECK", "CONSTRAINT"):
        clause.identifier()
        if not clause.either("VISIBLE", "INVISIBLE", "IGNORED", "NOT IGNORED", "ENFORCED", "NOT ENFORCED"):
            raise NotUnderstood
        return []
    clause.skip("COLUMN")
    clause.identifier()
    if clause.skip("SET", "DEFAULT"):
        clause.at = len(clause.tokens)
    elif not clause.either("DROP DEFAULT", "SET VISIBLE", "SET INVISIBLE"):
        raise NotUnderstood
    return []


def _convert(clause: Reader) -> list[Action]:
    if not clause.either("CHARACTER SET", "CHARSET") or clause.word() == "DEFAULT":
        raise NotUnderstood
    charset = charset_name(clause.identifier())
    if clause.skip("COLLATE"):
        clause.identifier()
    return [Convert(charset)]


def _options(clause: Reader) -> list[Action]:
    """Options of the table, which need no commas, and how to go about it."""
    found: list[Action] = []
    while clause.at < len(clause.tokens):
        if (charset := _default_charset(clause)) is not None:
            found = [Default(charset)]
            continue
        if clause.either("FORCE", "ENABLE KEYS", "DISABLE KEYS", "WITH VALIDATION", "WITHOUT VALIDATION"):
            continue
        if clause.either("REMOVE PARTITIONING", "UPGRADE PARTITIONING"):
            continue
        if clause.skip("PARTITION", "BY"):
            clause.at = len(clause.tokens)
        elif clause.either("ALGORITHM", "LOCK"):
            clause.skip("=")
            clause.identifier()
        elif clause.skip("ENGINE"):
            clause.skip("=")
            if clause.identifier().upper() != "INNODB":
                raise NotUnderstood
        elif clause.word() in _OPTIONS:
            clause.at += 1
            clause.skip("=")
            _option(clause)
        else:
            raise NotUnderstood
    return found


def _default_charset(clause: Reader) -> str | None:
    """`[DEFAULT] CHARACTER SET [=] x [[DEFAULT] COLLATE [=] y]`, or COLLATE alone."""
    begin = clause.at
    clause.skip("DEFAULT")
    if clause.either("CHARACTER SET", "CHARSET"):
        clause.skip("=")
        charset = clause.identifier()
        if charset.upper() == "DEFAULT":
            raise NotUnderstood
        behind = clause.at
        clause.skip("DEFAULT")
        if clause.skip("COLLATE"):
            clause.skip("=")
            clause.identifier()
        else:
            clause.at = behind
        return charset_name(charset)
    if clause.skip("COLLATE"):
        clause.skip("=")
        return charset_of_collation(clause.identifier().lower())
    clause.at = begin
    return None


def _option(clause: Reader) -> None:
    if clause.at < len(clause.tokens) and clause.tokens[clause.at].form in ("string", "double"):
        text(clause)
    elif clause.word().isdecimal():
        number(clause)
    else:
        clause.identifier()
