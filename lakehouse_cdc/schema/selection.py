"""Which tables are captured: globs over `database.table`, with exclusions.

The answer depends on the name alone, not on the order of the patterns or on what else exists: an exclusion wins
wherever it is, so adding a pattern can never bring back what another one shuts out. MySQL's own schemas never
match, whatever the patterns say: their tables are not the user's data, and several are not in the binlog at all.

Nor does a glob match the tables that gh-ost and pt-online-schema-change work in, named as their sources name them: what
matters of them comes when one takes the place of the table that it is for. A pattern that spells such a name is meant.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

from lakehouse_cdc.errors import codes

T = TypeVar("T")
_SHADOW = re.compile(r"_+.+_(?:gho|ghc|del|new|old)", re.DOTALL)
SYSTEM_SCHEMAS = ("mysql", "sys", "information_schema", "performance_schema")


class Selection:
    """Patterns such as `shop.*` and `!shop.audit` (`*`, `?`, `[abc]` as in fnmatch; case counts).

    Raises ConfigError for a pattern without a dot, and where no pattern selects anything (all are exclusions).
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        for pattern in self.patterns:
            database, dot, table = pattern.removeprefix("!").partition(".")
            if not (dot and database and table):
                raise codes.SELECTION_INVALID.error(
                    f"'{pattern}' does not name tables",
                    where="source.tables",
                    hint='write database.table, such as "shop.orders", "shop.*" or "!shop.audit"',
                )
        self._included = tuple(p for p in self.patterns if not p.startswith("!"))
        self._shut_out = tuple(p[1:] for p in self.patterns if p.startswith("!"))
        if not self._included:
            raise codes.SELECTION_INVALID.error(
                "no table is selected", where="source.tables", hint='name some, such as "shop.*"'
            )

    def matches(self, name: str) -> bool:
        """Whether the table `name` (`database.table`) is captured."""
        return self._is_meant(name) and (name in self._included or not is_shadow(name))

    def passes_over(self, name: str) -> bool:
        """Whether the table `name` is left out for no other reason than that it is named as a tool's."""
        return self._is_meant(name) and not self.matches(name)

    def _is_meant(self, name: str) -> bool:
        return _any(name, self._included) and not any(fnmatchcase(name, pattern) for pattern in self._shut_out)

    def unmatched(self, names: Iterable[str]) -> list[str]:
        """The patterns that match none of `names`, exclusions aside: most likely misspelt."""
        known = list(names)
        return [p for p in self._included if not any(_any(name, (p,)) for name in known)]


def nearest(pattern: str, names: Iterable[str]) -> str:
    """Of names that a pattern does not match, the one that was most likely meant; "" if none resembles it."""
    known = list(names)
    otherwise = [name for name in known if fnmatchcase(name.lower(), pattern.lower())]
    return next(iter(otherwise or difflib.get_close_matches(pattern, known, n=1, cutoff=0.5)), "")


def last_match(rules: Mapping[str, T], name: str) -> T | None:
    """What the last of the patterns that match the table `name` says of it; None where none does."""
    values = [what for pattern, what in rules.items() if fnmatchcase(name, pattern)]
    return values[-1] if values else None


def is_shadow(name: str) -> bool:
    """Whether `database.table` is named as tools for online schema changes name the tables that they work in."""
    return _SHADOW.fullmatch(name.partition(".")[2]) is not None


def _any(name: str, patterns: Sequence[str]) -> bool:
    if name.partition(".")[0].lower() in SYSTEM_SCHEMAS:
        return False
    return any(fnmatchcase(name, p) for p in patterns)
