"""The parser: it interprets the productions, and gives a tree of what fitted.

A tree has a node for each production and each terminal. Terminals are what the notation has no words for: names,
literals, and texts that are not looked into, such as expressions in parentheses.

Where the server is not known all of them are allowed at once. That is sound for a statement that some server executed:
the productions of different servers begin with different words, and a word is kept from being a name only where every
server that is allowed reserves it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from lakehouse_cdc.sql.grammar.notation import (
    ALL,
    Choice,
    Expression,
    Mark,
    Only,
    Reference,
    Repeated,
    Sequence,
    Word,
    grammar,
    heads,
)
from lakehouse_cdc.sql.grammar.reserved import reserved
from lakehouse_cdc.sql.lexer import NotUnderstood, Reader


@dataclass(frozen=True)
class Node:
    """What fitted one production or terminal: the tokens from `begin` to `end`.

    `words` are the keywords that the production itself has there, `parts` the nodes below it, in the text's order.
    """

    name: str
    begin: int
    end: int
    words: tuple[str, ...] = ()
    parts: tuple[Node, ...] = ()

    def all(self, *names: str) -> list[Node]:
        """The nodes right below of one of these names."""
        return [part for part in self.parts if part.name in names]

    def find(self, *names: str) -> Node | None:
        """The first of them, if there is one."""
        return next((part for part in self.parts if part.name in names), None)

    def the(self, *names: str) -> Node:
        """The first of them."""
        return next(part for part in self.parts if part.name in names)

    def says(self, *words: str) -> bool:
        """Whether all of these keywords are in the production itself."""
        return set(words) <= set(self.words)

    def walk(self) -> Iterator[Node]:
        """This node and all below it."""
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclass
class _Match:
    """What has fitted so far."""

    words: list[str] = field(default_factory=list)
    parts: list[Node] = field(default_factory=list)


def parse(reader: Reader, production: str, servers: frozenset[str] = ALL) -> Node | None:
    """The tree of `production` at the cursor, which goes past it; None where it does not fit, with the cursor there."""
    return _Parser(reader, servers).production(production)


@cache
def _heads() -> dict[int, frozenset[str]]:
    """What the alternatives and repeated parts of the grammar can begin with, by their identity: it lives as long.

    Most of the alternatives at a place begin with other words, and need not be tried.
    """
    productions = grammar()
    by_part = {}
    parts = list(productions.values())
    while parts:
        part = parts.pop()
        if isinstance(part, Choice | Sequence):
            parts.extend(part.parts)
        elif isinstance(part, Repeated | Only):
            parts.append(part.part)
        if (begins := heads(part, productions)) is not None:
            by_part[id(part)] = begins
    return by_part


class _Parser:
    def __init__(self, reader: Reader, servers: frozenset[str]) -> None:
        self._reader, self._servers = reader, servers
        self._productions = grammar()
        self._heads = _heads()
        self._reserved = reserved(servers)

    def production(self, name: str) -> Node | None:
        begin = self._reader.at
        terminal = TERMINALS.get(name)
        if terminal is not None:
            try:
                terminal(self._reader, self._reserved)
            except NotUnderstood:
                self._reader.at = begin
                return None
            return Node(name, begin, self._reader.at)
        match = _Match()
        if not self._fits(self._productions[name], match):
            self._reader.at = begin
            return None
        return Node(name, begin, self._reader.at, tuple(match.words), tuple(match.parts))

    def _fits(self, part: Expression, match: _Match) -> bool:
        """Whether it fits at the cursor, which goes past it then; the caller puts things back where it does not."""
        reader = self._reader
        if isinstance(part, Word):
            if not reader.skip(part.text):
                return False
            match.words.append(part.text)
            return True
        if isinstance(part, Mark):
            return reader.skip(part.text)
        if isinstance(part, Reference):
            node = self.production(part.name)
            if node is not None:
                match.parts.append(node)
            return node is not None
        if isinstance(part, Sequence):
            return all(self._fits(one, match) for one in part.parts)
        if isinstance(part, Choice):
            return any(self._tried(one, match) for one in part.parts)
        if isinstance(part, Only):
            return bool(part.servers & self._servers) and self._fits(part.part, match)
        return self._repeats(part, match)

    def _tried(self, part: Expression, match: _Match) -> bool:
        heads = self._heads.get(id(part))
        if heads is not None and self._reader.word() not in heads:
            return False
        at, words, parts = self._reader.at, len(match.words), len(match.parts)
        if self._fits(part, match):
            return True
        self._reader.at = at
        del match.words[words:], match.parts[parts:]
        return False

    def _repeats(self, part: Repeated, match: _Match) -> bool:
        count = 0
        while count == 0 or not part.once:
            separated = Sequence((Mark(part.separator), part.part)) if part.separator and count else part.part
            at = self._reader.at
            if not self._tried(separated, match) or self._reader.at == at:
                break
            count += 1
        return count >= part.least


def _identifier(reader: Reader, reserved: frozenset[str]) -> None:
    """A name; after a dot every word is one."""
    after_dot = reader.at > 0 and reader.word(-1) == "."
    if reader.word() in reserved and not after_dot:
        raise NotUnderstood
    reader.identifier()


def _table(reader: Reader, reserved: frozenset[str]) -> None:
    if reader.word() in reserved:
        raise NotUnderstood
    reader.table()


def _account(reader: Reader, _: frozenset[str]) -> None:
    """A name of a user or a host: a string or an identifier."""
    if reader.form() == "string":
        reader.taken()
    else:
        reader.identifier()


def _host(reader: Reader, _: frozenset[str]) -> None:
    """The host of an account, which may be unquoted: a.example."""
    _account(reader, _)
    while reader.skip(".") or reader.skip("-"):
        reader.identifier()


def _string(reader: Reader, _: frozenset[str]) -> None:
    """Strings one after the other are one."""
    if reader.form() != "string":
        raise NotUnderstood
    while reader.form() == "string":
        reader.at += 1


def _number(reader: Reader, _: frozenset[str]) -> None:
    if not reader.word()[:1].isdecimal() or not reader.word().isdecimal():
        raise NotUnderstood
    reader.at += 1


def _numeral(reader: Reader, _: frozenset[str]) -> None:
    """A number with a point or an exponent, or in base 2 or 16: 1.5, .5, 1e-3, 0x1F."""
    begin = reader.at
    if reader.word()[:1].isdecimal():
        exponent = reader.word().endswith("E") and not reader.word().startswith("0X")
        reader.at += 1
        if exponent and reader.word() in ("+", "-"):
            reader.at += 2
            return
    if reader.skip("."):
        fraction = reader.word()
        if fraction[:1].isdecimal():
            reader.at += 1
            if fraction.endswith("E") and reader.word() in ("+", "-"):
                reader.at += 2
    if reader.at == begin or (reader.at == begin + 1 and reader.word(-1) == "."):
        raise NotUnderstood


def _introduced(reader: Reader, _: frozenset[str]) -> None:
    """A string with a word before it that says what it is: _latin1'x', X'00', b'1', N'x', DATE '...'."""
    word = reader.word()
    if not (word[:1] == "_" or word in ("X", "B", "N", "DATE", "TIME", "TIMESTAMP")):
        raise NotUnderstood
    reader.at += 1
    if reader.form() != "string" and not (word[:1] == "_" and reader.word()[:2] in ("0X", "0B")):
        raise NotUnderstood
    reader.at += 1


def _parentheses(reader: Reader, _: frozenset[str]) -> None:
    """`( ... )`, with whatever is inside."""
    reader.expect("(")
    depth = 1
    while depth:
        token = reader.taken()
        if token.form == "mark":
            depth += {"(": 1, ")": -1}.get(token.text, 0)


def _rest(reader: Reader, _: frozenset[str]) -> None:
    """All that follows; it is not looked at."""
    reader.to_end()


def _body(reader: Reader, _: frozenset[str]) -> None:
    """All that follows, where its quotes and parentheses are whole and it is one statement."""
    reader.outside_parentheses()
    reader.to_end()


def _end(reader: Reader, _: frozenset[str]) -> None:
    reader.end()


def _setting(reader: Reader, _: frozenset[str]) -> None:
    """The value of a variable in SET STATEMENT: up to the comma or FOR after it."""
    begin = reader.at
    while reader.more() and reader.word() not in (",", "FOR"):
        if reader.word() == "(":
            _parentheses(reader, _)
        else:
            reader.taken()
    if reader.at == begin:
        raise NotUnderstood


TERMINALS: dict[str, Callable[[Reader, frozenset[str]], None]] = {
    "identifier": _identifier,
    "database": _identifier,
    "table": _table,
    "account": _account,
    "host": _host,
    "string": _string,
    "number": _number,
    "numeral": _numeral,
    "introduced": _introduced,
    "parentheses": _parentheses,
    "setting": _setting,
    "rest": _rest,
    "body": _body,
    "end": _end,
}
