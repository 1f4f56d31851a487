"""What keeps a log from being read on: another server, files that are gone, a log that was begun again.

The identity of a log is the server's uuid, the base name and the time at which the file was made: RESET leaves the
first two as they were, and starts the file numbers again, so that a position of the old log may exist in the new one
and mean something else.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.failover import Comparison
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import Session

_READ_AGAIN = "set source.on_gap: resnapshot, which reads all tables again in a new epoch"


def other_server(session: Session, start: Offset) -> DefiniteError | None:
    """Whether the session reached another server than the one that the offset is of, and what that one lacks."""
    if session.server_uuid == start.identity.server_uuid:
        return None
    what = f"the server is another one: {session.server_uuid}, the checkpoint is of {start.identity.server_uuid}"
    if held := start.gtids():
        what = f"{what}; {Comparison.of(held, *server.executed_gtids(session)).sentence}"
    return codes.SERVER_REPLACED.error(
        what,
        where=str(start.position),
        hint=f"point source.url at the old server; set source.on_failover: follow; or {_READ_AGAIN}",
    )


def missing(session: Session, start: Offset) -> DefiniteError | None:
    """Whether the server lacks the offset's position."""
    size = dict(server.binary_logs(session)).get(start.position.file)
    if size is not None and size >= start.position.pos:
        return None
    what = "was purged" if size is None else f"ends at {size}"
    return codes.POSITION_PURGED.error(
        f"the binlog cannot be continued: {start.position.file} {what}",
        where=str(start.position),
        hint=f"{_READ_AGAIN}; and keep binlogs longer (binlog_expire_logs_seconds)",
    )


def other_log(start: Offset, *, created: int) -> DefiniteError | None:
    """Whether the offset's file, which was made at `created`, is another than it was."""
    if created == start.identity.created:
        return None
    return codes.BINLOG_RESET.error(
        f"{start.position.file} is a new file of an old name: the binlog was reset",
        where=str(start.position),
        hint=_READ_AGAIN,
    )


def unknown_xa(at: Position) -> DefiniteError:
    """An XA COMMIT of what was prepared before the first position, unseen for want of the right to list it."""
    return codes.XA_PREPARED_EARLIER.error(
        "an XA transaction is committed that was prepared before the stream began",
        where=str(at),
        hint=f"GRANT XA_RECOVER_ADMIN ON *.* TO the user of the source, and {_READ_AGAIN}",
    )


def xa_before_start(at: Position) -> DefiniteError:
    """An XA COMMIT after the place where a stream is to begin, of what was prepared before the oldest file."""
    return codes.XA_PREPARED_EARLIER.error(
        "an XA transaction is committed that was prepared before the oldest file of the log",
        where=str(at),
        hint=f"set source.start to {{position: {at}}} or later",
    )


def unreadable_xa(session: Session, start: Offset | None, end: Offset) -> DefiniteError | None:
    """Whether rows that take effect on the way to `end` were prepared in a file that is gone.

    One that is not decided on harms nobody, however old it is: it may have been lost in a crash of the server.
    """
    begins = [end.floor] if start is None or start.epoch != end.epoch else [end.floor, start.position]
    decided = [p for p in end.prepared if p.rows and p.decided is not None]
    return _purged(session, [p.begin for p in decided if any(map(p.open_at, begins))], end)


def unreadable(session: Session, start: Offset | None, end: Offset) -> DefiniteError | None:
    """Whether a batch that was planned long ago lacks its server, or files from its floor or its start on."""
    if (gap := other_server(session, end)) is not None:
        return gap
    least = end.floor if start is None or start.epoch != end.epoch else min(end.floor, start.position)
    if (gap := _purged(session, [least], end)) is not None:
        return gap
    begins = (start, *end.between)  # an end knows of the XA transactions that are read in its own stretch
    for begin, until in zip(begins, (*end.between, end), strict=True):
        if (gap := unreadable_xa(session, begin, until)) is not None:
            return gap
    return None


def _purged(session: Session, begins: Sequence[Position], end: Offset) -> DefiniteError | None:
    """Whether one of the places where the batch is read from is gone."""
    if not begins:
        return None
    files = dict(server.binary_logs(session))
    if (lost := next((at for at in begins if at.file not in files), None)) is None:
        return None
    return codes.POSITION_PURGED.error(
        f"the batch that ends at {end.position} cannot be read any more: {lost.file} was purged",
        where=str(lost),
        hint=f"{_READ_AGAIN}; and keep binlogs longer (binlog_expire_logs_seconds)",
    )
