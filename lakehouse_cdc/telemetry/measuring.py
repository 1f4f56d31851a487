"""What each event of a run makes of the metrics; pure.

Counters add up to what the batches did: each batch of bronze adds its rows, each of silver those of the commits that it
covers, and nothing is added twice: a batch that comes again, since a run had to start its streams again, ends where one
did that has been counted. So the sum of `rows` over ops is the number of rows that the run has committed, but
for schemas (op s), which are no rows of the source's.

The lag of a layer is `model.source_lag.lag` of the place that it has reached. Silver has no batch for a commit without
rows, so it is where bronze is as long as bronze has committed no rows after it.

Guards: tests/telemetry/test_measuring.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.model.commit_note import SourcePoint
from lakehouse_cdc.model.gtid import GtidSet, is_mariadb
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.source_lag import lag
from lakehouse_cdc.model.table_state import Waiting
from lakehouse_cdc.telemetry.declaration import (
    BATCHES,
    BINLOG_BYTES,
    BINLOG_FILE,
    BINLOG_POSITION,
    BUILD,
    CAUGHT_UP,
    DIFFERENCES,
    DURATION,
    HEADROOM,
    LAG,
    LAG_BYTES,
    LAST_BATCH,
    LAST_COMMIT,
    MOST_TABLES,
    NOT_VERIFIED,
    OTHERS,
    QUARANTINED,
    RETRIES,
    ROWS,
    SCHEMA_CHANGES,
    SNAPSHOT_TABLES,
    TABLE_DIFFERENCES,
    TABLE_QUARANTINED,
    TABLE_ROWS,
    TRANSACTIONS,
    UP,
    VERIFIED,
    Measurement,
)
from lakehouse_cdc.telemetry.events import (
    BRONZE,
    SILVER,
    Batch,
    Begun,
    Ended,
    Event,
    Failed,
    Planned,
    Seen,
    SetAside,
    Verified,
)
from lakehouse_cdc.telemetry.row_counts import RowCounts

_SCHEMA = "s"


class Measuring:
    """The measurements of one run. `of` is called for each event, in their order, by one thread at a time."""

    def __init__(self) -> None:
        self._counts = RowCounts()
        self._points: dict[str, SourcePoint] = {}
        self._caught_up: dict[str, float] = {}
        self._silver_version: int | None = None
        self._with_rows = -1  # the last commit of bronze's with rows
        self._sizes: Sequence[tuple[str, int]] = ()
        self._committed: dict[str, int] = {}  # by layer the last version that was counted
        self._planned_to = -1  # the seq up to which statements were
        self._named: dict[str, set[str]] = {}
        self._troubled: dict[tuple[str, ...], set[str]] = {}
        self._left: dict[str, frozenset[str]] = {BRONZE: frozenset(), SILVER: frozenset()}

    def of(self, event: Event) -> list[Measurement]:
        """What it makes of the metrics."""
        return [*self._measured(event)]

    def _measured(self, event: Event) -> Iterator[Measurement]:
        match event:
            case Batch():
                return self._batch(event)
            case Planned():
                return self._tables(event)
            case Seen():
                return self._seen(event)
            case SetAside():
                return self._quarantined(SILVER, event.tables)
            case Verified():
                return self._verified(event)
            case Failed():
                return iter([Measurement(RETRIES, 1, (event.error_type,))])
            case Begun():
                return self._begun(event)
            case Ended():
                return iter([Measurement(UP, 0)])

    def _begun(self, event: Begun) -> Iterator[Measurement]:
        for layer, (version, point) in event.points.items():
            self._points[layer] = point
            if layer == SILVER:
                self._silver_version = version
            yield from self._place(layer, point)
        if self._silver_version is not None and event.points[SILVER][1] != self._points.get(BRONZE):
            self._with_rows = self._silver_version + 1
        yield Measurement(UP, 1)
        yield Measurement(BUILD, 1, (event.version, event.spark))

    def _batch(self, event: Batch) -> Iterator[Measurement]:
        layer, point, rows = event.layer, event.point, event.rows
        if event.version <= self._committed.get(layer, -1):
            return
        self._committed[layer] = event.version
        if layer == BRONZE and rows is not None:
            self._counts.bronze(event.version, rows)
            if rows:
                self._with_rows = event.version
            yield from self._passed(self._points.get(BRONZE), point)
        elif layer == SILVER:
            rows = self._counts.silver(event.after, event.version)
            self._silver_version = event.version
        self._points[layer] = point
        yield Measurement(BATCHES, 1, (layer,))
        yield Measurement(DURATION, event.seconds, (layer,))
        yield Measurement(LAST_BATCH, event.at, (layer,))
        yield from self._place(layer, point)
        if point.time:
            since = max(point.time / 1e6, self._caught_up.get(layer, 0.0))
            yield Measurement(LAG, max(0.0, event.at - since), (layer,))
        ops: Counter[str] = Counter()
        for of_table in (rows or {}).values():
            ops.update(of_table)
        yield from (Measurement(ROWS, n, (layer, op)) for op, n in sorted(ops.items()) if op != _SCHEMA and n)
        if layer == BRONZE:
            for table, of_table in sorted((rows or {}).items()):
                if n := sum(n for op, n in of_table.items() if op != _SCHEMA):
                    yield Measurement(TABLE_ROWS, n, (self._name(TABLE_ROWS.name, table),))

    def _place(self, layer: str, point: SourcePoint) -> Iterator[Measurement]:
        if point.commit_ts:
            yield Measurement(LAST_COMMIT, point.commit_ts / 1e6, (layer,))
        if layer == BRONZE:
            try:
                yield Measurement(BINLOG_FILE, Position(point.file, point.pos).number)
            except CdcError:
                return
            yield Measurement(BINLOG_POSITION, point.pos)

    def _passed(self, before: SourcePoint | None, point: SourcePoint) -> Iterator[Measurement]:
        """What of the log is between two places of bronze's."""
        if before is None or (before.server_uuid, before.epoch) != (point.server_uuid, point.epoch):
            return
        if passed := _bytes_between(before, point, self._sizes):
            yield Measurement(BINLOG_BYTES, passed)
        if before.gtid != point.gtid and (transactions := _transactions(before.gtid, point.gtid)):
            yield Measurement(TRANSACTIONS, transactions)

    def _tables(self, event: Planned) -> Iterator[Measurement]:
        offset, states = event.offset, Counter[str](waiting=0, reading=0, done=0)
        for state in offset.captured.values():
            waits = isinstance(state.phase, Waiting) or not state.begun
            states["done" if state.complete else "waiting" if waits else "reading"] += 1
        yield from (Measurement(SNAPSHOT_TABLES, n, (state,)) for state, n in states.items())
        if offset.first_seq > self._planned_to:
            self._planned_to = offset.first_seq
            kinds = Counter(effect.kind for one in (*offset.between, offset) for effect in one.ddl)
            yield from (Measurement(SCHEMA_CHANGES, n, (kind,)) for kind, n in sorted(kinds.items()))
        yield from self._quarantined(BRONZE, frozenset(offset.quarantined))

    def _quarantined(self, layer: str, tables: frozenset[str]) -> Iterator[Measurement]:
        self._left[layer] = tables
        left = frozenset().union(*self._left.values())
        yield Measurement(QUARANTINED, len(left))
        for table, value in self._of_tables(TABLE_QUARANTINED.name, (), dict.fromkeys(left, 1)):
            yield Measurement(TABLE_QUARANTINED, min(value, 1), (table,))

    def _seen(self, event: Seen) -> Iterator[Measurement]:
        self._sizes = event.sizes
        seconds = event.headroom.seconds
        yield Measurement(HEADROOM, float("inf") if seconds is None else seconds)
        yield from self._lag(BRONZE, event.point, event)
        silver = self._points.get(SILVER)
        if silver is not None and self._silver_version is not None:
            yield from self._lag(SILVER, event.point if self._silver_version >= self._with_rows else silver, event)

    def _lag(self, layer: str, point: SourcePoint, event: Seen) -> Iterator[Measurement]:
        seen = lag(point, event.sizes, event.at, caught_up_at=self._caught_up.get(layer, 0.0))
        if seen.bytes == 0:
            self._caught_up[layer] = event.at
            yield Measurement(CAUGHT_UP, event.at, (layer,))
        yield Measurement(LAG, seen.seconds, (layer,))
        yield Measurement(LAG_BYTES, float("nan") if seen.bytes is None else seen.bytes, (layer,))

    def _verified(self, event: Verified) -> Iterator[Measurement]:
        yield Measurement(VERIFIED, event.at, (event.layer,))
        yield Measurement(DIFFERENCES, sum(event.differing.values()), (event.layer,))
        yield Measurement(NOT_VERIFIED, event.not_compared, (event.layer,))
        differing = {table: n for table, n in event.differing.items() if n}
        for table, n in self._of_tables(TABLE_DIFFERENCES.name, (event.layer,), differing):
            yield Measurement(TABLE_DIFFERENCES, n, (event.layer, table))

    def _of_tables(self, metric: str, labels: tuple[str, ...], values: Mapping[str, int]) -> Iterator[tuple[str, int]]:
        """The values of tables in trouble, and 0 of those that are no more."""
        named: Counter[str] = Counter()
        for table, value in sorted(values.items()):
            named[self._name(metric, table)] += value
        series = (metric, *labels)
        before = self._troubled.get(series, set())
        yield from ((table, named[table]) for table in sorted(before | named.keys()))
        self._troubled[series] = {*named}

    def _name(self, metric: str, table: str) -> str:
        """The table's name, as long as there are not too many of them."""
        named = self._named.setdefault(metric, set())
        if table not in named and len(named) >= MOST_TABLES:
            return OTHERS
        named.add(table)
        return table


def _bytes_between(before: SourcePoint, point: SourcePoint, sizes: Sequence[tuple[str, int]]) -> int:
    if before.file == point.file:
        return max(0, point.pos - before.pos)
    names = [name for name, _ in sizes]
    if before.file not in names:
        return point.pos
    first = names.index(before.file)
    last = names.index(point.file) if point.file in names else len(names)
    return max(0, sum(size for _, size in sizes[first:last]) - before.pos + point.pos)


def _transactions(before: str, after: str) -> int:
    """How many are in the one set and not in the other; MariaDB's positions do not count them."""
    try:
        new = GtidSet.parse(after).minus(GtidSet.parse(before))
    except CdcError:
        return 0
    spans = (span for source, spans in new.sources.items() if not is_mariadb(source) for span in spans)
    return sum(end - first for first, end in spans)
