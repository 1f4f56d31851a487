"""What the tail of the binlog says of XA transactions: which are open where, and what their commits bring.

The rows of one, and the bytes that reading them again takes, count where it is committed; where it was prepared they
count for nothing. So the limits of a batch hold for what the batch will emit.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.xa import Prepared, XaEvent, follow, open_at
from lakehouse_cdc.mysql.binlog.scan import COMMITTED, OPEN, PREPARED, ROLLED_BACK, Decision, LoggedStatement, Scan
from lakehouse_cdc.sql.dml_names import Names

Ints = npt.NDArray[np.int64]


class XaHistory:
    """XA transactions from a tail's origin on. `known` are those that the offset there lists.

    Without `counted` tables every group counts as one row, since any may hold rows of what is captured later.
    """

    def __init__(self, known: Iterable[Prepared], *, counted: bool) -> None:
        self._open = {p.xid: p for p in known if p.decided is None}  # where the scan is
        self._at_origin = tuple(self._open.values())
        self._events: list[XaEvent] = []
        self._unknown: list[Position] = []
        self._counted = counted
        self._waiting: set[Names] = set()  # of texts in the group that the last scan ended in
        self.texts: dict[Position, frozenset[Names]] = {}  # of texts in the group that begins there

    def take(self, scan: Scan, rows: Ints, size: Ints) -> list[LoggedStatement]:
        """Note what happened in a scan; put right the `rows` and the `size` of its transactions.

        Gives the statements logged as text that take effect there by themselves: in XA COMMIT ... ONE PHASE.
        """
        outcome = scan.transactions.outcome
        at_once = self._take_texts(scan)
        groups = rows.copy()
        rows[(outcome == PREPARED) | (outcome == ROLLED_BACK)] = 0
        for decision in scan.decisions:
            prepared = self._decided(scan, decision, int(groups[decision.transaction]))
            if prepared is not None and prepared.rows:
                rows[decision.transaction] = prepared.rows
                size[decision.transaction] += prepared.end.pos - prepared.begin.pos
        return at_once

    def _take_texts(self, scan: Scan) -> list[LoggedStatement]:
        txns, at_once = scan.transactions, []
        groups: dict[int, set[Names]] = {0: self._waiting} if self._waiting else {}
        self._waiting = set()
        for statement in scan.statements:
            if statement.within_xa and statement.names is not None:
                groups.setdefault(statement.transaction, set()).add(statement.names)
                at_once += [statement] if txns.outcome[statement.transaction] == COMMITTED else []
        for i, names in groups.items():
            if txns.outcome[i] == PREPARED:
                begin = Position(scan.files[txns.file[i]], int(txns.begin[i]))
                self.texts[begin] = frozenset(names)
            elif txns.outcome[i] == OPEN:
                self._waiting = names
        return at_once

    def _decided(self, scan: Scan, decision: Decision, rows: int) -> Prepared | None:
        """Note a decision; the group that it makes true, if it does."""
        txns, i = scan.transactions, decision.transaction
        begin, end = (Position(scan.files[txns.file[i]], int(at[i])) for at in (txns.begin, txns.end))
        if decision.kind == "prepare":
            again = ("*",) if begin in self.texts else None
            prepared = Prepared(decision.xid, begin, end, rows if self._counted else 1, again=again)
            self._open[decision.xid] = prepared
            self._events.append(XaEvent(end, decision.xid, prepared))
            return None
        self._events.append(XaEvent(end, decision.xid, None, committed=decision.kind == "commit"))
        opened = self._open.pop(decision.xid, None)
        if decision.kind == "rollback":
            return None
        if opened is None:
            self._unknown.append(end)
        return opened

    def events(self, until: Position) -> list[XaEvent]:
        """What happened between the origin and a position."""
        return [event for event in self._events if event.position <= until]

    def decided(self, until: Position) -> set[str]:
        """Those that were committed or rolled back between the origin and a position, and are not prepared again."""
        last = {event.xid: event.prepared for event in self.events(until)}
        return {xid for xid, prepared in last.items() if prepared is None}

    def open_at(self, position: Position) -> tuple[Prepared, ...]:
        """Those that are open at a position between the origin and the scan's."""
        return open_at(follow(self._at_origin, self.events(position)), position)

    def first_unknown(self, after: Position) -> Position | None:
        """The first XA COMMIT after `after` of a transaction that was prepared nobody knows where."""
        return next((at for at in self._unknown if at > after), None)

    def begin_at(self, position: Position) -> None:
        """The origin moves to a position."""
        self._at_origin = self.open_at(position)
        self._events = [event for event in self._events if event.position > position]
        self._unknown = [at for at in self._unknown if at > position]
        self.texts = {begin: names for begin, names in self.texts.items() if begin >= position}
