"""Which names a statement that was logged as text mentions: what it may write, read and call.

A table changes by such a statement only if the statement writes it, or something that the statement writes, reads or
calls does (a trigger, a foreign key, a view, a stored routine; see `sql.references`). So what counts is that no name
is missed. Of INSERT, REPLACE, LOAD, and of an UPDATE or DELETE of one table, the grammar says which table is written:
it is at a fixed place, after words that are reserved. Whatever else is in them is read at most. Of every other
form each identifier counts as written. A name may be unquoted, in backticks, or (ANSI_QUOTES) in double quotes, as
`table`, `database.table` or `database.table.column`; `a.b` may be a table's column, too, so both readings count.
Where it depends on the session's sql_mode or character set where the quotes end, all words of the text count, also
those within strings and comments, in any database.

Statements that differ in their literals alone (a heartbeat) mention the same names, and are parsed once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from lakehouse_cdc.model.table_name import split
from lakehouse_cdc.sql.lexer import NotUnderstood, Token, tokens
from lakehouse_cdc.sql.words import BUILT_IN, RESERVED

Use = Literal["write", "read", "call"]
Name = tuple[str, str]  # database, table; in lower case
Node = tuple[Use, str, str]  # how it is used, database, name; both names in lower case
USES: tuple[Use, ...] = ("write", "read", "call")

_WORD = re.compile(r"[0-9A-Za-z_$\u0080-\U0010ffff]+")
_COMMENT = r"/\*(?!!).*?\*/|--(?=[\x00-\x20]|$)[^\n]*|\#[^\n]*"
_NUMBER = r"(?<![\w$`.])(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)(?![\w$.])"
_QUOTED = r"'(?:[^'\\]|''|\\.)*'|\"(?:[^\"\\]|\"\"|\\.)*\""
_LITERAL = re.compile(rf"(`(?:[^`]|``)*`)|{_QUOTED}|{_COMMENT}|{_NUMBER}", re.DOTALL)
_ROWS = re.compile(r"(\(\s*(?:''|NULL|,|\s)*\))(?:\s*,\s*\(\s*(?:''|NULL|,|\s)*\))+", re.IGNORECASE)
_HEAD = re.compile(r"(?:[\s(;]|/\*(?!!).*?\*/|--(?=[\x00-\x20])[^\n]*\n|\#[^\n]*\n)*([A-Za-z]+)", re.DOTALL)
_DML = frozenset(("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "DO", "WITH", "SELECT"))
_MODIFIERS = frozenset(("LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "IGNORE", "QUICK", "HISTORY"))
_AFTER_TABLES = frozenset(("WHERE", "ORDER", "LIMIT", "RETURNING"))
_READS = frozenset(("SELECT", "TABLE", "JOIN"))
_WRITES = frozenset(("INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "TRUNCATE", "EXECUTE", "PREPARE"))
_DYNAMIC = frozenset(("EXECUTE", "PREPARE"))
_ROUTINES = frozenset(("FUNCTION", "PROCEDURE"))
_OTHERS = frozenset(("VIEW", "TRIGGER", "PACKAGE", "TABLE", "REFERENCES", "RENAME"))
_CACHED = 1 << 16  # characters of a statement whose names are remembered


@dataclass(frozen=True)
class Names:
    """What a text mentions. `words` are all words of a text whose quotes are not understood: each may be a name in any
    database; `unreadable`: so may every name that is not ASCII. `databases` are words that may be one, if a statement
    is not known. `dynamic`: it runs text that it makes. `alone` are tables whose rows change by themselves, and nothing
    else with them.
    """

    nodes: frozenset[Node] = frozenset()
    words: frozenset[str] = frozenset()
    unreadable: bool = False
    dynamic: bool = False
    databases: frozenset[str] = frozenset()
    alone: frozenset[Name] = frozenset()

    @property
    def raw(self) -> bool:
        """Whether any word of the text may be a name."""
        return bool(self.words) or self.unreadable

    def may_name(self, name: str) -> bool:
        """Whether `name` may be among the words: every part of it that is a word is one of them."""
        if self.unreadable and not name.isascii():
            return True
        return bool(self.words) and self.words.issuperset(_WORD.findall(lower(name)))

    def may_mean(self, database: str, name: str) -> bool:
        """Whether a table, or its database, may be among the words."""
        if self.raw and self.may_name(name):
            return True
        return bool(self.databases) and self.databases.issuperset(_WORD.findall(lower(database)))

    def mentions(self, table: str) -> bool:
        """Whether `table` (`database.table`) is mentioned in any use, or its database may be."""
        return self._may_use(table, USES)

    def may_write(self, table: str) -> bool:
        """Whether `table` (`database.table`) is mentioned as written, or its database may be."""
        return self._may_use(table, ("write",))

    def _may_use(self, table: str, uses: Iterable[Use]) -> bool:
        database, name = split(table)
        node = lower(database), lower(name)
        return any((use, *node) in self.nodes for use in uses) or self.may_mean(database, name)

    def meets(self, nodes: Iterable[Node]) -> bool:
        """Whether the name of one of `nodes` is among the words."""
        return self.raw and any(self.may_name(name) for _, _, name in nodes)

    def shares(self, other: Names) -> bool:
        """Whether a name of one text may be among the words of the other."""
        return (
            self.meets(other.nodes) or other.meets(self.nodes) or (self.raw and not self.words.isdisjoint(other.words))
        )


def lower(name: str) -> str:
    """Lower case, one character for one, as servers compare names of databases and tables."""
    return "".join(low if len(low := char.lower()) == 1 else char for char in name)


def is_dml(text: str) -> bool:
    """Whether the first word is that of a statement that changes rows, or calls something that may."""
    head = _HEAD.match(text)
    return head is not None and head[1].upper() in _DML


def dml_names(text: str, database: str, *, plain_quotes: bool) -> Names | None:
    """What a DML mentions; None where the text is no DML. `plain_quotes` as in `Query`."""
    if not plain_quotes and "\\" in text:
        return raw_names(text) if is_dml(text) else None
    shape = _shape(text) if plain_quotes else text
    return (_dml_names if len(shape) <= _CACHED else _dml_names.__wrapped__)(shape, database)


def raw_names(text: str, *, unreadable: bool = False) -> Names:
    """Every word of a text, wherever it is."""
    return Names(words=frozenset(map(lower, _WORD.findall(text))), unreadable=unreadable)


def body_names(text: str, database: str, *, plain_quotes: bool = True) -> Names:
    """What the body of a view, a trigger or a routine mentions; it writes nothing where no word for that is in it."""
    if not plain_quotes and "\\" in text:
        return raw_names(text)
    try:
        lexemes = tokens(text)
    except NotUnderstood:
        return raw_names(text)
    words = {_word(token) for token in lexemes}
    uses: tuple[Use, ...] = ("read", "write") if words & _WRITES else ("read",)
    nodes = {(use, *name) for use in uses for chain in _chains(lexemes) for name in chain.tables(database)}
    return Names(frozenset(nodes | _calls(lexemes, database)), dynamic=bool(words & _DYNAMIC))


def all_names(text: str, database: str, *, plain_quotes: bool) -> Names:
    """What a definition, or a statement that is not known, mentions: each name in every use.

    But for a routine in which no word for writing is: it reads and calls.
    """
    if not plain_quotes and "\\" in text:
        return _any_words(text)
    try:
        lexemes = tokens(text)
    except NotUnderstood:
        return _any_words(text)
    words = {_word(token) for token in lexemes}
    reads = not words.isdisjoint(_ROUTINES) and words.isdisjoint(_WRITES | _OTHERS)
    uses = USES[1:] if reads else USES
    nodes = frozenset((use, *name) for c in _chains(lexemes) for name in c.tables(database) for use in uses)
    alone = frozenset(word for c in _chains(lexemes) if len(c.names) == 1 for word in _WORD.findall(c.names[0]))
    return Names(nodes, dynamic=not words.isdisjoint(_DYNAMIC), databases=alone)


def _any_words(text: str) -> Names:
    names = raw_names(text)
    return replace(names, databases=names.words)


# ---------------------------------------------------------------- one statement


def _shape(text: str) -> str:
    """The statement without what its literals and comments hold, and with one row for many that are alike."""
    return _ROWS.sub(r"\1", _LITERAL.sub(lambda m: m[1] or ("''" if m[0][0] not in "/-#" else " "), text))


@lru_cache(maxsize=4096)
def _dml_names(text: str, database: str) -> Names | None:
    try:
        lexemes = tokens(text)
    except NotUnderstood:
        return raw_names(text) if is_dml(text) else None
    begin = _begin(lexemes)
    head = _word(lexemes[begin]) if begin < len(lexemes) else ""
    if head not in _DML:
        return None
    written, rest = _written(lexemes[begin:], head, database)
    nodes: set[Node] = {("write", *name) for name in written}
    before = lexemes[:begin]
    if any(_word(token) in _READS for token in (*before, *(t for t in rest if head != "LOAD" or _word(t) != "TABLE"))):
        nodes |= {("read", *name) for chain in _chains(rest) for name in chain.tables(database)}
        nodes |= {("read", *name) for chain in _chains(before) for name in chain.tables(database)}
    return Names(frozenset(nodes | _calls(rest, database) | _calls(before, database)))


def _begin(lexemes: Sequence[Token]) -> int:
    """Where the statement itself begins: after parentheses, and after MariaDB's SET STATEMENT ... FOR."""
    at = 0
    while at < len(lexemes) and lexemes[at] == Token("mark", "("):
        at += 1
    if [_word(token) for token in lexemes[at : at + 2]] != ["SET", "STATEMENT"]:
        return at
    return next((i + 1 for i in _outside(lexemes, at) if _word(lexemes[i]) == "FOR"), len(lexemes))


def _written(lexemes: Sequence[Token], head: str, database: str) -> tuple[list[Name], Sequence[Token]]:
    """The tables that may be written, and the tokens that hold all other names."""
    if head == "WITH":
        verbs = ("UPDATE", "DELETE", "SELECT", "INSERT", "REPLACE", "TABLE", "VALUES")
        at = next((i for i in _outside(lexemes, 1) if _word(lexemes[i]) in verbs), len(lexemes))
        if at == len(lexemes):
            return _all(lexemes, database), lexemes
        written, rest = _written(lexemes[at:], _word(lexemes[at]), database)
        return written, [*lexemes[:at], *rest]
    at = 1
    while at < len(lexemes) and _word(lexemes[at]) in _MODIFIERS:
        at += 1
    if head in ("SELECT", "DO", "TABLE", "VALUES", "CALL"):
        return [], lexemes
    if head in ("INSERT", "REPLACE"):
        at += at < len(lexemes) and _word(lexemes[at]) == "INTO"
        return _target(lexemes, at, database)
    if head == "LOAD":
        into = [i for i in _outside(lexemes, at) if _word(lexemes[i]) == "TABLE" and _word(lexemes[i - 1]) == "INTO"]
        return _target(lexemes, into[0] + 1, database) if into else (_all(lexemes, database), lexemes)
    if head == "DELETE":
        end = next((i for i in _outside(lexemes, at) if _word(lexemes[i]) in _AFTER_TABLES), len(lexemes))
        several = any(_word(token) in ("USING", "JOIN", "STRAIGHT_JOIN", ",", "(") for token in lexemes[at:end])
        single = at < len(lexemes) and _word(lexemes[at]) == "FROM" and not several
        return _target(lexemes, at + 1, database) if single else (_all(lexemes, database), lexemes)
    sets = next((i for i in _outside(lexemes, at) if _word(lexemes[i]) == "SET"), len(lexemes))
    several = any(_word(token) in (",", "(", "JOIN", "STRAIGHT_JOIN") for token in lexemes[at:sets])
    if sets == len(lexemes) or several:
        return _all(lexemes[at:sets], database), lexemes
    return _target(lexemes, at, database)


def _target(lexemes: Sequence[Token], at: int, database: str) -> tuple[list[Name], Sequence[Token]]:
    """The table at a place, and all other tokens; every name where none is there."""
    first = next(_chains(lexemes[at:]), None)
    if first is None or first.at != 0:
        return _all(lexemes, database), lexemes
    return [first.table(database)], [*lexemes[:at], *lexemes[at + first.size :]]


def _all(lexemes: Sequence[Token], database: str) -> list[Name]:
    return [name for chain in _chains(lexemes) for name in chain.tables(database)]


# ---------------------------------------------------------------- names among tokens


@dataclass(frozen=True)
class _Chain:
    """Names with dots between them: where they begin, how many tokens they take, and whether `(` follows.

    `quoted`: the last one is.
    """

    at: int
    size: int
    names: tuple[str, ...]
    called: bool
    quoted: bool

    def table(self, database: str) -> Name:
        """The table that it is, where nothing but a table may be."""
        return (self.names[0], self.names[1]) if len(self.names) > 1 else (lower(database), self.names[0])

    def tables(self, database: str) -> list[Name]:
        """The tables that it may mean, or whose column it may be."""
        own = (lower(database), self.names[0])
        return [own] if len(self.names) == 1 else [(self.names[0], self.names[1]), own]


def _chains(lexemes: Sequence[Token]) -> Iterator[_Chain]:
    at = 0
    while at < len(lexemes):
        names, begin = [], at
        while at < len(lexemes) and (name := _name(lexemes, at)):
            names.append(name)
            at += 1
            if at + 1 < len(lexemes) and lexemes[at].text == "." and _name(lexemes, at + 1):
                at += 1
                continue
            break
        if names:
            called = at < len(lexemes) and lexemes[at] == Token("mark", "(")
            yield _Chain(begin, at - begin, tuple(names), called, lexemes[at - 1].form != "word")
        else:
            at += 1


def _name(lexemes: Sequence[Token], at: int) -> str:
    """The name at a place in lower case; "" for what can be none: a mark, a literal, a number, a reserved word."""
    token = lexemes[at]
    if token.form == "quoted":
        return lower(token.text)
    if token.form == "string" and token.text[0] == '"':  # a name under ANSI_QUOTES
        return lower(token.text[1:-1].replace('""', '"'))
    dotted = at > 0 and lexemes[at - 1].text == "."
    if token.form != "word" or token.text.isdecimal() or (not dotted and token.text.upper() in RESERVED):
        return ""
    return lower(token.text)


def _calls(lexemes: Sequence[Token], database: str) -> set[Node]:
    """What may be a stored routine: a name in front of a parenthesis, and the one that CALL names."""
    nodes: set[Node] = set()
    for chain in _chains(lexemes):
        after_call = chain.at > 0 and _word(lexemes[chain.at - 1]) == "CALL"
        if not (chain.called or after_call):
            continue
        if len(chain.names) > 1:  # a routine of a database, or MariaDB's of a package
            nodes |= {("call", chain.names[0], chain.names[1]), ("call", lower(database), chain.names[0])}
        elif chain.quoted or after_call or chain.names[0].upper() not in BUILT_IN:
            nodes.add(("call", lower(database), chain.names[0]))
    return nodes


def _word(token: Token) -> str:
    """A word in upper case, or a mark; "" for anything quoted."""
    return token.text.upper() if token.form in ("word", "mark") else ""


def _outside(lexemes: Sequence[Token], at: int) -> Iterator[int]:
    """The places from `at` on that lie in no parentheses which open there."""
    depth = 0
    for i in range(at, len(lexemes)):
        word = _word(lexemes[i])
        depth += (word == "(") - (word == ")")
        if depth == 0 and word != ")":
            yield i
