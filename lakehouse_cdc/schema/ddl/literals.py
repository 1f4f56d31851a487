"""Literals in DDL: numbers, strings, what stands in parentheses, defaults."""

from __future__ import annotations

import re

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


def value(reader: Reader) -> None:
    """Go past a default: an expression in parentheses, a function, or a literal with its sign or introducer."""
    if reader.word() == "(":
        return parentheses(reader)
    reader.either("-", "+")
    if reader.at >= len(reader.tokens):
        raise NotUnderstood
    token = reader.tokens[reader.at]
    reader.at += 1
    if token.form == "word" and reader.skip("."):  # 1.5
        reader.at += 1
    elif token.form == "word" and reader.at < len(reader.tokens) and reader.tokens[reader.at].form == "string":
        reader.at += 1  # _latin1'x', b'1', DATE '...'
    elif reader.word() == "(":
        parentheses(reader)
    elif token.form == "mark" and token.text == ".":  # .5
        reader.at += 1
    return None
