"""What a DDL does to a captured table, as far as it is followed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Effect:
    """All rows of the table went (`truncate`), or some may have changed (`again`: it must be read again)."""

    kind: Literal["truncate", "again"]
    table: str
