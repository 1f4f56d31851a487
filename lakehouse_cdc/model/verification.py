"""What a comparison of a layer with its source came to, as it is kept for those who watch a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Verification:
    """One comparison of silver or of bronze, `at` a time in seconds since 1970; `rows` were compared in `seconds`.

    `differing` are the rows that are not equal, by table: 0 where all are, None where the table could not be compared.
    `quarantined` are the tables that are not followed, with the reasons.
    """

    at: float
    layer: str
    rows: int
    seconds: float
    differing: Mapping[str, int | None] = field(default_factory=dict)
    quarantined: Mapping[str, str] = field(default_factory=dict)

    @property
    def tables(self) -> int:
        """How many tables were compared."""
        return len(self.differing) - self.not_compared

    @property
    def not_compared(self) -> int:
        """How many could not be."""
        return sum(rows is None for rows in self.differing.values())

    @property
    def unequal(self) -> dict[str, int]:
        """The tables with rows that are not equal, with how many."""
        return {table: rows for table, rows in self.differing.items() if rows}

    @property
    def verified(self) -> bool:
        """Whether something was compared, all of it was equal, and no table is left over."""
        return bool(self.differing) and not (self.unequal or self.not_compared or self.quarantined)
