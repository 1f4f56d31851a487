"""Which tables are captured: patterns on `database.table` (see `model.table_name`), with exclusions.

The answer depends on the name alone, not on the order of the patterns or on what else exists: an exclusion wins
wherever it is, so adding a pattern can never bring back what another one shuts out. MySQL's own schemas never
match, whatever the patterns say: their tables are not the user's data, and several are not in the binlog at all.

Nor does a glob match the tables that gh-ost and pt-online-schema-change work in, named as their sources name them: what
matters of them comes when one takes the place of the table that it is for. A pattern that spells such a name is meant.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.table_name import matches, split

_ONE_NAME = re.compile(r"`(?:[^`]|``)+`")
_REGULAR = re.compile(r"\\|^\^|\$$|[()|]|\.[.]?[+]|\.\.\*")
_SHADOW = re.compile(r"_+.+_(?:gho|ghc|del|new|old)", re.DOTALL)
SYSTEM_SCHEMAS = ("mysql", "sys", "information_schema", "performance_schema")


class Selection:
    """Patterns such as `shop.*`, `!shop.audit` and `` shop.`a.b` ``.

    Raises ConfigError for a pattern without a dot, and where no pattern selects anything (all are exclusions).
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        for pattern in self.patterns:
            database, dot, table = pattern.removeprefix("!").partition(".")
            if not (dot and database and table) or _ONE_NAME.fullmatch(pattern.removeprefix("!")):
                raise codes.SELECTION_INVALID.error(
                    f"'{pattern}' does not name tables",
                    where="source.tables",
                    hint=glob_hint(pattern)
                    or 'write database.table, such as "shop.orders", "shop.*" or "!shop.audit"; a name that holds a dot'
                    " is in backticks",
                )
        self._included = tuple(p for p in self.patterns if not p.startswith("!"))
        self._shut_out = tuple(p[1:] for p in self.patterns if p.startswith("!"))
        if not self._included:
            raise codes.SELECTION_INVALID.error(
                "no table is selected", where="source.tables", hint='name some, such as "shop.*"'
            )

    def matches(self, name: str) -> bool:
        """Whether the table `name` (`database.table`) is captured."""
        return self._is_meant(name) and (self.spells(name) or not is_shadow(name))

    def spells(self, name: str) -> bool:
        """Whether a pattern is that very name."""
        return name in self._included

    def passes_over(self, name: str) -> bool:
        """Whether the table `name` is left out for no other reason than that it is named as a tool's."""
        return self._is_meant(name) and not self.matches(name)

    def _is_meant(self, name: str) -> bool:
        return _any(name, self._included) and not any(matches(name, pattern) for pattern in self._shut_out)

    def shut_out(self, names: Iterable[str]) -> list[str]:
        """Those of `names` that would be captured without the exclusions."""
        return [name for name in names if _any(name, self._included) and not self.matches(name)]

    def unmatched(self, names: Iterable[str]) -> list[str]:
        """The patterns that match none of `names`: most likely misspelt.

        An exclusion may be of a table to come, so it is among them only where it looks like a regular expression.
        """
        known = list(names)
        regular = [pattern for pattern in self._shut_out if glob_hint(pattern)]
        included = [p for p in self._included if not any(_any(name, (p,)) for name in known)]
        return [*included, *(f"!{p}" for p in regular if not any(matches(name, p) for name in known))]


def nearest(pattern: str, names: Iterable[str]) -> str:
    """Of names that a pattern does not match, the one that was most likely meant; "" if none resembles it."""
    known = list(names)
    otherwise = [name for name in known if matches(name.lower(), pattern.lower())]
    return next(iter(otherwise or difflib.get_close_matches(pattern, known, n=1, cutoff=0.5)), "")


def glob_hint(pattern: str) -> str:
    """What to write in place of a regular expression where a glob is meant; "" for what looks like none."""
    regular = pattern.removeprefix("!")
    if not _REGULAR.search(regular):
        return ""
    glob = re.sub(r"\\(.)|\.[*+]", lambda m: m[1] or "*", regular.removeprefix("^").removesuffix("$"))
    glob = glob if "." in glob else f"{glob}.*"
    return f'patterns are globs, not regular expressions: write "{"!" if pattern != regular else ""}{glob}"'


def is_shadow(name: str) -> bool:
    """Whether `database.table` is named as tools for online schema changes name the tables that they work in."""
    return _SHADOW.fullmatch(split(name)[1]) is not None


def _any(name: str, patterns: Sequence[str]) -> bool:
    if split(name)[0].lower() in SYSTEM_SCHEMAS:
        return False
    return any(matches(name, p) for p in patterns)
