"""The full name of a source table, and the patterns that select tables by it: the one place that reads either.

A table is known by `database.table`: in offsets, in bronze, in settings and in messages. MySQL allows dots in both
parts, and `a.b`.`c` is another table than `a`.`b.c`. So where a part holds a dot, the parts that hold a dot or a
backtick are written in backticks, and a backtick inside is doubled, as in SQL. All other names are the two parts with
a dot between, as they always were: a name is of this kind exactly if it has one dot, so the two kinds never meet, and
`split(join(database, table)) == (database, table)`.

A pattern has the same two parts: each is a glob (`*`, `?`, `[abc]` as in fnmatch; case counts), or in backticks and
then read as it is. A glob is compared with the part of the name without backticks: `shop.*` has the table `a.b` too. A
pattern of another shape (`*`, `shop.a.b`) is a glob over both parts with a dot between. A full name is a pattern of its
own table.

Guards: tests/model/test_table_name.py, tests/source/test_dotted_names.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from glob import escape
from typing import TypeVar

T = TypeVar("T")
_QUOTED = r"`(?:[^`]|``)+`"
_NAME = re.compile(rf"({_QUOTED}|[^`.]+)\.({_QUOTED}|[^`.]+)")
_PATTERN = re.compile(rf"({_QUOTED}|[^`.][^.]*)\.({_QUOTED}|[^`.][^.]*)")


def join(database: str, table: str) -> str:
    """The full name of a table."""
    if "." not in database and "." not in table:
        return f"{database}.{table}"
    return f"{_written(database)}.{_written(table)}"


def split(name: str) -> tuple[str, str]:
    """The database and the table of a full name."""
    if name.count(".") > 1 and (parts := _NAME.fullmatch(name)):
        return _read(parts[1]), _read(parts[2])
    database, _, table = name.partition(".")
    return database, table


def matches(name: str, pattern: str) -> bool:
    """Whether the table with this full name is among those of a pattern."""
    parts = _parts(pattern)
    if name == pattern:
        return True
    if parts is None or (name.count(".") == 1 and not _is_quoted(*parts)):
        return fnmatchcase(".".join(split(name)), pattern)
    return all(
        one == _read(part) if _is_quoted(part) else fnmatchcase(one, part)
        for one, part in zip(split(name), parts, strict=True)
    )


def pattern_of(name: str) -> str:
    """The pattern of this one table."""
    parts = _NAME.fullmatch(name) if name.count(".") > 1 else None
    if parts is None and _is_quoted(*split(name)):  # the name itself has the backticks
        return ".".join(_in_backticks(part) if "`" in part else escape(part) for part in split(name))
    if parts is None:
        return escape(name)
    return ".".join(part if _is_quoted(part) else escape(part) for part in parts.groups())


def last_match(rules: Mapping[str, T] | Sequence[tuple[str, T]], name: str) -> T | None:
    """What the last of the patterns that match the table `name` says of it; None where none does."""
    pairs = [*rules.items()] if isinstance(rules, Mapping) else rules
    return next((what for pattern, what in reversed(pairs) if matches(name, pattern)), None)


@lru_cache(maxsize=4096)
def _parts(pattern: str) -> tuple[str, str] | None:
    parts = _PATTERN.fullmatch(pattern)
    return None if parts is None else (parts[1], parts[2])


def _is_quoted(*parts: str) -> bool:
    return any(re.fullmatch(_QUOTED, part) for part in parts)


def _written(part: str) -> str:
    return _in_backticks(part) if "." in part or "`" in part else part


def _in_backticks(part: str) -> str:
    return "`" + part.replace("`", "``") + "`"


def _read(part: str) -> str:
    return part[1:-1].replace("``", "`") if _is_quoted(part) else part
