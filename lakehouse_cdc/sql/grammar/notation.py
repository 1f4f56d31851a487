"""The notation in which the grammar is written, and its reader.

A production is `name = alternatives`; lines that begin with a space continue it, `#` begins a comment.

    WORD        a keyword                       'x'         a mark, such as '('
    name        a production or a terminal      a b         one after the other
    a | b       the first that fits             ( a )       grouping
    [ a ]       may be left out                 a*  a+      any number, at least one
    a % ','     at least one, with commas       a@mariadb   only on these servers (`a@5.7,8.0`)

Alternatives are ordered and repetitions take as much as they can, without going back: the grammar is a parsing
expression grammar (Bryan Ford, "Parsing Expression Grammars", POPL 2004), so a text has one parse or none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

SERVERS = ("5.7", "8.0", "9", "10.11", "11.8")
ALL = frozenset(SERVERS)
GROUPS = {
    **{server: frozenset([server]) for server in SERVERS},
    "mysql": frozenset(SERVERS[:3]),
    "mysql8": frozenset(SERVERS[1:3]),
    "mariadb": frozenset(SERVERS[3:]),
}
FILES = ("statements", "tables", "columns")
_LEXEME = re.compile(r"\s*([A-Z][A-Z0-9_]*|[a-z][a-z_]*|'[^']+'|@[a-z0-9.,]+|[\[\]()|*+%])")


@dataclass(frozen=True)
class Word:
    """A keyword, in upper case."""

    text: str


@dataclass(frozen=True)
class Mark:
    """One character that is no letter."""

    text: str


@dataclass(frozen=True)
class Reference:
    """A production or a terminal by its name."""

    name: str


@dataclass(frozen=True)
class Sequence:
    """One after the other."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Choice:
    """The first that fits."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Repeated:
    """`least` times or more, perhaps with a mark between; at most once where `once`."""

    part: Expression
    least: int = 0
    separator: str = ""
    once: bool = False


@dataclass(frozen=True)
class Only:
    """A part that only some servers have."""

    part: Expression
    servers: frozenset[str]


Expression = Word | Mark | Reference | Sequence | Choice | Repeated | Only


class _Notation:
    """A cursor over the lexemes of one production's right side."""

    def __init__(self, text: str) -> None:
        self._rest: list[str] = []
        at = 0
        while text[at:].strip():
            match = _LEXEME.match(text, at)
            if match is None:
                raise ValueError(f"not the notation of a grammar: {text[at:]}")
            self._rest.append(match[1])
            at = match.end()
        self._rest.reverse()

    def choice(self) -> Expression:
        parts = [self._sequence()]
        while self._next("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def end(self) -> None:
        if self._rest:
            raise ValueError(f"not the notation of a grammar: {self._rest[-1]}")

    def _next(self, lexeme: str) -> bool:
        matches = bool(self._rest) and self._rest[-1] == lexeme
        if matches:
            self._rest.pop()
        return matches

    def _sequence(self) -> Expression:
        parts = []
        while self._rest and self._rest[-1] not in ("|", ")", "]"):
            parts.append(self._suffixed(self._atom()))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _atom(self) -> Expression:
        lexeme = self._rest.pop()
        if lexeme in ("(", "["):
            inside = self.choice()
            if self._rest.pop() != {"(": ")", "[": "]"}[lexeme]:
                raise ValueError("brackets that do not match")
            return inside if lexeme == "(" else Repeated(inside, once=True)
        if lexeme[0] == "'":
            return Mark(lexeme[1:-1])
        return Word(lexeme) if lexeme[0].isupper() else Reference(lexeme)

    def _suffixed(self, part: Expression) -> Expression:
        while self._rest:
            if self._next("*"):
                part = Repeated(part)
            elif self._next("+"):
                part = Repeated(part, least=1)
            elif self._next("%"):
                part = Repeated(part, least=1, separator=self._rest.pop()[1:-1])
            elif self._rest[-1][0] == "@":
                names = self._rest.pop()[1:].split(",")
                part = _only(part, frozenset().union(*(GROUPS[name] for name in names)))
            else:
                break
        return part


def _only(part: Expression, servers: frozenset[str]) -> Expression:
    """What may be left out is left out on the other servers."""
    if isinstance(part, Repeated) and part.least == 0:
        return replace(part, part=Only(part.part, servers))
    return Only(part, servers)


def _productions(text: str) -> Iterator[tuple[str, str]]:
    lines = [line.partition("#")[0].rstrip() for line in text.splitlines()]
    joined = re.sub(r"\n\s+", " ", "\n".join(line for line in lines if line))
    for line in filter(None, joined.splitlines()):
        name, equals, right = line.partition(" = ")
        if not equals:
            raise ValueError(f"not a production: {line}")
        yield name.strip(), right


def read(text: str) -> dict[str, Expression]:
    """The productions of a grammar's text, by name. Raises ValueError for what is not in the notation."""
    productions: dict[str, Expression] = {}
    for name, right in _productions(text):
        notation = _Notation(right)
        if name in productions:
            raise ValueError(f"two productions of {name}")
        productions[name] = notation.choice()
        notation.end()
    return productions


def heads(part: Expression, productions: Mapping[str, Expression]) -> frozenset[str] | None:
    """The words and marks that a text of `part` can begin with; None where it can begin otherwise, or be empty."""
    if isinstance(part, Word | Mark):
        return frozenset([part.text])
    if isinstance(part, Reference):
        return heads(productions[part.name], productions) if part.name in productions else None
    if isinstance(part, Only):
        return heads(part.part, productions)
    if isinstance(part, Repeated):
        return heads(part.part, productions) if part.least else None
    if isinstance(part, Choice):
        return _united(heads(one, productions) for one in part.parts)
    first, *others = part.parts
    if isinstance(first, Repeated) and not first.least and others:  # it may be left out
        return _united((heads(first.part, productions), heads(Sequence(tuple(others)), productions)))
    return heads(first, productions)


def _united(sets: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    union: frozenset[str] = frozenset()
    for one in sets:
        if one is None:
            return None
        union |= one
    return union


@cache
def grammar() -> dict[str, Expression]:
    """The grammar of the servers: every file of it that lies beside this module."""
    folder = Path(__file__).parent
    return read("\n".join((folder / f"{name}.grammar").read_text("utf-8") for name in FILES))


def shown(part: Expression) -> str:
    """An expression in the notation, without the servers that have it."""
    if isinstance(part, Word | Reference):
        return part.text if isinstance(part, Word) else part.name
    if isinstance(part, Mark):
        return f"'{part.text}'"
    if isinstance(part, Only):
        return shown(part.part)
    if isinstance(part, Sequence):
        return " ".join(f"( {shown(one)} )" if isinstance(_bare(one), Choice) else shown(one) for one in part.parts)
    if isinstance(part, Choice):
        return " | ".join(map(shown, part.parts))
    if part.once:
        return f"[ {shown(part.part)} ]"
    inner = shown(part.part)
    inner = inner if isinstance(_bare(part.part), Word | Reference | Mark) else f"( {inner} )"
    return f"{inner} % '{part.separator}'" if part.separator else inner + "*+"[part.least]


def _bare(part: Expression) -> Expression:
    return _bare(part.part) if isinstance(part, Only) else part
