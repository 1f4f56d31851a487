"""The parse tree of a statement together with its text: what names, strings and numbers its nodes stand for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakehouse_cdc.sql.ddl.defaults import Literal
from lakehouse_cdc.sql.grammar.parser import Node
from lakehouse_cdc.sql.lexer import UNDECODED, Dialect, NotUnderstood, Token, Tokens

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "b": "\b", "Z": "\x1a", "%": "\\%", "_": "\\_"}


@dataclass(frozen=True)
class Parsed:
    """The tokens that a tree's nodes point to, and how the session reads a text."""

    tokens: Tokens
    dialect: Dialect

    def written(self, node: Node) -> list[Token]:
        """The node's tokens."""
        tokens = [self.tokens.at(i) for i in range(node.begin, node.end)]
        return [token for token in tokens if token is not None]

    def name(self, node: Node) -> str:
        """The identifier at a node; the last one where it is qualified."""
        return self.written(node)[-1].name()

    def number(self, node: Node) -> int:
        """A whole number."""
        text = self.written(node)[0].text
        if not re.fullmatch("[0-9]{1,10}", text):
            raise NotUnderstood
        return int(text)

    def string(self, node: Node) -> str:
        """A string, or several that are one, without quotes and escapes. Raises NotUnderstood if it is not decoded."""
        text = "".join(unquoted(token) for token in self.written(node))
        if UNDECODED in text:
            raise NotUnderstood
        return text

    def word(self, node: Node) -> str:
        """A keyword, an identifier or a string, such as the name of a character set."""
        [token] = self.written(node)
        return unquoted(token) if token.form == "string" else token.name()

    def constant(self, node: Node) -> Literal | None:
        """A default that is a number, a string, TRUE or FALSE, as it is written; None for anything else."""
        if (string := node.find("string")) is not None:
            return Literal(self.string(string), quoted=True)
        if node.says("TRUE") or node.says("FALSE"):
            return Literal("1" if node.says("TRUE") else "0", quoted=False)
        text = "".join(token.text for token in self.written(node)).lstrip("+")
        return Literal(text, quoted=False) if re.fullmatch("-?[0-9]+([.][0-9]+)?", text) else None


def unquoted(token: Token) -> str:
    """What a string stands for."""
    quote, inside = token.text[0], token.text[1:-1]
    if not token.escapes:
        return inside.replace(quote * 2, quote)
    return re.sub(
        rf"{quote}{quote}|\\(.)",
        lambda match: quote if match[1] is None else _ESCAPES.get(match[1], match[1]),
        inside,
        flags=re.DOTALL,
    )
