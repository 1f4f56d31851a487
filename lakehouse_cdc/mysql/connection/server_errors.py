"""What an error number of the server, or of the client library, means to us: try again, or change something first.

A number that is not known to pass by itself is definite: trying again would hide it. Numbers from 2000 to 2999 are the
client's (MySQL, "Client Error Message Reference"), all others the server's ("Server Error Message Reference").
"""

from __future__ import annotations

from lakehouse_cdc.errors import CdcError, DefiniteError, TransientError

_LOST = {2002, 2003, 2006, 2013, 2014, 2027, 2055}  # not reachable, gone away, lost, out of step
_PASSING = _LOST | {
    *(1021, 1037, 1038, 1041, 1114, 1135),  # disk, memory or threads are short now
    *(1040, 1203, 1226),  # too many connections, of all or of this user
    *(1042, 1043, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 1927, 4031),  # network, connection ended
    *(1053, 1077, 1079, 1080, 3169),  # shutdown
    *(1205, 1213, 1317, 1412, 1461, 1615, 3024, 3168, 3572),  # locks, deadlock, killed, changed, out of time
}  # fmt: skip
_SELECT = "GRANT SELECT ON database.table TO the user of the source"
_GONE = "the table was dropped, renamed or changed, or its name is misspelt"
_HINTS = {
    1045: "check the user and the password (source.url, source.password)",
    1698: "the server knows the user by another way than a password; use an account with one",
    1130: "the server does not let this host in: CREATE USER for it",
    1044: _SELECT, 1142: _SELECT, 1143: _SELECT, 1370: _SELECT,
    1227: "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO the user of the source",
    1049: "check the name of the database", 1051: _GONE, 1054: _GONE, 1146: _GONE,
    1251: "the server's authentication plugin is not supported; use caching_sha2_password",
    1820: "the password has expired: ALTER USER ... IDENTIFIED BY a new one",
    1862: "the password has expired: ALTER USER ... IDENTIFIED BY a new one",
    2003: "check host and port, and that the server runs",
    2005: "check the host (source.url)",
    2026: "the TLS handshake failed, or the server offers no TLS: see source.tls",
    2059: "the server's authentication plugin is not supported; use caching_sha2_password",
    3159: "the server wants TLS: set source.tls: required",
    3118: "the account is locked: ALTER USER ... ACCOUNT UNLOCK",
}  # fmt: skip


def server_error(number: int, text: str, where: str) -> CdcError:
    """Error `number`, whose message is `text`, met at `where` (a server or a table), as one of our two kinds."""
    kind = TransientError if number in _PASSING else DefiniteError
    who = "the connection failed with" if 2000 <= number < 3000 else "the server answered with"
    return kind(f"{who} error {number}: {text}", where=where, hint=_HINTS.get(number, ""))
