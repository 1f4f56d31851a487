"""Literals in DDL: numbers, strings, what stands in parentheses, defaults."""

from __future__ import annotations

import re

from lakehouse_cdc.schema.ddl.fill import Literal
from lakehouse_cdc.schema.lexer import NotUnderstood, Reader

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "b": "\b", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def number(reader: Reader) -> int:
    """A whole number."""
    word = reader.word()
    if not re.fullmatch("[0-9]{1,10}", word):
        raise NotUnderstood
    reader.at += 1
    return int(word)


def text(reader: Reader) -> str:
    """A string, its quotes and escapes taken away."""
    token = reader.tokens[reader.at] if reader.at < len(reader.tokens) else None
    if token is None or token.form not in ("string", "double"):
        raise NotUnderstood
    reader.at += 1
    if token.form == "double":
        return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), token.text, flags=re.DOTALL)
    return re.sub(r"''|\\(.)", lambda m: _ESCAPES.get(m[1], m[1]) if m[1] else "'", token.text[1:-1], flags=re.DOTALL)


def parentheses(reader: Reader) -> None:
    """Go past `( ... )`."""
    reader.expect("(")
    depth = 1
    while depth:
        if reader.at >= len(reader.tokens):
            raise NotUnderstood
        depth += {"(": 1, ")": -1}.get(reader.word(), 0)
        reader.at += 1


def value(reader: Reader) -> Literal | None:
    """A default: a number, a string, TRUE or FALSE as they are written; None for anything else, which is gone past."""
    if reader.word() == "(":
        parentheses(reader)
        return None
    sign = "-" if reader.skip("-") else ""
    reader.skip("+")
    if reader.at >= len(reader.tokens):
        raise NotUnderstood
    token = reader.tokens[reader.at]
    if token.form in ("string", "double"):
        literal = Literal(text(reader), quoted=True)
        return None if sign else literal
    reader.at += 1
    found = {"TRUE": "1", "FALSE": "0"}.get(token.text.upper(), token.text)
    if token.form == "word" and reader.skip("."):  # 1.5
        found += f".{reader.word()}"
        reader.at += 1
    elif token.form == "word" and reader.at < len(reader.tokens) and reader.tokens[reader.at].form == "string":
        reader.at += 1  # _latin1'x', b'1', DATE '...'
        return None
    elif reader.word() == "(":
        parentheses(reader)
        return None
    elif token.form == "mark" and token.text == ".":  # .5
        reader.at += 1
    return Literal(sign + found, quoted=False) if re.fullmatch("[0-9]+([.][0-9]+)?", found) else None
