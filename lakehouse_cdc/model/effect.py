"""What a DDL does to a captured table, as far as it is followed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Effect:
    """All rows of the table went (`truncate`), some may have changed (`again`), or its schema did (`alter`).

    `again` means that the table must be read again. `change` names the stored change of the schema, where it is known.
    """

    kind: Literal["truncate", "again", "alter"]
    table: str
    change: str = ""

    def to_json(self) -> list[str]:
        """Plain data."""
        return [self.kind, self.table, *([self.change] if self.change else [])]
