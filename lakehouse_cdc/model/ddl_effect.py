"""What a DDL does to a captured table, or to one that is to be captured, as far as it is followed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["create", "truncate", "again", "alter", "replace", "drop", "quarantine"]


@dataclass(frozen=True)
class Effect:
    """The table's rows went (`truncate`) or changed (`again`), its schema did (`alter`), or it is gone (`drop`).

    `again` means that the table must be read again. `replace`: its name stands for another table from there on; that
    becomes an `alter` where the other's schema is known, else a `drop`, and the table is found again later. What
    cannot be followed becomes a `quarantine`. `change` names the stored change of the schema, where it is known.
    `create`: there was no such table, now there is an empty one; `change` is the id of its schema, where it is known.
    """

    kind: Kind
    table: str
    change: str = ""

    def to_json(self) -> list[str]:
        """Plain data."""
        return [self.kind, self.table, *([self.change] if self.change else [])]
