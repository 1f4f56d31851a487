"""Is this still the server that the offset speaks of? Asked by every session that reads."""

from __future__ import annotations

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.offset import Identity
from lakehouse_cdc.mysql.connection.session import Session


def check_identity(session: Session, identity: Identity) -> None:
    """Raise DefiniteError if a proxy or a failover led this session to another server."""
    if session.server_uuid != identity.server_uuid:
        raise codes.SERVER_CHANGED.error(
            f"this session reached server {session.server_uuid}, the batch was planned on {identity.server_uuid}",
            hint="let source.url name one server, not a proxy or a name that moves between servers",
        )
