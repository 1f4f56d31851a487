"""A consistent view of which it is proven what it holds: what the read of a table without a key needs.

A transaction becomes visible after it was written to the binlog, so a view holds nothing after a position that was
read after the view was made. Whether it holds what lies in front of that is another matter: MySQL shows a transaction
in the position before it is visible, and does not say at which position a view is. So for each transaction that
touches the table there are three answers. The view surely holds it: that is proven before the view is made, by what
`settled_position` knows as proofs (GTIDs that are executed, statements that waited in a commit and have ended, age). It
surely does not: only MariaDB shows it, whose consistent snapshots name their position. Or it is not known, and then the
view is of no use for the rows that the transaction touches: they are read from another one (see
`reading.views_of_rows`). None of that is guessed from the rows.

Between the proof and the position that is read after the view there are two statements, so the doubt is about the
transactions that are in their commit at that moment. (`age` proves what is older than its margin alone, so it is about
all that are younger.)

XA transactions are outside of what waits in a commit, and of MariaDB's order; see `settled_position` for XA RECOVER.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from lakehouse_cdc.model.gtid import GtidSet
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.key_range import place
from lakehouse_cdc.options.source import Settle
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.source.settling.settled_position import choose_proof
from lakehouse_cdc.source.test_hooks import Step, reached

_LONGEST_COMMIT = 5.0  # seconds that one attempt waits for statements that are in their commit


@dataclass(frozen=True)
class View:
    """What is known of a view: it holds nothing after `high`, all up to `low`, and all of `gtids`.

    `exact`: of what is no XA transaction it holds all up to there, and nothing else. `low` is not settled for the XA
    transactions `xids`, which were prepared then; None: for none that is younger than `aged`, up to where all is old.
    """

    high: Position
    low: Position | None = None
    aged: Position | None = None
    gtids: GtidSet | None = None
    exact: Position | None = None
    xids: frozenset[str] | None = None

    def holds(self, at: Position, gtid: str | None, xid: str | None) -> bool | None:
        """Whether the view holds the transaction that ends `at`; None where that is not known.

        `xid` is None of one that is no XA transaction, "" of one that was prepared and committed at once.
        """
        if at > self.high:
            return False
        if self.gtids is not None:
            return True if gtid and self.gtids.contains(GtidSet.parse(gtid)) else None
        if self.aged is not None and at <= self.aged:
            return True
        if xid is None and self.exact is not None:
            return at <= self.exact
        if self.low is None or at > self.low:
            return None
        sure = xid is None or (bool(xid) and self.xids is not None and xid not in self.xids)
        return True if sure else None


@dataclass
class Views:
    """Makes views for SELECTs of `schema` in `data`, a session of its own; `session` is another one."""

    session: Session
    data: Session
    schema: TableSchema
    settle: Settle
    settle_seconds: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _seen: list[tuple[float, Position]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.proof, self.margin = choose_proof(self.session, self.settle, self.settle_seconds)

    def make(self) -> View:
        """A new view, in a transaction that keeps DDL from the table until it ends. Raises DefiniteError where the
        table is not there, or is another one than the view's."""
        self.end()
        low: Position | None = None
        gtids: GtidSet | None = None
        xids: set[str] | None = None
        if self.proof == "gtid":
            gtids = GtidSet.parse(str(self.session.scalar("SELECT @@GLOBAL.gtid_executed")))
        else:
            low = server.log_position(self.session).position
            self._seen.append((self.clock(), low))
            if self.proof == "age" or (self.proof == "process" and not self._committed()):
                low = None
            xids = server.prepared_xids(self.session)
        aged = self._aged()
        reached(Step.BEFORE_SELECT, self.schema.name)
        self.data.query("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        exact = server.view_position(self.data) if self.proof == "snapshot" else None
        self.data.query(f"SELECT 1 FROM {place(self.schema)} LIMIT 0")
        high = server.log_position(self.session).position
        return View(high, low, aged, gtids, exact, None if xids is None else frozenset(xids))

    def end(self) -> None:
        """End the transaction, if there is one."""
        self.data.query("COMMIT")

    def _aged(self) -> Position | None:
        """The newest of the positions that were seen long enough ago."""
        old = self.clock() - self.margin
        return max((position for at, position in self._seen if at <= old), default=None)

    def _committed(self) -> bool:
        """Whether the statements that are in their commit now end soon; waits for that."""
        waits, began = server.commit_waits(self.session), self.clock()
        while waits and waits & server.commit_waits(self.session):
            if self.clock() - began > _LONGEST_COMMIT:
                return False
            self.sleep(0.02)
        return True
