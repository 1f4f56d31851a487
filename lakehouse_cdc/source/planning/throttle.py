"""How many chunks a batch may have while the server is busy with others.

Chunks are the only work that can wait: the log has to be followed, and costs the server little. So where the server is
loaded beyond what the options allow, no chunk is planned until it is not, for as long as planning may take; and one
after that, so that a snapshot of a server that is always loaded comes to its end, too.

`Threads_running` counts all threads that are in a command just now, among them this session and the dumps of replicas
and readers (MySQL Reference Manual, "Server Status Variables"). A replica that does not say how far it is behind
(replication is stopped, or tries to connect) counts as loaded.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from lakehouse_cdc.errors import codes
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.source.options import SourceOptions

_LOOK_SECONDS = 0.5


class Throttle:
    """The limits of one stream."""

    def __init__(
        self, options: SourceOptions, clock: Callable[[], float], sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._options, self._clock, self._sleep = options, clock, sleep

    def chunks(self, session: Session, most: int) -> int:
        """At most so many chunks, as soon as the server is not loaded; one where that lasts for `plan_seconds`.

        Raises DefiniteError where a limit is given for the lag of a server that replicates from nobody.
        """
        deadline = self._clock() + self._options.plan_seconds
        while self._loaded(session):
            if self._clock() >= deadline:
                return min(1, most)
            self._sleep(_LOOK_SECONDS)
        return most

    def _loaded(self, session: Session) -> bool:
        threads, seconds = self._options.max_threads_running, self._options.max_replica_lag_seconds
        if threads is not None and server.threads_running(session) > threads:
            return True
        if seconds is None:
            return False
        lags = server.replica_lags(session)
        if not lags:
            raise codes.NOT_A_REPLICA.error(
                "a limit is set for how far the source may be behind, and it is no replica",
                where=session.options.where, hint="remove source.max_replica_lag_seconds",
            )  # fmt: skip
        return any(lag is None or lag > seconds for lag in lags)
