"""What a change of a table's schema does to the rows that exist: the meaning, apart from any engine.

An `s` row of a change holds the schema before and after, and the origin of each column that was there before. A column
that has an origin keeps its values under its new name; one without begins as NULL, or as the constant that `filled` has
of it; one without a successor, or left out from now on, goes. A column whose type changes keeps its values as they are.
Where the source holds others (what a narrower type made of them) it reads the table again after the change, so nothing
is computed here.

A row is found by its key. Where the key gets other columns, rows are found by what they hold in these; a row that
holds nothing there yet cannot be found by anybody until the table was read again, and is under a name of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Migration:
    """One change. `origin` maps captured columns to the captured ones they were; `retyped` are those declared again."""

    origin: Mapping[str, str]
    added: frozenset[str]
    retyped: frozenset[str]
    old_key: tuple[str, ...]
    key: tuple[str, ...]
    filled: Mapping[str, Any]

    @classmethod
    def of(cls, before: Any, after: Any) -> Migration:
        """From the images of an `s` row: mappings, or the pairs of mappings (tests hold images as these)."""
        was = {c["name"]: c for c in map(dict, dict(before)["columns"]) if c["captured"]}
        now = {c["name"]: c for c in map(dict, dict(after)["columns"]) if c["captured"]}
        given = dict(dict(after)["origin"])
        origin = {name: given[name] for name in now if given.get(name) in was}
        return cls(
            origin,
            frozenset(now.keys() - origin.keys()),
            frozenset(name for name, old in origin.items() if {**was[old], "name": name} != now[name]),
            tuple(dict(before)["key"]),
            tuple(dict(after)["key"]),
            {name: _value(now[name]["type"], text) for name, text in dict(dict(after).get("filled", ())).items()},
        )

    @cached_property
    def rekeyed(self) -> bool:
        """True if rows are found by other columns, or by values that may have changed."""
        return tuple(self.origin.get(name) for name in self.key) != self.old_key or bool(self.retyped & {*self.key})

    def image(self, image: Any) -> Any:
        """The image under the new schema, in the form it came in."""
        held = dict(image)
        columns = [*self.origin, *self.added]
        migrated = {
            name: held.get(self.origin[name]) if name in self.origin else self.filled.get(name) for name in columns
        }
        return migrated if isinstance(image, Mapping) else tuple(sorted(migrated.items()))

    def row_key(self, key: Hashable, image: Any) -> Hashable:
        """The key of a row whose new image is `image`: its values in the key's order, or pairs with their names."""
        named = self._is_named(key)
        if not self.rekeyed and not named:
            return key
        values = [dict(image)[name] for name in self.key]
        if self.rekeyed and None in values:
            return ("not known", key)
        return tuple(sorted(zip(self.key, values, strict=True))) if named else tuple(values)

    def _is_named(self, key: Any) -> bool:
        pairs = isinstance(key, tuple) and all(isinstance(part, tuple) and len(part) == 2 for part in key)
        return pairs and {name for name, _ in key} == set(self.old_key)

    def renamed(self, columns: Iterable[str]) -> frozenset[str]:
        """What some of the old columns are called now."""
        old = set(columns)
        return frozenset(name for name, was in self.origin.items() if was in old)


def _value(kind: str, text: str) -> Any:
    """What images hold of a column of that type."""
    if kind.endswith("int"):
        return int(text)
    return Decimal(text) if kind == "decimal" else float(text) if kind in ("float", "double") else text
