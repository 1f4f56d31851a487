"""The other servers that the url of the source names: whether a stream could follow to them now, as far as can be seen.

Whether it can is decided when it has to, by what bronze holds then (`source.planning.server_change`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lakehouse_cdc.errors import CdcError, TransientError
from lakehouse_cdc.model.failover import shown
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session, connect
from lakehouse_cdc.mysql.preflight.settings import Finding, Settings, obstacles


def others(session: Session, options: ConnectionOptions) -> Iterator[Finding]:
    """A finding for each server of `options` but that of the session, by its host and port."""
    reached = session.options.host, session.options.port
    for host, port in ((options.host, options.port), *options.others):
        if (host, port) == reached:
            continue
        name = f"{host}:{port}"
        try:
            with connect(replace(options, host=host, port=port, others=())) as other:
                yield _finding(name, session, other)
        except CdcError as error:
            what = "it does not answer" if isinstance(error, TransientError) else error.what
            yield Finding(name, "warning", f"a stream could not follow to this server: {what}", error.hint)


def _finding(name: str, session: Session, other: Session) -> Finding:
    lacking = obstacles(Settings.of(other))
    if session.is_mariadb != other.is_mariadb:
        lacking.append("it is a server of another kind")
    lacking += [f"it is a replica that leaves changes out ({one})" for one in server.replica_filters(other)]
    if lacking:
        return Finding(
            name, "warning", f"a stream could not follow to this server, since {', '.join(lacking)}",
            "make it a whole replica with GTIDs, or take it out of source.url",
        )  # fmt: skip
    executed, _ = server.executed_gtids(session)
    has, purged = server.executed_gtids(other)
    if purged is not None and (gone := purged.minus(executed)):
        return Finding(
            name, "warning", f"it has purged transactions that the server which is read lacks: {shown(gone)}",
            "it is no replica of that server: take it out of source.url, or begin again with it",
        )  # fmt: skip
    late = executed.minus(has)
    state = f"it lacks {shown(late)} now" if late else "it has executed all that the server which is read has"
    return Finding(name, "ok", f"a stream could follow to this server; {state}")
