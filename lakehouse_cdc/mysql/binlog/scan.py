"""What the first pass knows about one buffer of binlog events.

Rows of a transaction are given out with the buffer they came in, also when its end has not been seen yet. That is
right because a transaction with rows of a captured (InnoDB) table is written to the binlog only when it commits;
should a ROLLBACK end one all the same, its rows are taken back if they lie in the same buffer, and otherwise the
scanner stops with an error before anything after them is given out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lakehouse_cdc.images.binlog.row_events import RowEvents
from lakehouse_cdc.images.binlog.words import COMMITTED, OPEN, PREPARED, ROLLED_BACK
from lakehouse_cdc.model.ddl_effect import Effect
from lakehouse_cdc.model.gtid import GtidSet, gtid_text, is_mariadb
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql.binlog.statement_filter import Text
from lakehouse_cdc.mysql.binlog.tablemap import TableMap
from lakehouse_cdc.sql.ddl.statement_session import UNKNOWN_SESSION, StatementSession
from lakehouse_cdc.sql.dml_names import Names
from lakehouse_cdc.sql.lexer import PLAIN, Dialect
from lakehouse_cdc.sql.statements import Statement

__all__ = ["COMMITTED", "OPEN", "PREPARED", "ROLLED_BACK", "Decision", "LoggedStatement", "Scan", "Transactions"]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Transactions:
    """The transactions (event groups) that have an event in the buffer, in the log's order; arrays of one length.

    The first may have begun in an earlier buffer, the last may end in a later one (`outcome` OPEN, `end` 0). `begin`
    and `end` are positions in `file` (an index into `Scan.files`). `source` indexes `Scan.sources`, -1 where the
    transaction has no GTID. `commit_us` is the commit time in microseconds since 1970 as the server states it, or the
    whole second of the group's first event before MySQL 8.0. `events` and `bytes` count the rows events of captured
    tables from the transaction's begin on, also those of earlier buffers. `xa` marks the groups of an XA transaction's
    rows, which take effect elsewhere unless `outcome` is COMMITTED (XA COMMIT ... ONE PHASE).
    """

    file: Ints
    begin: Ints
    end: Ints
    source: Ints
    number: Ints
    commit_us: Ints
    events: Ints
    bytes: Ints
    outcome: Ints
    xa: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.begin)


@dataclass(frozen=True)
class LoggedStatement:
    """A statement in the log that is not BEGIN, COMMIT or the like; `XA COMMIT` and `XA ROLLBACK` are listed, too.

    `position` is the end of its event, `transaction` an index into `Scan.transactions`. `concerns` is False only
    where it is certain that no captured or watched table is touched, or a matter of the names that it mentions: then
    `named` has them. `effects` are what it does to captured tables, None where that is not known; there are none where
    it concerns watched tables alone. `within_xa`: it takes effect where its XA transaction is committed. `session` is
    what the event says of the session that ran it, `dialect` how that session's server read the text.
    """

    position: Position
    transaction: int
    database: str
    text: str
    statement: Statement
    concerns: bool
    effects: tuple[Effect, ...] | None = None
    session: StatementSession = UNKNOWN_SESSION
    named: Text | None = None
    within_xa: bool = False
    dialect: Dialect = PLAIN

    @property
    def unknown(self) -> bool:
        """Whether it may be DDL of any table that it mentions."""
        return self.named is not None and self.named.unknown

    @property
    def names(self) -> Names | None:
        """What it mentions, if it changes rows, or is not known."""
        return None if self.named is None else self.named.names


@dataclass(frozen=True)
class Decision:
    """An XA transaction was prepared (`prepare`), or decided on (`commit`, `rollback`); see `model.xa` for the xid.

    `transaction` is an index into `Scan.transactions`: of the group that was prepared, or that decides.
    """

    kind: Literal["prepare", "commit", "rollback"]
    xid: str
    transaction: int


@dataclass(frozen=True)
class Scan:
    """The events of one buffer: `start` and `end` are the positions before the first and after the last.

    Of a large compressed transaction it may be a piece: then `end` is before that event, or `start` is, or both.

    `buffer` is the buffer that was fed, with its compressed events expanded, and after it the rows of partial updates,
    made whole; values of COMPRESSED columns are as they are there (see `compression.columns`). `rows` has one entry
    for each rows event of a captured table, with offsets into `buffer`; `row_end` has the position at which each of
    these events, or the compressed event that held it, ends, `rows.table` indexes `tables`, `rows.txn` `transactions`.
    The indexes of `tables` and `sources` keep their meaning over all scans of one scanner, the others count from 0 in
    each. `boundary` is the last position that lies between transactions. `files` are the files of the buffer's events,
    in order; more than one where it holds a rotation.
    """

    buffer: NDArray[np.uint8]
    start: Position
    end: Position
    boundary: Position
    rows: RowEvents
    row_end: Ints
    transactions: Transactions
    statements: tuple[LoggedStatement, ...]
    decisions: tuple[Decision, ...]
    tables: tuple[TableMap, ...]
    files: tuple[str, ...]
    sources: tuple[str, ...]
    gtids: GtidSet
    _gtids_before: GtidSet
    _previous: tuple[tuple[int, GtidSet], ...]  # (transactions ended before it, the set that a file begins with)

    @property
    def ended(self) -> int:
        """How many transactions have ended in this buffer: they are the first ones."""
        return int(np.count_nonzero(self.transactions.outcome != OPEN))

    def gtid(self, transaction: int) -> str:
        """`uuid:number`, `uuid:tag:number`, MariaDB's `domain-server-number`, or '' where there is none."""
        source = int(self.transactions.source[transaction])
        return gtid_text(self.sources[source], int(self.transactions.number[transaction])) if source >= 0 else ""

    def boundaries(self) -> list[Position]:
        """Every transaction's end, and the beginning of every file that the log continued to, in order."""
        done = self.ended
        places = list(zip(self.transactions.file[:done].tolist(), self.transactions.end[:done].tolist(), strict=True))
        places += [(file, 4) for file in range(1, len(self.files))]
        return [Position(self.files[file], pos) for file, pos in sorted(places)]

    def gtids_after(self, transactions: int) -> GtidSet:
        """The GTIDs of the log up to the end of this buffer's first `transactions` transactions.

        They are all that the server executed if the scanner knew the set at its start or began with a file.
        """
        known = self._gtids_before
        for ended, previous in self._previous:
            if ended <= transactions:
                known = known.union(previous)
        return known.union(
            gtid_set(self.sources, self.transactions.source[:transactions], self.transactions.number[:transactions])
        )


def gtid_set(sources: tuple[str, ...], source: Ints, number: Ints) -> GtidSet:
    """The set of many single GTIDs; runs are found without looking at each of them."""
    intervals = {}
    for index in np.unique(source[source >= 0]).tolist():
        numbers = np.unique(number[source == index])
        breaks = np.flatnonzero(np.diff(numbers) != 1)
        first = numbers[np.concatenate(([0], breaks + 1))]
        last = numbers[np.concatenate((breaks, [len(numbers) - 1]))]
        intervals[sources[index]] = list(zip(first.tolist(), (last + 1).tolist(), strict=True))
        if is_mariadb(sources[index]):
            intervals[sources[index]] = [(1, int(numbers[-1]) + 1)]
    return GtidSet(intervals)
