"""MySQL's words: a statement's text as tokens, and a cursor over them.

The rules are the server's: `--` begins a comment only before white space, `/*! ... */` is code, and so is MariaDB's
`/*M! ... */` (a server blanks the mark of a versioned comment that it did not execute before it logs the statement), a
doubled quote stands for one, a backslash escapes in strings but not in names. What double quotes and backslashes are
depends on the session's sql_mode, which the log has with each statement.

A text is read only as far as it is asked for: a statement whose first words settle what it is costs the same whatever
its length. Where the text breaks the rules there is a token of the form `broken`, and none after it: a caller that
needs to know what is there raises `NotUnderstood`.
(sqlglot's tokenizer takes executable comments for comments and the rest of a RENAME for one string, so it cannot
serve here.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from lakehouse_cdc.model.table_name import join

ANSI_QUOTES, ORACLE, MAXDB, NO_BACKSLASH_ESCAPES = 1 << 2, 1 << 9, 1 << 12, 1 << 20
UNDECODED = "\ufffd"  # stands for bytes that are no character


class NotUnderstood(Exception):
    """The text left the grammar that is known here."""


@dataclass(frozen=True)
class Dialect:
    """How the session's server reads a text. None where the mode, or which kind of server it is, is not known.

    `decoded`: every character is what the server read; else U+FFFD and escapes of bytes may stand for some.
    """

    sql_mode: int | None = 0
    mariadb: bool | None = None
    decoded: bool = True

    def has(self, modes: int) -> bool:
        """Whether the session is known to have one of these modes."""
        return bool((self.sql_mode or 0) & modes)

    @property
    def ansi_quotes(self) -> bool:
        """Whether double quotes are around names."""
        return self.has(ANSI_QUOTES)

    @property
    def escapes(self) -> bool:
        """Whether a backslash escapes in strings."""
        return not self.has(NO_BACKSLASH_ESCAPES)


PLAIN = Dialect()


@dataclass(frozen=True)
class Token:
    """`text` is as it is written, for `quoted` without quotes. `escapes`: backslashes escape in this string."""

    form: str  # word, quoted, string, mark, opaque (a name that is not certain) or broken
    text: str
    escapes: bool = True

    def name(self) -> str:
        """As an identifier. Raises NotUnderstood for what is none, or was not decoded."""
        if self.form not in ("word", "quoted") or not self.text or UNDECODED in self.text:
            raise NotUnderstood
        return self.text


@cache
def _pattern(dialect: Dialect) -> re.Pattern[str]:
    def between(quote: str, escapes: bool) -> str:
        if escapes:
            return rf"{quote}[^{quote}\\]*(?:(?:{quote}{quote}|\\.)[^{quote}\\]*)*{quote}"
        return rf"{quote}[^{quote}]*(?:{quote}{quote}[^{quote}]*)*{quote}"

    names, strings = [between("`", False)], [between("'", dialect.escapes)]
    if dialect.sql_mode is None:  # what double quotes and backslashes are is not certain: they match nothing
        strings = [r"'[^'\\]*(?:''[^'\\]*)*'(?!')"]
    elif dialect.ansi_quotes:
        names.append(between('"', False))
    else:
        strings.append(between('"', dialect.escapes))
    return re.compile(
        rf"""(?P<space>[\t-\r\ ]+|--(?=[\x00-\x20]|$)[^\n]*|\#[^\n]*|/\*(?!M?!).*?\*/)
          |(?P<code>/\*(?P<maria>M?)!(?:\d{{5,6}})?)
          |(?P<quoted>{"|".join(names)})
          |(?P<string>{"|".join(strings)})
          |(?P<word>[0-9A-Za-z_$\u0080-\u009f\u00a1-\U0010ffff]+)
          |(?P<mark>\*/|[^`"'])""",
        re.VERBOSE | re.DOTALL,
    )


def _token(form: str, text: str, dialect: Dialect) -> Token:
    if not dialect.decoded and "\\" in text:
        if form == "quoted":
            return Token("opaque", "")
        text = text[0] + UNDECODED + text[0] if form == "string" else text
    if form == "quoted":
        return Token(form, text[1:-1].replace(text[0] * 2, text[0]))
    return Token(form, text, dialect.escapes or form != "string")


def _scanned(sql: str, dialect: Dialect) -> Iterator[Token]:
    """The tokens one by one, with a broken one at the end of what can be read."""
    pattern = _pattern(dialect)
    at = executed = 0  # executed: how many comments of code are open
    while at < len(sql):
        match = pattern.match(sql, at)
        if match is None or match.lastgroup is None or (match[0] == "/" and sql.startswith("/*", at)):
            break  # an unterminated quote or comment
        form, text = "code" if match["code"] else match.lastgroup, match[0]
        at = match.end()
        if text == "*/" and executed:
            executed -= 1
        elif text == "*/":  # a product before a comment: 2*/* two */3
            yield Token("mark", "*")
            at -= 1
        elif form == "code" and (not match["maria"] or dialect.mariadb):
            executed += 1
        elif form == "code":
            end = sql.find("*/", at)
            if dialect.mariadb is None or end < 0:
                break  # code or a comment: that depends on the server
            at = end + 2
        elif form != "space":
            yield _token(form, text, dialect)
    if at < len(sql) or executed:
        yield Token("broken", "")


class Tokens:
    """The tokens of a text, without white space and comments, scanned as far as they are asked for."""

    def __init__(self, sql: str, dialect: Dialect = PLAIN) -> None:
        self._scan = _scanned(sql, dialect)
        self._scanned_tokens: list[Token] = []

    def at(self, index: int) -> Token | None:
        """The token of that number, None after the last one."""
        while len(self._scanned_tokens) <= index:
            token = next(self._scan, None)
            if token is None:
                return None
            self._scanned_tokens.append(token)
        return self._scanned_tokens[index] if index >= 0 else None

    def count(self) -> int:
        """How many there are: scans the whole text."""
        self._scanned_tokens.extend(self._scan)
        return len(self._scanned_tokens)


def tokens(sql: str, dialect: Dialect = PLAIN) -> list[Token]:
    """The tokens of `sql`, without white space, comments and the semicolons at the end. Raises NotUnderstood."""
    scanned = list(_scanned(sql, dialect))
    if scanned and scanned[-1].form == "broken":
        raise NotUnderstood
    while scanned and scanned[-1] == Token("mark", ";"):
        scanned.pop()
    return scanned


class Reader:
    """A cursor over the tokens, with the few moves the grammar needs."""

    def __init__(self, tokens: Tokens, default: str, lower_case: bool) -> None:
        self.tokens = tokens
        self.at = 0
        self._default = default
        self._lower_case = lower_case

    def word(self, ahead: int = 0) -> str:
        """The keyword at the cursor in upper case; '' where there is none (quoted names are no keywords)."""
        token = self.tokens.at(self.at + ahead)
        if token is None or token.form not in ("word", "mark"):
            return ""
        return token.text.upper() if token.text.isascii() else ""  # outside ASCII no upper case is a keyword's

    def form(self) -> str:
        """The form of the token at the cursor; '' after the last one."""
        token = self.tokens.at(self.at)
        return token.form if token is not None else ""

    def more(self) -> bool:
        """Whether something other than semicolons is at the cursor or after it."""
        at = self.at
        while (token := self.tokens.at(at)) == Token("mark", ";"):
            at += 1
        return token is not None

    def skip(self, *words: str) -> bool:
        """Go past `words` if all of them are here."""
        here = all(self.word(i) == word for i, word in enumerate(words))
        self.at += len(words) if here else 0
        return here

    def expect(self, *words: str) -> None:
        if not self.skip(*words):
            raise NotUnderstood

    def taken(self) -> Token:
        """The token at the cursor, which goes past it. Raises NotUnderstood where there is none."""
        token = self.tokens.at(self.at)
        if token is None or token.form == "broken":
            raise NotUnderstood
        self.at += 1
        return token

    def identifier(self) -> str:
        return self.taken().name()

    def database(self) -> str:
        return self._cased(self.identifier())

    def table(self) -> str:
        """`table`, `database.table` or `.table`."""
        first = "" if self.word() == "." else self.identifier()
        database, table = (first, self.identifier()) if self.skip(".") else ("", first)
        database = database or self._default
        if not database:
            raise NotUnderstood
        return self._cased(join(database, table))

    def _cased(self, name: str) -> str:
        """Lower case as the server's: one character for one, so not Python's full mapping."""
        if not self._lower_case:
            return name
        return "".join(low if len(low := char.lower()) == 1 else char for char in name)

    def end(self) -> None:
        if self.more():
            raise NotUnderstood

    def to_end(self) -> None:
        """Go past all that can be read, without reading it."""
        self.at = 1 << 62

    def outside_parentheses(self) -> list[int]:
        """The indexes of the tokens from the cursor on that are in no parentheses.

        Raises NotUnderstood for a semicolon there that is not at the end, and for a text that is broken.
        """
        depth, places, at = 0, list[int](), self.at
        while (token := self.tokens.at(at)) is not None:
            if token.form == "broken":
                raise NotUnderstood
            if token.form == "mark" and token.text in "()":
                depth += 1 if token.text == "(" else -1
                if depth < 0:
                    raise NotUnderstood
            elif depth == 0:
                if token.form == "mark" and token.text == ";":
                    here, self.at = self.at, at
                    self.end()
                    self.at = here
                    break
                places.append(at)
            at += 1
        if depth:
            raise NotUnderstood
        return places
