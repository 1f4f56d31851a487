"""Whether a virtual generated column has one value, whichever session reads its row: a proof from its expression.

A virtual column is not stored. The server computes it for each statement, under the settings of that session: the image
in the binlog holds what the writer saw, a SELECT gives what the reader sees. These are one value where nothing in the
expression depends on a session. That is proven for a closed list of words and types:

- No TIMESTAMP (time_zone), and none of what text and numbers of dates depend on (sql_mode, lc_time_names); of such a
  column only whether it is NULL. No CHAR (PAD_CHAR_TO_FULL_LENGTH), and no FLOAT or DOUBLE.
- No `/` (div_precision_increment), no LIKE (NO_BACKSLASH_ESCAPES), no `-` of unsigned numbers
  (NO_UNSIGNED_SUBTRACTION).
- No comparison with a string whose character set is not said (collation_connection): 5.7 and MariaDB leave it out.

Every other word is a function that is not known to be safe. Settings: MySQL Reference Manual, "Server System
Variables" and "Server SQL Modes".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from lakehouse_cdc.schema.table import Column, Generated
from lakehouse_cdc.sql.lexer import NotUnderstood, Token, tokens

_COLUMN_TYPES = """
tinyint smallint mediumint int bigint decimal varchar tinytext text mediumtext longtext json varbinary tinyblob blob
mediumblob longblob
"""
_SAFE = """
case when then else end if ifnull nullif isnull coalesce is not null and or xor true false
json_extract json_unquote json_length json_valid json_quote
concat concat_ws lower upper lcase ucase substr substring left right trim ltrim rtrim both leading trailing from
char_length length octet_length replace hex unhex md5 sha sha1 sha2 crc32 abs sign div mod
cast as signed unsigned decimal char charset binary integer
"""
_TYPES, _WORDS = frozenset(_COLUMN_TYPES.split()), frozenset(_SAFE.split())
_COMPARING = frozenset(("in", "between", "nullif", "replace"))
_MARKS = frozenset("()+-*%,.=<>!&|^~")
_ESCAPED = re.compile(r"^[^']*\\'")  # MySQL 8 escapes what it shows once more


def same_everywhere(
    column: Column, expression: str, columns: Collection[Column], *, virtual: Mapping[str, bool]
) -> bool:
    """True only if an expression, as INFORMATION_SCHEMA shows it, gives every session the same value of a row.

    It is that of `column`. `columns` are those of its table; `virtual` says it of the virtual ones, by lower-case name.
    """
    if column.type not in _TYPES:
        return False  # what is made to fit another type may depend on the session as well
    text = re.sub(r"\\(.)", r"\1", expression) if _ESCAPED.match(expression) else expression
    try:
        lexemes = tokens(text)
    except NotUnderstood:
        return False
    by_name = {one.name.lower(): one for one in columns}
    used = [by_name.get(token.text.lower()) for token in lexemes if token.form == "quoted"]
    minus = any(token == Token("mark", "-") for token in lexemes)
    if any(one is None or (minus and one.unsigned) for one in used):
        return False
    if any(map(_without_introducer, lexemes, [None, *lexemes])) and any(map(_compares, lexemes)):
        return False
    return bool(lexemes) and all(_proven(lexemes, i, by_name, virtual) for i in range(len(lexemes)))


def generated_as(same: bool, *, virtual: bool, logged: bool) -> Generated:
    """What a column's `generated` is: `same` as `same_everywhere` has it; `logged`: the images of updates hold it."""
    if not logged:
        return "unlogged"
    if same:
        return "same"
    return "virtual" if virtual else "session"


def _proven(lexemes: list[Token], i: int, columns: Mapping[str, Column], virtual: Mapping[str, bool]) -> bool:
    token, text = lexemes[i], lexemes[i].text.lower()
    if token.form == "quoted":
        return _asks_for_null(lexemes, i) or (columns[text].type in _TYPES and virtual.get(text, True))
    if token.form == "word":
        return text in _WORDS or text[0] == "_" or re.fullmatch(r"[0-9]+|0x[0-9a-f]+|x", text) is not None
    return token.form == "string" or (token.form == "mark" and text in _MARKS)


def _asks_for_null(lexemes: list[Token], i: int) -> bool:
    """Whether nothing but `isnull(column)`, or `column IS [NOT] NULL`, is made of the column at `i`."""
    before = [token.text.lower() for token in lexemes[max(i - 2, 0) : i]]
    after = [token.text.lower() for token in lexemes[i + 1 : i + 4]]
    if before == ["isnull", "("] and after[:1] == [")"]:
        return True
    return after[:2] == ["is", "null"] or after[:3] == ["is", "not", "null"]


def _without_introducer(token: Token, before: Token | None) -> bool:
    """Whether it is a string of a character set that is not said."""
    introduced = before is not None and before.form == "word" and (before.text[0] == "_" or before.text.lower() == "x")
    return token.form == "string" and not introduced


def _compares(token: Token) -> bool:
    return token.text.lower() in _COMPARING if token.form == "word" else token.form == "mark" and token.text in "=<>"
