"""What a report shows, as plain data, and how it is put into buckets of time; times in seconds since 1970."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

READ = "r"
OPS = {READ: "read", "c": "inserted", "u": "updated", "d": "deleted"}
_RESTS = 1_200.0  # rows of the layer `source` come every ten minutes: longer without any, nothing ran


@dataclass(frozen=True)
class Entry:
    """A row of `<bronze>.metrics`."""

    at: float
    layer: str
    place: tuple[int, str, int]  # epoch, file, byte
    seconds: float | None = None
    lag_seconds: float | None = None
    lag_bytes: int | None = None
    retention_seconds: float | None = None
    ops: Mapping[str, int] = field(default_factory=dict)
    tables: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TableLine:
    """A table now: `waiting`, `reading`, `done`, `dropped` or `quarantined`, and then why."""

    name: str
    state: str
    reason: str = ""


@dataclass(frozen=True)
class Ddl:
    """A statement that changed the schema of a table; `at` is when bronze had it, where that is known."""

    at: float | None
    table: str
    statement: str
    place: str


@dataclass(frozen=True)
class Check:
    """What `verify` found at a time: rows that differ, by table."""

    at: float
    layer: str
    verified: bool
    rows: int
    tables: int
    differing: Mapping[str, int]
    not_compared: int


@dataclass(frozen=True)
class History:
    """All of a report. `entries` are sorted by time; `notes` say what is missing, and why."""

    pipeline: str
    source: str
    version: str
    since: float
    until: float
    position: str = ""
    entries: Sequence[Entry] = ()
    tables: Sequence[TableLine] = ()
    ddl: Sequence[Ddl] = ()
    checks: Sequence[Check] = ()
    last_error: str = ""
    notes: Sequence[str] = ()

    @property
    def rows(self) -> Counter[str]:
        """Rows that bronze got, by op."""
        return _sum(entry.ops for entry in self.entries if entry.layer == "bronze")

    @property
    def rows_of_tables(self) -> Counter[str]:
        """The same by table."""
        return _sum(entry.tables for entry in self.entries if entry.layer == "bronze")

    @property
    def troubles(self) -> list[str]:
        """What needs somebody, a sentence each."""
        left = sum(table.state == "quarantined" for table in self.tables)
        troubles = [f"the last run ended by an error: {self.last_error}"] if self.last_error else []
        troubles += [f"{left} table{'s are' if left != 1 else ' is'} quarantined"] if left else []
        for layer in ("silver", "bronze"):
            if (last := self.last_check(layer)) is not None and not last.verified:
                differ = sum(last.differing.values())
                what = f"{layer} differs from the source in {differ:,} rows" if differ else f"{layer} is not all equal"
                troubles.append(f"by the last verify, {what}")
        return troubles

    def last_check(self, layer: str) -> Check | None:
        """The newest of a layer."""
        return max((one for one in self.checks if one.layer == layer), key=lambda one: one.at, default=None)

    def last(self, layers: Sequence[str], value: Callable[[Entry], float | None]) -> float | None:
        """The newest value that there is."""
        values = (value(entry) for entry in reversed(self.entries) if entry.layer in layers)
        return next((one for one in values if one is not None), None)


def _sum(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return total


@dataclass(frozen=True)
class Buckets:
    """Equal parts of a time, `count` of them, from `since` to `until`."""

    since: float
    until: float
    count: int

    @property
    def seconds(self) -> float:
        """How long one is."""
        return max(self.until - self.since, 1.0) / self.count

    @property
    def spans(self) -> list[tuple[float, float]]:
        """From when to when each is."""
        return [(self.since + i * self.seconds, self.since + (i + 1) * self.seconds) for i in range(self.count)]

    def index(self, at: float) -> int:
        """Which one a time is in; those outside are put into the first and the last."""
        return min(max(int((at - self.since) / self.seconds), 0), self.count - 1)

    def middle(self, index: int) -> float:
        """The time in the middle of one."""
        return self.since + (index + 0.5) * self.seconds

    def greatest(self, values: Iterable[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
        """The greatest value of each bucket, as lines that end where nothing ran."""
        most: dict[int, float] = {}
        for at, value in values:
            if value is not None:
                index = self.index(at)
                most[index] = max(value, most.get(index, value))
        lines: list[list[tuple[float, float]]] = []
        for index, value in sorted(most.items()):
            at = self.middle(index)
            if not lines or at - lines[-1][-1][0] > max(_RESTS, 2.5 * self.seconds):
                lines.append([])
            lines[-1].append((at, value))
        return lines

    def rates(self, counts: Iterable[tuple[float, Mapping[str, int]]], names: Sequence[str]) -> list[list[float]]:
        """For each bucket the counts a second, in the order of `names`."""
        sums = [[0.0] * len(names) for _ in range(self.count)]
        for at, of in counts:
            bucket = sums[self.index(at)]
            for i, name in enumerate(names):
                bucket[i] += of.get(name, 0) / self.seconds
        return sums
