"""A statement's text without the constants in it, which may be values of masked columns.

A default is in every row that was there before its column, and a condition or a label may be somebody's name. What
is left says which tables and columns the statement was about. Numbers other than defaults stay: they are lengths.
"""

from __future__ import annotations

import re

_PART = re.compile(
    r"""(?P<comment>--(?=[\x00-\x20]|$)[^\n]*|\#[^\n]*|/\*(?!!).*?\*/)
      |(?P<name>`(?:[^`]|``)*`)
      |(?P<string>[xXbBnN]?'(?:[^']|'')*'|"(?:[^"]|"")*")
      |(?P<default>\bDEFAULT\b[\s(+-]*)(?P<number>[0-9][0-9A-Za-z_.]*)
      |(?P<quote>[`'"])""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
WITHHELD = "..."


def without_constants(sql: str) -> str:
    """`sql` with `...` for each string and each number that is a default, and without comments.

    From a quote on of which it is not certain where it ends, nothing is shown.
    """
    if "\\" in sql:  # what it escapes depends on the session's mode
        sql = re.split("[`'\"]", sql, maxsplit=1)[0] + "'"
    shown, at = [], 0
    for match in _PART.finditer(sql):
        shown.append(sql[at : match.start()])
        at = match.end()
        if match["quote"]:
            return "".join([*shown, WITHHELD])
        if match["name"]:
            shown.append(match[0])
        elif match["string"]:
            shown.append(f"'{WITHHELD}'")
        elif match["default"]:
            shown.append(match["default"] + WITHHELD)
    return "".join([*shown, sql[at:]])
