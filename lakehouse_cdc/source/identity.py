"""Is this still the server that the offset speaks of? Asked by every session that reads.

A position means something on one server alone, and a name may lead to another one from one connection to the next. So a
reader connects to the server of its offset, wherever that is among those of the url, and reads nothing of another.
Which server a stream continues on is decided by the planner alone (`planning.server_change`).
"""

from __future__ import annotations

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.model.offset import Identity
from lakehouse_cdc.mysql.connection.session import Purpose, Session, connect
from lakehouse_cdc.source.options import SourceOptions


def connect_to(options: SourceOptions, identity: Identity, *, purpose: Purpose = "query") -> Session:
    """A session of the server that the offset speaks of.

    Raises DefiniteError if a proxy or a failover led it to another server; where the stream follows that (on_failover),
    TransientError, since the batch is then read from there when it is executed again.
    """
    return connected_to(options, identity.server_uuid, purpose=purpose)


def connected_to(options: SourceOptions, server: str, *, purpose: Purpose = "query") -> Session:
    """The same, by the server's uuid."""
    session = connect(options.connection, purpose=purpose, server=server, only=True)
    try:
        check_identity(options, session, server)
    except CdcError:
        session.close()
        raise
    return session


def check_identity(options: SourceOptions, session: Session, server: str) -> None:
    """Raise as `connect_to` does where a session has reached another server."""
    if session.server_uuid == server:
        return
    what = f"this session reached server {session.server_uuid}, the batch was planned on {server}"
    if options.on_failover == "follow":
        raise codes.SERVER_MOVED.error(what, hint="run again, if it is not tried again by itself")
    raise codes.SERVER_CHANGED.error(
        what, hint="let source.url name one server, not a proxy or a name that moves between servers"
    )
