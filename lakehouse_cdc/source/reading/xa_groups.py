"""The rows of XA transactions, read where they were prepared and stamped with where they took effect.

Where XA is used at all, most transactions are of that kind, and their groups lie close together. So groups that are
neighbours share one dump; what is between them is passed by event headers alone, and each group has a scanner of
its own. That also keeps what lies outside of the stretch that is read, DDL of other times above all, out of sight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.images.binlog.words import FORMAT
from lakehouse_cdc.model.offset import Identity
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.xa import Prepared
from lakehouse_cdc.mysql.binlog.boundary import Cutter
from lakehouse_cdc.mysql.binlog.checksums import Checksums
from lakehouse_cdc.mysql.binlog.dump import BinlogDump
from lakehouse_cdc.mysql.binlog.scan import COMMITTED, LoggedStatement, Scan
from lakehouse_cdc.mysql.binlog.scanner import BinlogScanner
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.source.bronze_rows import shared
from lakehouse_cdc.source.identity import connect_to
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.reading.log_batch import Decoder, LogPart

_NEAR = 4 << 20  # bytes that are passed sooner than a dump is opened
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Commit:
    """An XA COMMIT that ends `at`, and the group (begin, end] that it makes true; no `xid` where both are one."""

    xid: str
    begin: Position
    end: Position
    at: Position
    gtid: str
    commit_us: int


@dataclass(frozen=True)
class PreparedPart(LogPart):
    """A part of a group that was prepared, seen from where it was committed."""

    commit: Commit

    @property
    def statements(self) -> list[LoggedStatement]:
        return []  # what is in the group is no DDL

    def end_positions(self) -> npt.NDArray[np.int64]:
        return np.full(self.changes.n, self.commit.at.pos, np.int64)

    def files(self) -> list[str]:
        return [self.commit.at.file] * self.changes.n

    def commit_us(self) -> npt.NDArray[np.int64]:
        return np.full(self.changes.n, self.commit.commit_us, np.int64)

    def gtids(self) -> pa.Array:
        return shared(self.commit.gtid or None, self.changes.n)


class Commits:
    """Takes the rows of XA transactions out of the scans of a stretch, and notes (`commits`) which take effect in it.

    `prepared` are those that are open where it begins. A commit of one that is not known is passed over: it can only
    are after W, and the planner does not continue past it.
    """

    def __init__(self, prepared: Sequence[Prepared]) -> None:
        self._open = {p.xid: (p.begin, p.end, p.rows) for p in prepared}
        self.commits: list[Commit] = []

    def without_xa(self, scan: Scan) -> Scan:
        """A scan without rows of XA transactions."""
        txns = scan.transactions
        for i in np.flatnonzero(txns.xa & (txns.outcome == COMMITTED) & (txns.events > 0)).tolist():
            self._note(scan, i, "", _place(scan, i, txns.begin), _place(scan, i, txns.end))
        for decision in scan.decisions:
            i = decision.transaction
            if decision.kind == "prepare":
                group = _place(scan, i, txns.begin), _place(scan, i, txns.end), int(txns.events[i])
                self._open[decision.xid] = group
                continue
            begin, end, rows = self._open.pop(decision.xid, (None, None, 0))
            if decision.kind == "commit" and begin is not None and end is not None and rows:
                self._note(scan, i, decision.xid, begin, end)
        kept = ~txns.xa[scan.rows.txn]
        return scan if kept.all() else replace(scan, rows=scan.rows.where(kept), row_end=scan.row_end[kept])

    def _note(self, scan: Scan, i: int, xid: str, begin: Position, end: Position) -> None:
        at, commit_us = _place(scan, i, scan.transactions.end), int(scan.transactions.commit_us[i])
        self.commits.append(Commit(xid, begin, end, at, scan.gtid(i), commit_us))


def _place(scan: Scan, transaction: int, at: npt.NDArray[np.int64]) -> Position:
    return Position(scan.files[scan.transactions.file[transaction]], int(at[transaction]))


def neighbours(commits: Sequence[Commit]) -> list[list[Commit]]:
    """The commits in lists, each of groups in one file that lie near to each other, in the file's order."""
    groups: list[list[Commit]] = []
    for commit in sorted(commits, key=lambda one: one.begin):
        last = groups[-1][-1] if groups else None
        if last is not None and last.end.file == commit.begin.file and commit.begin.pos - last.end.pos <= _NEAR:
            groups[-1].append(commit)
        else:
            groups.append([commit])
    return groups


def read_groups(
    commits: Sequence[Commit],
    options: SourceOptions,
    schemas: Mapping[str, TableSchema],
    identity: Identity,
    server_id: int,
) -> Iterator[LogPart]:
    """The rows of the commits' groups; all of one come one after the other. Raises as `LogReader` does."""
    for near in neighbours(commits):
        with ExitStack() as stack:
            session = stack.enter_context(connect_to(options, identity))
            dump = stack.enter_context(BinlogDump(session.connection, near[0].begin, server_id=server_id))
            yield from _read(_Pieces(dump), near, schemas, options.mask_salt)


class _Pieces:
    """What a dump sends, cut at positions that are given in rising order."""

    def __init__(self, dump: BinlogDump) -> None:
        self._dump, self._here = dump, dump.start
        self._rest: Bytes = np.empty(0, np.uint8)
        self._checksums = Checksums()

    def until(self, end: Position) -> Iterator[Bytes]:
        """All events up to `end`."""
        cutter = Cutter(self._here, end)
        while not cutter.done:
            if not self._rest.size:
                self._rest = self._dump.read()
            part = cutter.cut(self._rest)
            self._rest = self._rest[part.size :]
            self._checksums.verify(part, str(self._here))
            yield part
        self._here = end


def _read(
    pieces: _Pieces, commits: Sequence[Commit], schemas: Mapping[str, TableSchema], salt: str
) -> Iterator[LogPart]:
    head: Bytes | None = None  # the format description that the server sends first
    for commit in commits:
        for _ in pieces.until(commit.begin):
            pass
        scanner, decoder = BinlogScanner(commit.begin, schemas), Decoder(schemas, salt)
        if head is not None:
            scanner.feed(head)
        for part in pieces.until(commit.end):
            head = _format(part) if head is None else head
            for scan in scanner.scans(part):
                _check(commit, bool(scan.transactions.xa.all()) and all(d.xid == commit.xid for d in scan.decisions))
                try:
                    whole = decoder.decode(scan)
                except DefiniteError as error:  # its rows are where the transaction is committed
                    raise error.about(error.table, str(commit.at)) from error
                yield PreparedPart(whole.scan, whole.changes, whole.schemas, whole.programs, commit)
        _check(commit, scanner.boundary == commit.end)


def _check(commit: Commit, holds: bool) -> None:
    """The group must be the one that is meant, whatever has become of the log since."""
    if not holds:
        raise codes.XA_PREPARE_MISSING.error(
            f"the binlog does not hold the XA transaction {commit.xid} where it was prepared", where=str(commit.begin)
        )


def _format(events: Bytes) -> Bytes | None:
    """The format description among events, if it is there."""
    at = 0
    while at < events.size:
        size = int.from_bytes(events[at + 9 : at + 13].tobytes(), "little")
        if int(events[at + 4]) == FORMAT:
            return np.array(events[at : at + size])
        at += size
    return None
