"""What a server says of its binlog files at one moment: their sizes, when some were made, and how long it keeps them.

When a file was made is in its first event, which a reader gets who asks for the file as a replica does; no statement
shows it. It is asked once for each file.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.log_retention import Headroom, Retention, growth, headroom
from lakehouse_cdc.model.position import FIRST_EVENT, Position
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.binlog.dump import BinlogDump
from lakehouse_cdc.mysql.binlog.file_age import made_at
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session, connect

_UNREADABLE = (codes.RIGHT_MISSING, codes.OBJECT_MISSING, codes.STATEMENT_REFUSED)


@dataclass
class LogView:
    """A server's files (name, bytes), oldest first, its clock in seconds since 1970, and its limits."""

    sizes: list[tuple[str, int]]
    now: float
    retention: Retention
    server_id: int
    options: ConnectionOptions
    made: dict[str, float] = field(default_factory=dict)  # when, of files of which that was asked
    server: str = ""  # its uuid

    @classmethod
    def of(
        cls,
        session: Session,
        server_id: int,
        *,
        retention: Retention | None = None,
        made: dict[str, float] | None = None,
    ) -> LogView:
        """As it is now; `server_id` is for the reader that asks when a file was made. Others are known already."""
        now = server.clock_us(session) / 1e6  # all that was logged by then is in the sizes
        sizes = server.binary_logs(session)
        known = retention_of(session) if retention is None else retention
        made = {} if made is None else made
        return cls(sizes, now, known, server_id, session.options, made, session.server_uuid)

    def headroom(self, needed: str) -> Headroom:
        """How long the file `needed` is there at least. Raises TransientError where the server cannot be asked."""
        names = [name for name, _ in self.sizes]
        at = names.index(needed) if needed in names else -1
        if at < 0:
            return headroom(self.retention, self.sizes, needed, ended_ago=None, growth=None)
        newest = at == len(names) - 1
        since = names[at] if newest else names[at + 1]
        if newest and self.retention.bytes is None:
            return headroom(self.retention, self.sizes, needed, ended_ago=None, growth=None)
        age = max(0.0, self.now - self._made_at(since))
        return headroom(
            self.retention, self.sizes, needed,
            ended_ago=None if newest else age, growth=growth(self.sizes, since, age),
        )  # fmt: skip

    def _made_at(self, file: str) -> float:
        if file not in self.made:
            session = connect(self.options)
            try:
                start = Position(file, FIRST_EVENT)
                with BinlogDump(session.connection, start, server_id=self.server_id, few=True) as dump:
                    while (seconds := made_at(dump.read())) is None:
                        pass
            finally:
                session.close()
            self.made[file] = float(seconds)
        return self.made[file]


def retention_of(session: Session) -> Retention:
    """The server's limits."""
    return Retention.of(server.settings(session), _of_rds(session))


def _of_rds(session: Session) -> dict[str, str | None] | None:
    """What the procedures of Amazon RDS have set; None for another server, or where the user may not see it."""
    try:
        rows = session.query("SELECT name, value FROM mysql.rds_configuration")
    except DefiniteError as error:
        if error.code not in _UNREADABLE:
            raise
        return None
    return {str(name): None if value is None else str(value) for name, value in rows}
