"""A stream that finds another server: the offset that it continues from there, and the splits of a batch from before.

What is decided, and why that is exact, is in `server_change`; this is the shell around it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.source.captured_tables import Tables
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.planning import split_plan
from lakehouse_cdc.source.planning.connections import Connections
from lakehouse_cdc.source.planning.server_change import ServerChange
from lakehouse_cdc.source.planning.split_plan import Cuts, LogCuts
from lakehouse_cdc.source.requests.set_aside import SetAside
from lakehouse_cdc.source.splits import RepairSplit, SnapshotSplit, Split
from lakehouse_cdc.source.state.state_store import SchemaStore


@dataclass
class Elsewhere:
    """Of one stream. Methods raise what `ServerChange` does.

    `epochs_known`: whether it is known that no later epoch than that of the stream's offset has begun.
    """

    options: SourceOptions
    connections: Connections
    tables: Tables
    store: SchemaStore
    set_aside: SetAside
    clock: Callable[[], float] = time.monotonic
    epochs_known: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._change = ServerChange(self.options, self.tables, self.store, clock=self.clock)

    def offset(self, start: Offset) -> Offset | None:
        """`start` on the server that is there now, where the stream follows to it; None where it is the same.

        Also on the same one, where a batch may have been executed on another in between: rows have later seqs then.
        """
        self.connections.server = start.identity.server_uuid
        if self.options.on_failover != "follow" or self.store.has_gap(start):
            return None
        self.epochs_known = self.epochs_known or self.store.last_epoch(start.epoch) == start.epoch
        if self.epochs_known and self.connections.session().server_uuid == start.identity.server_uuid:
            return None
        self.connections.close()
        moved = self._change.moved(self.connections.session(), lambda: self.connections.floor(None), start)
        self.connections.close()
        self.set_aside.forget_open()
        self.epochs_known = True
        return moved

    def planned(self, end: Offset) -> bool:
        """Whether the batch with that end was planned on another server, which the stream follows from."""
        self.connections.server = end.identity.server_uuid
        follows = self.options.on_failover == "follow"
        return follows and self.connections.session().server_uuid != end.identity.server_uuid

    def splits(self, start: Offset | None, end: Offset, log_cuts: LogCuts) -> list[Split]:
        """Those of a batch that was planned on another server, but for its chunks, which are read later."""
        self.epochs_known = False
        begin, between, end = self._change.replayed(self.connections.session(), start, end)
        tail = self.connections.open_tail(begin) if begin is not None and begin.epoch == end.epoch else None
        splits, store = list[Split](), self.store
        for first, until in pairwise((begin, *between, end)):
            assert until is not None
            if tail is not None:
                tail.advance(until.position)
            splits += split_plan.plan(first, until, store.get, store.change, store.repair, _no_cuts, log_cuts)
            if tail is not None and not tail.continues(until.position):
                what = "a place between two transactions is none"
                raise codes.INVARIANT_BROKEN.error(what, where=str(until.position))
        self.connections.close()
        return [one for one in splits if not isinstance(one, SnapshotSplit | RepairSplit)]


def _no_cuts(*_: object) -> Cuts:
    """Of chunks that are not read."""
    return Cuts()
