"""A run's look at the source's log beside its streams: bronze's lag, and for how long the log is kept.

Batches say nothing of it while nothing is written, and nothing of a log that is about to be purged. So every ten
seconds the files and the server's clock are asked for, in a session of its own. When bronze has all that there was at a
moment, that is noted in a file, for `status` in another process.

It decides nothing. What goes wrong is logged, and a server that cannot be reached is asked again.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.lake.files.choice import Location, files_at
from lakehouse_cdc.lake.files.port import FAILURES
from lakehouse_cdc.model.commit_note import SourcePoint
from lakehouse_cdc.model.log_retention import Headroom, Retention
from lakehouse_cdc.model.source_lag import Lag, lag
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session, connect
from lakehouse_cdc.mysql.log_view import LogView, retention_of

_EVERY = 10.0  # seconds between two looks
_PAUSE = 60.0  # seconds after a look that failed: a server that is away may take its time to say so
_NOTED_EVERY = 60.0  # seconds between two notes of the same kind
_WARNED_EVERY = 3600.0
_SETTINGS_EVERY = 600.0
NAME = "caught_up.json"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Look:
    """What was seen, at that time in seconds since 1970, of bronze at `point`; `sizes` are those of the log's files."""

    at: float
    point: SourcePoint
    lag: Lag
    headroom: Headroom
    sizes: Sequence[tuple[str, int]] = ()


def caught_up_at(place: Location, point: SourcePoint) -> float:
    """When a run saw last that bronze had everything, in seconds since 1970; 0 where none did, in this epoch."""
    try:
        data = json.loads(files_at(place).read(NAME) or "")
        known = data["server_uuid"] == point.server_uuid and data["epoch"] == point.epoch
        return float(data["at"]) if known else 0.0
    except (*FAILURES, ValueError, KeyError, TypeError):
        return 0.0


class SourceWatch:
    """Looks for one run, whose notes are in `place`. `tick` and `close` are one thread's; `moved` is any thread's."""

    def __init__(
        self,
        connection: ConnectionOptions,
        server_id: int,
        place: Location,
        point: SourcePoint | None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options, self._server_id, self._files, self._clock = connection, server_id, files_at(place), clock
        self._point = point
        self._session: Session | None = None
        self._retention: Retention | None = None
        self._made: dict[str, float] = {}
        self._looked = self._noted = self._warned = self._asked = -float("inf")
        self._caught_up_at = 0.0 if point is None else caught_up_at(place, point)
        self.last: Look | None = None

    @property
    def point(self) -> SourcePoint | None:
        """Where bronze is, None before its first batch."""
        return self._point

    def moved(self, point: SourcePoint) -> None:
        """Bronze is at `point` now."""
        if self._point is not None and self._point.server_uuid != point.server_uuid:
            self.close()
        self._point = point

    def tick(self) -> Look | None:
        """Look, if it is time to, and bronze has begun."""
        point, now = self._point, self._clock()
        if point is None or now - self._looked < _EVERY:
            return None
        self._looked = now
        try:
            self.last = self._look(point, now)
        except CdcError as error:
            _log.debug("the source's log cannot be looked at now: %s", error)
            self._looked = now + _PAUSE - _EVERY
            self.close()
            return None
        self._note(point, now)
        self._warn(now)
        return self.last

    def _look(self, point: SourcePoint, now: float) -> Look:
        if self._session is None:
            self._session = connect(self._options, server=point.server_uuid, only=True)
        if self._session.server_uuid != point.server_uuid:
            raise codes.SERVER_CHANGED.error(
                f"this session reached server {self._session.server_uuid}, bronze is at {point.server_uuid}"
            )
        if self._retention is None or now - self._asked >= _SETTINGS_EVERY:
            self._retention, self._asked = retention_of(self._session), now
        view = LogView.of(self._session, self._server_id, retention=self._retention, made=self._made)
        seen = lag(point, view.sizes, view.now, caught_up_at=self._caught_up_at)
        if seen.bytes == 0:
            self._caught_up_at = view.now
        return Look(view.now, point, seen, view.headroom(point.file), view.sizes)

    def _note(self, point: SourcePoint, now: float) -> None:
        if not self._caught_up_at or now - self._noted < _NOTED_EVERY:
            return
        self._noted = now
        data = {"server_uuid": point.server_uuid, "epoch": point.epoch, "at": self._caught_up_at}
        with suppress(*FAILURES):
            self._files.write(NAME, json.dumps(data))

    def _warn(self, now: float) -> None:
        if self.last is not None and self.last.headroom.scarce and now - self._warned >= _WARNED_EVERY:
            self._warned = now
            _log.warning("%s; bronze is at %s", self.last.headroom.sentence, self.last.lag.sentence)

    def close(self) -> None:
        """End the session."""
        if self._session is not None:
            self._session.close()
        self._session = None
