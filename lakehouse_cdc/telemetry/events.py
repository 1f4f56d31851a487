"""What happens in a run, as far as it is measured; pure data, times in seconds since 1970."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakehouse_cdc.model.commit_note import SourcePoint
from lakehouse_cdc.model.log_retention import Headroom
from lakehouse_cdc.model.offset import Offset

Counts = Mapping[str, Mapping[str, int]]  # table -> op -> rows
BRONZE, SILVER = "bronze", "silver"


@dataclass(frozen=True)
class Begun:
    """The streams begin, by software of these versions; `points` are where layers are, with bronze's version there."""

    version: str
    spark: str
    points: Mapping[str, tuple[int, SourcePoint]] = field(default_factory=dict)


@dataclass(frozen=True)
class Batch:
    """A layer has committed a batch; `version` is the last commit of bronze's in it, `after` the one before the first.

    `rows` are None of silver: they follow from bronze's.
    """

    layer: str
    batch: int
    version: int
    point: SourcePoint
    seconds: float
    at: float
    rows: Counts | None = None
    after: int | None = None


@dataclass(frozen=True)
class Planned:
    """The end of the batch of bronze's that is being committed."""

    offset: Offset


@dataclass(frozen=True)
class Seen:
    """The source's log was looked at, when bronze was at `point`: its files with their sizes, oldest first."""

    at: float
    point: SourcePoint
    sizes: Sequence[tuple[str, int]]
    headroom: Headroom


@dataclass(frozen=True)
class SetAside:
    """The tables that silver does not follow, and bronze does."""

    tables: frozenset[str]


@dataclass(frozen=True)
class Failed:
    """The streams failed, and are started again: the code of the error."""

    error_type: str


@dataclass(frozen=True)
class Verified:
    """A layer was compared with the source: the rows that differ, by table, and how many tables were not compared."""

    layer: str
    at: float
    differing: Mapping[str, int]
    not_compared: int = 0


@dataclass(frozen=True)
class Ended:
    """The streams have ended."""


Event = Begun | Batch | Planned | Seen | SetAside | Failed | Verified | Ended
