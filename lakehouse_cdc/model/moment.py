"""A moment of the source, as a person names it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakehouse_cdc.errors import codes


@dataclass(frozen=True)
class Moment:
    """What was asked for: exactly one of the three. `position` is FILE:POS in the newest epoch."""

    timestamp: datetime | str | None = None
    gtid: str | None = None
    position: str | None = None

    def __post_init__(self) -> None:
        if sum(one is not None for one in (self.timestamp, self.gtid, self.position)) != 1:
            raise codes.MOMENT_INVALID.error("ask for one moment: a timestamp, a gtid or a position")

    def __str__(self) -> str:
        return str(self.timestamp or self.gtid or self.position)
