"""The place in another server's log at which it holds just the transactions of an offset: there a stream continues.

**Terms.** H: the transactions up to the offset, which bronze holds. A log is a sequence of transactions, in files; each
file begins with the set of all that the server had logged before it. U: what the server has executed without logging
it (it was set up from a backup); nothing of it will ever be in the log. S(p): U, and all that is logged before p.

**Claim.** Where S(p) = H, the log after p holds each transaction that bronze lacks, once, and no other. A GTID names
one transaction, and a server logs it once; so what is after p is not in H, and what is not in H is after p.
The server's tables at p are what the transactions of H make in its own order, as the other server's were at the offset:
that they are the same state is what replication promises, and `verify` compares.

**Search.** The set that a file begins with only grows from file to file. So p can be in no file but the last one whose
set is within H: a later one begins with more than H, and an earlier one ends within it, where the next one begins. In
that file all transactions are passed that are in H, up to the first one that is not. If all of H has been passed then,
that is p, and it is the only place but for what has no transaction in between. Else no p exists, for S grows only:

- the oldest file begins with transactions that are not in H: they were purged, and bronze lacks them (`Purged`);
- a transaction that is not in H is logged before some that are (`OutOfOrder`): a replica that does not preserve the
  order of commits, or writes of its own on a replica. The rows of the two may be of one key, and then the order decides
  what the row is in the end. So this is never put right by leaving out what bronze has: it is refused.
- a transaction has no GTID (`Unnamed`): nothing says whether it is in H.

**MariaDB** numbers the transactions of a domain, and names the last one of each domain and server. By default a set is
compared server by server, as the text has it. With `gtid_strict_mode` the numbers of a domain only rise, whichever
server commits: then a GTID stands for all of its domain up to it. A server that was set up from a backup does not list
servers that committed before, and is as complete; so there, H is the last GTID of each domain (`Held.by_domain`).

Guards: tests/model/test_log_place.py compares with all places of random logs, tests/source/test_failover.py with real
servers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from lakehouse_cdc.model.gtid import GtidSet, Interval, gtid_text, is_mariadb
from lakehouse_cdc.model.position import Position


class Held:
    """The transactions of an offset; `by_domain`: of MariaDB's domains the last GTID each, all before which is held."""

    def __init__(self, gtids: GtidSet, *, by_domain: bool = False) -> None:
        self.gtids = gtids
        self._last = _last_of_domains(gtids) if by_domain else None

    def holds(self, source: str, number: int) -> bool:
        """Whether a transaction is one of them."""
        if self._last is not None:
            domain = domain_of(source)
            return domain in self._last and number <= self._last[domain][1]
        return any(first <= number < end for first, end in self.gtids.sources.get(source, ()))

    def holds_all(self, gtids: GtidSet) -> bool:
        """Whether all of a set are."""
        return not self.lacks(gtids)

    def lacks(self, gtids: GtidSet) -> GtidSet:
        """Those of a set that are none of them."""
        if self._last is None:
            return gtids.minus(self.gtids)
        beyond = {s: spans for s, spans in gtids.sources.items() if not self.holds(s, spans[-1][1] - 1)}
        return GtidSet(beyond)

    def beyond(self, gtids: GtidSet) -> GtidSet:
        """Those of them that are not in a set."""
        if self._last is None:
            return self.gtids.minus(gtids)
        others = _last_of_domains(gtids) or {}
        return GtidSet(
            {
                source: [(number, number + 1)]
                for domain, (source, number) in self._last.items()
                if not _reaches(gtids, source, number) and others.get(domain, ("", 0))[1] <= number
            }
        )


def domain_of(source: str) -> str:
    """The domain of one of MariaDB's sources."""
    return source.partition("-")[0]


def _last_of_domains(gtids: GtidSet) -> dict[str, tuple[str, int]] | None:
    """Source and number of each domain's last GTID; None where two have the same number, and neither is the last."""
    last: dict[str, tuple[str, int]] = {}
    for source, spans in gtids.sources.items():
        number, before = spans[-1][1] - 1, last.get(domain_of(source))
        if before is not None and before[1] == number:
            return None
        if before is None or before[1] < number:
            last[domain_of(source)] = source, number
    return last


def _reaches(gtids: GtidSet, source: str, number: int) -> bool:
    spans = gtids.sources.get(source, ())
    return bool(spans) and spans[-1][1] > number


class Logged(NamedTuple):
    """A transaction in a log: where it ends, and its GTID (source '' for none)."""

    end: Position
    source: str
    number: int


class LogFile(Protocol):
    """A file of a log."""

    def header(self) -> tuple[Position, GtidSet]:
        """Where its transactions begin, and all that was logged before."""

    def transactions(self) -> Iterable[Logged]:
        """Its transactions, in order."""


@dataclass(frozen=True)
class Place:
    """Where the log holds just H; `gtids` are the transactions up to there, as the server names them."""

    position: Position
    gtids: GtidSet


@dataclass(frozen=True)
class Purged:
    """The log begins after these transactions, which are not in H."""

    gtids: GtidSet


@dataclass(frozen=True)
class OutOfOrder:
    """`late`, of H, are not logged before `first`, which is not in H ('': the log ends without them)."""

    late: GtidSet
    first: str


@dataclass(frozen=True)
class Unnamed:
    """A transaction without a GTID ends there."""

    position: Position


def place_of(held: Held, files: Sequence[LogFile], unlogged: GtidSet) -> Place | Purged | OutOfOrder | Unnamed:
    """Where a log holds just `held`, or why there is no such place; `unlogged` is U.

    `files` are all of them, oldest first; few are read.
    """
    if missing := held.lacks(files[0].header()[1].union(unlogged)):
        return Purged(missing)
    file = files[_last_within(held, files)]
    position, before = file.header()
    passed = dict[str, list[Interval]]()
    first = ""
    for end, source, number in file.transactions():
        if not source:
            return Unnamed(end)
        if not held.holds(source, number):
            first = gtid_text(source, number)
            break
        spans = passed.setdefault(source, [])
        if spans and spans[-1][1] == number:
            spans[-1] = spans[-1][0], number + 1
        else:
            spans.append((number, number + 1))
        position = end
    reached = _joined(before.union(unlogged), passed)
    late = held.beyond(reached)
    return OutOfOrder(late, first) if late else Place(position, reached)


def _last_within(held: Held, files: Sequence[LogFile]) -> int:
    """The last file that begins with what is held; the first one does."""
    low, high = 1, len(files)
    while low < high:
        middle = (low + high) // 2
        if held.holds_all(files[middle].header()[1]):
            low = middle + 1
        else:
            high = middle
    return low - 1


def _joined(gtids: GtidSet, passed: Mapping[str, Sequence[Interval]]) -> GtidSet:
    """The set and what was passed; one of MariaDB's stands for all of its server before it, as in a set."""
    whole = {s: [(1, max(spans)[1])] if is_mariadb(s) else spans for s, spans in passed.items()}
    return gtids.union(GtidSet(whole))
