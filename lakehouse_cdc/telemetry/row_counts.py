"""How many rows a batch of silver holds: those of the commits of bronze that it covers, as a run has counted them.

Silver's batch is known only where all of its commits are: those of an earlier run's, or one that bronze has not
reported yet, make it None. A commit in between that is nobody's batch (an OPTIMIZE) adds no rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

Counts = Mapping[str, Mapping[str, int]]  # table -> op -> rows
UNKNOWN = 2**62


class RowCounts:
    """The counts of one run. `held`: the last commit with rows before it, `UNKNOWN` where nobody has looked."""

    def __init__(self, held: int = UNKNOWN) -> None:
        self._held = held
        self._counted: dict[int, Counts] = {}  # by commit of bronze, those that silver has not had yet
        self._since, self._last = -1, -1  # what has rows after the one and up to the other is counted

    def bronze(self, version: int, counts: Counts, *, keep: bool = True) -> None:
        """Bronze has committed these rows; they are kept for silver, if there is any."""
        if self._since < 0:
            self._since = min(version - 1, self._held)
        self._last = version
        if keep:
            self._counted[version] = counts

    def silver(self, after: int | None, last: int) -> Counts | None:
        """Those of the commits after `after` (None: from the first on) up to `last`; None where not all are known."""
        known = 0 <= self._since <= (after or 0) and last <= self._last
        parts = [counts for version, counts in self._counted.items() if (after or 0) < version <= last]
        self._counted = {version: counts for version, counts in self._counted.items() if version > last}
        return _sum(parts) if known else None


def _sum(parts: list[Counts]) -> Counts:
    """The counts of several commits, together."""
    counts: dict[str, Counter[str]] = {}
    for part in parts:
        for table, ops in part.items():
            counts.setdefault(table, Counter()).update(ops)
    return counts
