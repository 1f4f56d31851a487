"""GTID sets as a partial order: containment only, never "greater".

Two sets that hold each other's gaps are incomparable, so there is no `<` here; code that needs "have we seen this"
asks `contains`. A set maps a source (a uuid, or `uuid:tag` from MySQL 8.3 on) to disjoint half-open intervals in
order. The text form is MySQL's own: `uuid:1-7:9:tag:1-3,uuid2:5`.

MariaDB has positions instead of sets: the last number of each domain and server, `0-1-99`. The source `0-1` then holds
the interval from 1 to 99, so that containment says what it should: a position has reached another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from lakehouse_cdc.errors import codes

Interval = tuple[int, int]  # half-open: [first, last + 1)
_UUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_MARIADB = re.compile(r"^(\d+-\d+)-(\d+)$")
_TAG = re.compile(r"^[a-z_][a-z0-9_]{0,31}$")
_RANGE = re.compile(r"^(\d+)(?:-(\d+))?$")


def is_mariadb(source: str) -> bool:
    """Whether a source of GTIDs is a domain and a server of MariaDB's, `0-1`."""
    return len(source) < 36


def gtid_text(source: str, number: int) -> str:
    """One GTID, as its server writes it."""
    return f"{source}{'-' if is_mariadb(source) else ':'}{number}"


def _merge(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Sorted, disjoint, non-adjacent. Neighbours join (1-7 and 8-9), a gap of one stays (1-7 and 9)."""
    out: list[Interval] = []
    for start, end in sorted(intervals):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return tuple(out)


def _without(spans: Iterable[Interval], others: Iterable[Interval]) -> list[Interval]:
    """What is in the first intervals and not in the second."""
    left = list(spans)
    for first, end in others:
        left = [part for a, b in left for part in ((a, min(b, first)), (max(a, end), b)) if part[0] < part[1]]
    return left


class GtidSet:
    """An immutable set of GTIDs.

    >>> str(GtidSet.parse("3E11FA47-71CA-11E1-9E33-C80AA9429562:1-7:9-10"))
    '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7:9-10'
    """

    __slots__ = ("_sources",)

    def __init__(self, sources: Mapping[str, Iterable[Interval]] | None = None) -> None:
        merged = {source: _merge(spans) for source, spans in (sources or {}).items()}
        self._sources = {source: merged[source] for source in sorted(merged) if merged[source]}

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """Read MySQL's text form, or MariaDB's; white space is ignored. Raises DefiniteError on anything else."""
        sources: dict[str, list[Interval]] = {}
        for part in filter(None, (p.strip() for p in "".join(text.split()).lower().split(","))):
            if mariadb := _MARIADB.match(part):
                sources.setdefault(mariadb[1], []).append((1, int(mariadb[2]) + 1))
                continue
            uuid, *fields = part.split(":")
            source = uuid
            if not _UUID.match(uuid) or not fields:
                raise codes.GTID_SET_INVALID.error(f"'{part[:80]}' is not a GTID set")
            for field in fields:
                span = _RANGE.match(field)
                if span:
                    first, last = int(span[1]), int(span[2] or span[1])
                    sources.setdefault(source, []).append((first, last + 1))
                elif _TAG.match(field):
                    source = f"{uuid}:{field}"
                else:
                    raise codes.GTID_SET_INVALID.error(f"'{part[:80]}' is not a GTID set")
        return cls(sources)

    @property
    def sources(self) -> Mapping[str, tuple[Interval, ...]]:
        """Each source's intervals."""
        return self._sources

    @property
    def single(self) -> tuple[str, int] | None:
        """Source and number of the only GTID, or, of MariaDB's, of a position in one domain; None for other sets."""
        if len(self._sources) != 1:
            return None
        source, spans = next(iter(self._sources.items()))
        if len(spans) == 1 and (is_mariadb(source) or spans[0][1] - spans[0][0] == 1):
            return source, spans[0][1] - 1
        return None

    def union(self, other: GtidSet) -> GtidSet:
        """All GTIDs of both."""
        names = self._sources.keys() | other._sources.keys()
        return GtidSet({n: self._sources.get(n, ()) + other._sources.get(n, ()) for n in names})

    def add(self, source: str, number: int) -> GtidSet:
        """This set and one GTID more."""
        return self.union(GtidSet({source: [(number, number + 1)]}))

    def minus(self, other: GtidSet) -> GtidSet:
        """The GTIDs of this set that `other` lacks. (Of MariaDB's, what a position is ahead of another one.)"""
        return GtidSet(
            {source: _without(spans, other._sources.get(source, ())) for source, spans in self._sources.items()}
        )

    def contains(self, other: GtidSet) -> bool:
        """True if every GTID of `other` is in this set."""
        return all(
            any(a <= start and end <= b for a, b in self._sources.get(source, ()))
            for source, spans in other._sources.items()
            for start, end in spans
        )

    def __bool__(self) -> bool:
        return bool(self._sources)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GtidSet) and self._sources == other._sources

    def __hash__(self) -> int:
        return hash(tuple(self._sources.items()))

    def __str__(self) -> str:
        def spans(intervals: Iterable[Interval]) -> str:
            return ":".join(f"{a}-{b - 1}" if b - a > 1 else str(a) for a, b in intervals)

        return ",".join(
            gtid_text(source, intervals[-1][1] - 1) if is_mariadb(source) else f"{source}:{spans(intervals)}"
            for source, intervals in self._sources.items()
        )

    def __repr__(self) -> str:
        return f"GtidSet.parse({str(self)!r})"
