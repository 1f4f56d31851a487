"""Which position is settled: every transaction up to it surely committed and visible to a SELECT.

MySQL shows a transaction in the binlog position before InnoDB makes it visible (group commit, a slow fsync, a semi-sync
wait), so the position alone proves nothing about what a SELECT sees. Four proofs, each sound by itself:

* gtid: a GTID enters `gtid_executed` after its transaction is visible; so a position is settled when the set holds
  every GTID up to it. Needs GTID_MODE = ON and no anonymous transaction in between.
* process: a transaction at or below W that is not visible belongs to a statement that waits in its commit. The
  statements that wait at a moment after W was read are taken once; when each of them has ended, W is settled. Later
  ones do not matter: they lie beyond W. Needs MySQL 8.0 and the PROCESS right.
* snapshot: MariaDB says at which position of the binlog a consistent snapshot is; all up to it is visible from
  then on.
* age: a position that this process saw long ago is settled, where "long" exceeds what a commit can take. It is a
  margin, not a proof, so it must exceed the server's semi-sync time-out, and is refused where that is endless.

An XA COMMIT waits in no state that `process` looks at, and has no place in the order that `snapshot` shows. But XA
RECOVER continues listing its transaction until it is visible: of those that were decided on at or before W, the ones
that are listed after W was read are waited for. Where they are not listed to us, an XA COMMIT needs age as well.

A floor that is too old costs bytes (more binlog is read again), never correctness; so the last settled position serves
while a newer one is not proven, and a restart begins with the floor that the offset holds.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.gtid import GtidSet
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.options.source import Settle

_KEEP = 256  # positions that wait for their proof; older ones give way
_PATIENCE = 600.0  # seconds that one position may take to settle


@dataclass
class _Seen:
    position: Position
    at: float
    gtids: GtidSet
    xa_at: float  # when the last XA COMMIT at or before it was seen, where age is to prove it
    waits: set[Any] = field(default_factory=set)
    xids: set[str] = field(default_factory=set)


class Floor:
    """The newest settled position, kept up to date by what the driver sees. Positions come in rising order."""

    def __init__(
        self,
        session: Session,
        proof: Settle,
        margin: float,
        *,
        settled: Position | None = None,
        xa: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`xa`: XA COMMITs may be after `settled` that nothing shows.

        Raises DefiniteError if `proof` cannot be had on this server.
        """
        self._session, self._clock, self._sleep = session, clock, sleep
        self.proof, self.margin = choose_proof(session, proof, margin)
        self._settled = settled
        self._seen: deque[_Seen] = deque(maxlen=_KEEP)
        self._xa_at = clock() if xa else -math.inf
        self._visible: Position  # asked before it is compared

    def saw(self, position: Position, gtids: GtidSet, *, decided: Collection[str] = ()) -> None:
        """The driver read `position` now; `gtids` are all transactions up to it.

        `decided` are the XA transactions that were committed or rolled back at or before it, as far back as the
        position that was seen before.
        """
        if self._seen and self._seen[-1].position == position:
            return
        xids: set[str] = set()
        if decided and self.proof in ("process", "snapshot"):
            listed = server.prepared_xids(self._session)
            if listed is None:
                self._xa_at = self._clock()
            else:
                xids = listed.intersection(decided)
        seen = _Seen(position, self._clock(), gtids, self._xa_at, xids=xids)
        if self._seen:
            seen.xids |= self._seen[-1].xids
        if self.proof == "process":
            seen.waits = server.commit_waits(self._session)
        self._seen.append(seen)

    def settled(self) -> Position | None:
        """The newest position known to be settled, or None if there is none yet."""
        waiting = server.commit_waits(self._session) if self.proof == "process" and self._seen else set()
        if self.proof == "snapshot" and self._seen:
            self._visible = server.snapshot_position(self._session)
        listed = server.prepared_xids(self._session) if any(seen.xids for seen in self._seen) else None
        for seen in reversed(self._seen):
            seen.waits &= waiting
            seen.xids &= listed or set()
        for seen in reversed(self._seen):
            if self._proven(seen):
                self._settled = seen.position
                while self._seen and self._seen[0] is not seen:
                    self._seen.popleft()
                self._seen.popleft()
                break
        return self._settled

    def waiting(self) -> list[Position]:
        """The positions that are not settled yet: one of them is the next floor."""
        return [seen.position for seen in self._seen]

    def wait_for(self, position: Position) -> None:
        """Return when `position`, which `saw` was given, is settled. Raises TransientError after ten minutes."""
        began = self._clock()
        while (settled := self.settled()) is None or settled < position:
            if self._clock() - began > max(_PATIENCE, 3 * self.margin):
                raise codes.POSITION_UNSETTLED.error(
                    "a transaction stays in its commit: the position does not settle", where=str(position),
                    hint="look for sessions that wait for a commit or a semi-sync replica (SHOW PROCESSLIST)",
                )  # fmt: skip
            self._sleep(0.02)

    def _proven(self, seen: _Seen) -> bool:
        if self.proof == "gtid":
            return server.executed_contains(self._session, str(seen.gtids))
        if self.proof == "process":
            proven = not seen.waits
        elif self.proof == "snapshot":
            proven = self._visible >= seen.position
        else:
            return self._clock() - seen.at >= self.margin
        return proven and not seen.xids and self._clock() - seen.xa_at >= self.margin


def choose_proof(session: Session, proof: Settle, margin: float) -> tuple[str, float]:
    """The proof to use and the margin in seconds. Raises DefiniteError if the wanted one cannot be had."""
    gtids_on = server.settings(session, "gtid_mode").get("gtid_mode", "OFF").upper() == "ON"
    if proof == "gtid" and not gtids_on:
        raise codes.SETTLE_UNAVAILABLE.error("settle: gtid needs gtid_mode = ON", hint="use auto, process or age")
    if proof == "gtid" or (proof == "auto" and gtids_on):
        return "gtid", margin
    if proof == "snapshot" and not session.is_mariadb:
        raise codes.SETTLE_UNAVAILABLE.error("settle: snapshot needs MariaDB", hint="use auto, gtid, process or age")
    semi_sync = server.semi_sync(session)
    beyond = max(margin, semi_sync.timeout_seconds + 1 if semi_sync.enabled else 0)
    if proof == "snapshot" or (proof == "auto" and session.is_mariadb):
        return "snapshot", beyond
    may_look = proof in ("auto", "process") and server.has_process_right(session)
    if proof == "process" and not may_look:
        raise codes.SETTLE_UNAVAILABLE.error(
            "settle: process needs MySQL 8.0 and the PROCESS right", hint=f"GRANT PROCESS ON *.* TO {session.account}"
        )
    if may_look:
        return "process", beyond
    if semi_sync.enabled and semi_sync.endless:
        raise codes.SETTLE_UNAVAILABLE.error(
            "with an endless semi-sync time-out, age does not show when a commit becomes visible",
            hint=f"turn GTIDs on, or GRANT PROCESS ON *.* TO {session.account}",
        )
    return "age", beyond
