"""What the judge says of a unit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Verdict(str, Enum):
    """What became of a unit. The first three are right; how many are read again or quarantined is counted."""

    FOLLOWED = "followed"
    READ_AGAIN = "read again"
    QUARANTINED = "quarantined"
    UNSEEN = "unseen"  # a table was quarantined by an earlier unit, or the stream had stopped
    STOPPED = "stopped"
    WRONG = "WRONG"


@dataclass(frozen=True)
class Finding:
    """The verdict on one unit, read `way` (live or backlog); `refused` is the server's own error, if it gave one."""

    way: str
    unit: tuple[str, ...]
    verdict: Verdict
    what: str = ""
    refused: str = ""

    @property
    def failed(self) -> bool:
        return self.verdict in (Verdict.STOPPED, Verdict.WRONG)

    def __str__(self) -> str:
        refused = f" (refused: {self.refused})" if self.refused else ""
        return f"{self.verdict.value} ({self.way}): {'; '.join(self.unit)}{refused}: {self.what}"
