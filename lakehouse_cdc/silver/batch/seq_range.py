"""The rows of bronze that lie between two changes of a schema, by their seqs."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_SEQ = pa.decimal128(38, 0)


@dataclass(frozen=True)
class SeqRange:
    """Seqs after `since` and before `until`, None: without an end."""

    since: int = -1
    until: int | None = None

    @property
    def whole(self) -> bool:
        """Whether every seq is in it."""
        return self.since < 0 and self.until is None

    def has(self, least: int, greatest: int | None = None) -> bool:
        """Whether all seqs from the one to the other are in it."""
        last = least if greatest is None else greatest
        return self.since < least and (self.until is None or last < self.until)

    def meets(self, least: int, greatest: int) -> bool:
        """Whether any of them can be."""
        return self.since < greatest and (self.until is None or least < self.until)

    def of(self, seqs: Any) -> Any:
        """Of an array of seqs, whether each is in it."""
        after = pc.greater(seqs, pa.scalar(Decimal(self.since), _SEQ))
        if self.until is None:
            return after
        return pc.and_(after, pc.less(seqs, pa.scalar(Decimal(self.until), _SEQ)))


EVERYTHING = SeqRange()
