"""What a table of tombstones says in short: which changes need no look at it."""

from __future__ import annotations

from dataclasses import dataclass

DELETE, BARRIER, HORIZON = "d", "b", "h"
BOUNDED = "op,applied_at"  # the columns of bare tombstones that Delta keeps statistics of (see `table_definition`)


@dataclass(frozen=True)
class Guards:
    """The greatest seqs among a table's tombstones: changes that are all later need no look at them."""

    delete: int = -1
    barrier: int = 0
    horizon: int = -1

    @classmethod
    def of(cls, seqs: dict[str, int]) -> Guards:
        """From the greatest seq of each op."""
        return cls(seqs.get(DELETE, -1), seqs.get(BARRIER, 0), seqs.get(HORIZON, -1))

    def joined(self, other: Guards) -> Guards:
        """The guards after those of a batch, or of a pruning, have been added."""
        return Guards(
            max(self.delete, other.delete), max(self.barrier, other.barrier), max(self.horizon, other.horizon)
        )
