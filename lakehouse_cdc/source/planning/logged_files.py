"""The files of a server's log as `model.log_place` asks for them: each is read as far as it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from lakehouse_cdc.model.gtid import GtidSet
from lakehouse_cdc.model.log_place import Logged
from lakehouse_cdc.model.position import FIRST_EVENT, Position
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.tail.log_tail import Tail

_STEP = 64 << 20  # bytes of transactions that are looked at before more is read


class ServerLog:
    """The log of the server of a session, up to where it ends now. A context manager: it keeps one dump open."""

    def __init__(self, options: SourceOptions, session: Session) -> None:
        self._options, self._server = options, session.server_uuid
        self.end = server.log_position(session).position
        names = [name for name, _ in server.binary_logs(session) if Position(name, 0).number <= self.end.number]
        self.files = [ServerFile(self, name) for name in names]
        self._tail: Tail | None = None

    def tail_from(self, file: str) -> Tail:
        """The log from the beginning of a file on, its header read, in place of what was open before."""
        self.close()
        tail = Tail(self._options, Position(file, FIRST_EVENT), matches=lambda _: False, server=self._server)
        self._tail = tail
        tail.pass_header()
        return tail

    def close(self) -> None:
        """End the dump."""
        if self._tail is not None:
            self._tail.close()
        self._tail = None

    def __enter__(self) -> ServerLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ServerFile:
    """One file of it (`model.log_place.LogFile`)."""

    def __init__(self, log: ServerLog, name: str) -> None:
        self._log, self.name = log, name
        self._header: tuple[Position, GtidSet] | None = None

    def header(self) -> tuple[Position, GtidSet]:
        """Where its transactions begin, and all that was logged before."""
        if self._header is None:
            tail = self._log.tail_from(self.name)
            self._header = tail.scanned, tail.mark().gtids
        return self._header

    def transactions(self) -> Iterator[Logged]:
        """Its transactions, and those after it."""
        tail, seen, limit = self._log.tail_from(self.name), 0, _STEP
        while True:
            tail.advance(self._log.end, max_bytes=limit)
            for one in tail.transactions(seen):
                seen += 1
                yield Logged(one.end, one.source, one.number)
            if tail.reached(self._log.end):
                return
            limit += _STEP
