"""What a planner keeps open while its stream runs: a session, a dump of the log, and what is known to be settled.

Each is opened when it is first needed, and again after `close`.
"""

from __future__ import annotations

from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import Session, connect
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.settling.clock_observations import Sightings, sight
from lakehouse_cdc.source.settling.settled_position import Floor
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.source.tail.log_tail import Tail


class Connections:
    """The connections of one stream, made by `options`, which may change before they are opened again.

    `tail` is None while no log is read; `sightings` are of the server's clock.
    """

    def __init__(self, options: SourceOptions, selection: Selection, store: SchemaStore) -> None:
        self.options, self.store = options, store
        self._selection = selection
        self.sightings = Sightings()
        self.tail: Tail | None = None
        self._session: Session | None = None
        self._floor: Floor | None = None
        self.server = ""  # the uuid of the one to reach, where there are several

    def close(self) -> None:
        """End all of them."""
        if self.tail is not None:
            self.tail.close()
        if self._session is not None:
            self._session.close()
        self.tail = self._session = self._floor = None
        self.sightings.clear()

    def session(self) -> Session:
        """The session that asks the server."""
        if self._session is None:
            only = self.options.on_failover != "follow"
            self._session = connect(self.options.connection, server=self.server, only=only)
        return self._session

    def tip(self) -> Position:
        """Where the log ends."""
        sighting = sight(self.session())
        self.sightings.saw(sighting)
        return sighting.tip

    def floor(self, start: Offset | None) -> Floor:
        """What is known to be settled, by what was so at `start`."""
        if self._floor is None:
            self._floor = Floor(
                self.session(),
                self.options.settle,
                self.options.settle_seconds,
                settled=start.floor if start else None,
                xa=start is not None and any(p.decided is not None for p in start.prepared),
            )
        return self._floor

    def open_tail(self, offset: Offset) -> Tail:
        """A dump of the log from an offset on, with the schemas of its tables, in place of the one before."""
        if self.tail is not None:
            self.tail.close()
        self.tail = Tail(
            self.options,
            offset.position,
            matches=self._selection.matches,
            gtids=offset.gtids().union(server.unlogged_gtids(self.session())),
            schemas=[self.store.get(state.schema) for state in offset.captured.values()],
            prepared=offset.prepared,
            server=self.session().server_uuid,
        )
        return self.tail
