"""MySQL's words: a statement's text as tokens, and a cursor over them.

The rules are the server's: `--` begins a comment only before white space, `/*! ... */` is code (the server blanks the
mark of a versioned comment that it did not execute before it logs the statement), a doubled quote stands for one, a
backslash escapes in strings but not in backticks. Text that breaks them raises `NotUnderstood`, never a guess.
(sqlglot's tokenizer takes executable comments for comments and the rest of a RENAME for one string, so it cannot
serve here.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass


class NotUnderstood(Exception):
    """The text left the grammar that is known here."""


_TOKEN = re.compile(
    r"""(?P<space>[\t-\r\ ]+|--(?=[\x00-\x20]|$)[^\n]*|\#[^\n]*|/\*(?!!).*?\*/|/\*!\d{0,6})
      |(?P<quoted>`(?:[^`]|``)*`)
      |(?P<double>"(?:[^"\\]|""|\\.)*")
      |(?P<string>'(?:[^'\\]|''|\\.)*')
      |(?P<word>[0-9A-Za-z_$\u0080-\u009f\u00a1-\U0010ffff]+)
      |(?P<mark>\*/|[^`"'])""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    form: str  # word, quoted, double, string or mark
    text: str  # without quotes

    def name(self) -> str:
        """As an identifier. Double quotes are one under ANSI_QUOTES; elsewhere they cannot stand where a name does."""
        if self.form not in ("word", "quoted", "double") or not self.text:
            raise NotUnderstood
        if self.form == "double" and "\\" in self.text:
            raise NotUnderstood  # an escape or two characters: that depends on the mode
        return self.text


def tokens(sql: str) -> list[Token]:
    """The tokens of `sql`, without white space, comments and the semicolons at the end. Raises NotUnderstood."""
    found: list[Token] = []
    at = executed = 0  # executed: how many /*! are open
    while at < len(sql):
        match = _TOKEN.match(sql, at)
        if match is None or match.lastgroup is None or (match[0] == "/" and sql.startswith("/*", at)):
            raise NotUnderstood  # an unterminated quote or comment
        form, text = match.lastgroup, match[0]
        at = match.end()
        if text == "*/" and executed:
            executed -= 1
        elif text == "*/":  # a product before a comment: 2*/* two */3
            found.append(Token("mark", "*"))
            at -= 1
        elif form == "space":
            executed += text.startswith("/*!")
        elif form in ("quoted", "double"):
            found.append(Token(form, text[1:-1].replace(text[0] * 2, text[0])))
        else:
            found.append(Token(form, text))
    if executed:
        raise NotUnderstood
    while found and found[-1] == Token("mark", ";"):
        found.pop()
    return found


class Reader:
    """A cursor over the tokens, with the few moves the grammar needs."""

    def __init__(self, tokens: list[Token], default: str, lower_case: bool) -> None:
        self.tokens = tokens
        self.at = 0
        self._default = default
        self._lower_case = lower_case

    def word(self, ahead: int = 0) -> str:
        """The keyword at the cursor in upper case; '' where there is none (quoted names are no keywords)."""
        at = self.at + ahead
        if at >= len(self.tokens) or self.tokens[at].form not in ("word", "mark"):
            return ""
        text = self.tokens[at].text
        return text.upper() if text.isascii() else ""  # outside ASCII no letter's upper case is a keyword's

    def skip(self, *words: str) -> bool:
        """Go past `words` if all of them stand here."""
        here = all(self.word(i) == word for i, word in enumerate(words))
        self.at += len(words) if here else 0
        return here

    def either(self, *phrases: str) -> bool:
        """Go past the first of `phrases` (words, with spaces between) that stands here."""
        return any(self.skip(*phrase.split()) for phrase in phrases)

    def part(self, begin: int, end: int) -> Reader:
        """A cursor of its own over some of the tokens."""
        return Reader(self.tokens[begin:end], self._default, self._lower_case)

    def expect(self, *words: str) -> None:
        if not self.skip(*words):
            raise NotUnderstood

    def identifier(self) -> str:
        if self.at >= len(self.tokens):
            raise NotUnderstood
        self.at += 1
        return self.tokens[self.at - 1].name()

    def database(self) -> str:
        return self._cased(self.identifier())

    def table(self) -> str:
        """`table`, `database.table` or `.table`."""
        first = "" if self.word() == "." else self.identifier()
        database, table = (first, self.identifier()) if self.skip(".") else ("", first)
        database = database or self._default
        if not database:
            raise NotUnderstood
        return self._cased(f"{database}.{table}")

    def _cased(self, name: str) -> str:
        """Lower case as the server's: one character for one, so not Python's full mapping."""
        if not self._lower_case:
            return name
        return "".join(low if len(low := char.lower()) == 1 else char for char in name)

    def end(self) -> None:
        if self.at < len(self.tokens):
            raise NotUnderstood

    def outside_parentheses(self) -> list[int]:
        """The indexes of the tokens from the cursor on that stand in no parentheses; a `;` there is not understood."""
        depth, found = 0, []
        for i in range(self.at, len(self.tokens)):
            token = self.tokens[i]
            if token.form == "mark" and token.text in "()":
                depth += 1 if token.text == "(" else -1
                if depth < 0:
                    raise NotUnderstood
            elif depth == 0:
                if token == Token("mark", ";"):
                    raise NotUnderstood
                found.append(i)
        if depth:
            raise NotUnderstood
        return found
