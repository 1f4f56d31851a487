"""What the next transaction of a server will be called."""

from __future__ import annotations

import re

from lakehouse_cdc.mysql.connection.session import Session


def upto_the_next(session: Session) -> str:
    """The GTIDs of the server's own transactions until now, and of the next one: nobody else may write meanwhile.

    Only its own: the set may hold those of other sources, which tests wrote by `gtid_next`.
    """
    executed = str(session.scalar("SELECT @@GLOBAL.gtid_executed"))
    own = re.search(rf"{session.server_uuid}:1-(\d+)", executed)
    assert own, executed
    return f"{session.server_uuid}:1-{int(own[1]) + 1}"
