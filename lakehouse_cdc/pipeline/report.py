"""What a run and a verification report: plain data for machines, numbers for people."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.table_state import TableState
from lakehouse_cdc.model.verification import Verification
from lakehouse_cdc.mysql.uncaptured import Uncaptured
from lakehouse_cdc.ops.verify_history import VerifyWatch
from lakehouse_cdc.telemetry.events import BRONZE, SILVER, Batch, Failed, Planned, Seen, SetAside, Verified
from lakehouse_cdc.telemetry.port import Telemetry

if TYPE_CHECKING:
    from lakehouse_cdc.bronze.sink import BronzeBatch
    from lakehouse_cdc.ops.metrics import Metrics
    from lakehouse_cdc.ops.source_watch import SourceWatch
    from lakehouse_cdc.ops.upkeep import Upkeep
    from lakehouse_cdc.silver.apply.stream import SilverBatch
    from lakehouse_cdc.verify.compare import TableResult

_log = logging.getLogger(__name__)
Layer = Literal["silver", "bronze"]


@dataclass(frozen=True)
class Progress:
    """One batch was committed: of bronze (`rows` counts its rows, by table and op) or of silver."""

    layer: str
    batch: int
    position: str
    commit_ts: int
    rows: dict[str, dict[str, int]]


class RunReport:
    """What one run did. `rows` counts the rows that bronze got: table -> op -> n."""

    def __init__(self, progress: Callable[[Progress], None] | None = None) -> None:
        self._progress = progress
        self.metrics: Metrics | None = None  # which gets each batch, too,
        self.upkeep: Upkeep | None = None  # and this each batch of bronze
        self.watch: SourceWatch | None = None  # which looks at the source between batches
        self.telemetry = Telemetry(())
        self.verifications: VerifyWatch | None = None  # by other processes
        self.rows: dict[str, Counter[str]] = {}
        self.batches: Counter[str] = Counter()
        self.source_point: dict[str, Any] | None = None
        self.interrupted = False
        self.restarts = 0
        self.texts: dict[str, int] = {}  # statements logged as text, since the checkpoint began
        self.quarantined: dict[str, str] = {}
        self.notices: list[str] = []  # what the start has done that a run does not do as a rule
        self._set_aside: Mapping[str, str] = {}  # by silver
        self.uncaptured = Uncaptured()

    def bronze(self, batch: BronzeBatch) -> None:
        """Bronze committed a batch."""
        if self.watch is not None:
            self.watch.moved(batch.source_point)
        if self.metrics is not None:
            self.metrics.bronze(batch)
        now, place = time.time(), batch.source_point
        self.telemetry.saw(Batch(BRONZE, batch.batch, batch.version, place, batch.seconds, now, batch.rows))
        if self.upkeep is not None:
            self.upkeep.after(batch.version)
        rows = {table: dict(ops) for table, ops in batch.rows.items()}
        for table, ops in rows.items():
            self.rows.setdefault(table, Counter()).update(ops)
        self.batches["bronze"] += 1
        self._tell(Progress("bronze", batch.batch, f"{place.file}:{place.pos}", place.commit_ts, rows))

    def silver(self, batch: SilverBatch) -> None:
        """Silver committed a batch."""
        if self.metrics is not None:
            self.metrics.silver(batch)
        now, place, version = time.time(), batch.source_point, batch.bronze_version
        self.telemetry.saw(Batch(SILVER, batch.batch, version, place, batch.seconds, now, after=batch.after))
        self.telemetry.saw(SetAside(frozenset(batch.quarantined)))
        self.batches["silver"] += 1
        self._set_aside = batch.quarantined
        rows: dict[str, dict[str, int]] = {table: {} for table in batch.tables}
        self._tell(Progress("silver", batch.batch, f"{place.file}:{place.pos}", place.commit_ts, rows))

    def tick(self) -> None:
        """Nothing has happened for a moment."""
        look = None if self.watch is None else self.watch.tick()
        if look is not None:
            self.telemetry.saw(Seen(look.at, look.point, look.sizes, look.headroom))
            if self.metrics is not None:
                self.metrics.looked(look)
        if self.metrics is not None:
            self.metrics.tick()
        for one in self.verifications.tick() if self.verifications is not None else ():
            self.telemetry.saw(Verified(one.layer, one.at, one.unequal, one.not_compared))

    def planned(self, offset: Offset) -> None:
        """Bronze is about to commit a batch that ends there."""
        self.telemetry.saw(Planned(offset))

    def restarted(self, error: CdcError) -> None:
        """The streams failed, and are started again within this run (see `restarts`)."""
        self.telemetry.saw(Failed(error.code.label))
        self.restarts += 1

    def leave_out(self, names: Uncaptured) -> None:
        """What matches and is not captured; what is new of it is logged."""
        for line in names.lines():
            if line not in self.uncaptured.lines():
                _log.warning("%s", line)
        self.uncaptured = names

    def end_at(self, offset: Offset) -> None:
        """Where the source is at the end."""
        place = offset.position
        uuid = offset.identity.server_uuid
        self.source_point = {"server_uuid": uuid, "file": place.file, "pos": place.pos, "gtid": offset.gtid_set}
        self.quarantined = {**self._set_aside, **offset.quarantined}
        self.texts = dict(zip(("passed_over", "read_again"), offset.texts, strict=True))

    def _tell(self, progress: Progress) -> None:
        if self._progress is not None:
            self._progress(progress)

    def to_json(self) -> dict[str, Any]:
        """`{"position": {...}, "tables": {"shop.orders": {"rows": n, "r": n, "c": n, ...}}, ...}`."""
        tables = {
            name: {"rows": sum(n for op, n in ops.items() if op != "s"), **dict(sorted(ops.items()))}
            for name, ops in sorted(self.rows.items())
        }
        return {
            "position": self.source_point,
            "tables": tables,
            "batches": dict(self.batches),
            "interrupted": self.interrupted,
            "restarts": self.restarts,
            "texts": self.texts,
            "quarantined": self.quarantined,
            "uncaptured": self.uncaptured.all,
            "notices": self.notices,
        }


@dataclass(frozen=True)
class VerifyReport:
    """The comparison of all tables of a layer (silver or bronze) at one position.

    Each of these says why, by table: `quarantined`, not followed; `failed`, could not be compared; `left_out`, has
    nothing to be compared with, by design, which is no failure.
    """

    position: Position
    gtid_set: str
    tables: tuple[TableResult, ...]
    quarantined: Mapping[str, str] = field(default_factory=dict)
    pending: tuple[str, ...] = ()  # tables that are being read again, as a whole or in part, for silver to repair
    states: Mapping[str, TableState] = field(default_factory=dict, repr=False)  # of the tables, there
    uncaptured: Uncaptured = field(default_factory=Uncaptured)  # what matches source.tables and is in no layer
    failed: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    layer: Layer = "silver"

    @property
    def verified(self) -> bool:
        """True if there was something to compare, all of it is equal, and none is quarantined, or failed."""
        return bool(self.tables) and all(t.equal for t in self.tables) and not self.quarantined and not self.failed

    @property
    def rows(self) -> int:
        """How many source rows were compared."""
        return sum(t.rows for t in self.tables)

    def verification(self, at: float, seconds: float) -> Verification:
        """What is kept of it: it took `seconds`, and ended `at` a time in seconds since 1970."""
        compared = {t.table: t.differing + sum(one.values for one in t.not_representable) for t in self.tables}
        differing = {**dict.fromkeys(self.failed), **compared}
        return Verification(at, self.layer, self.rows, seconds, differing, self.quarantined)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "verified": self.verified,
            "layer": self.layer,
            "rows_compared": self.rows,
            "position": {"file": self.position.file, "pos": self.position.pos, "gtid": self.gtid_set},
            "tables": {t.table: t.to_json() for t in self.tables},
            "quarantined": dict(self.quarantined),
            "uncaptured": self.uncaptured.all,
            "failed": dict(self.failed),
            "left_out": dict(self.left_out),
            "repair_pending": list(self.pending),
        }
