"""What an error number of the server, or of the client library, means to us: its code, and so whether to try again.

A number that is not known to pass by itself is definite: trying again would hide it. Numbers from 2000 to 2999 are the
client's (MySQL, "Client Error Message Reference"), all others the server's ("Server Error Message Reference").
"""

from __future__ import annotations

import re

from lakehouse_cdc.errors import CdcError, Code, codes

_NUMBERS: dict[Code[CdcError], tuple[int, ...]] = {
    codes.CONNECTION_LOST: (
        *(2002, 2003, 2006, 2013, 2014, 2027, 2055),  # not reachable, gone away, lost, out of step
        *(1042, 1043, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 1927, 4031),  # network, connection ended
    ),
    codes.SERVER_OVERLOADED: (
        *(1021, 1037, 1038, 1041, 1114, 1135),  # disk, memory or threads are short now
        *(1040, 1203, 1226),  # too many connections, of all or of this user
    ),
    codes.SERVER_RESTARTING: (1053, 1077, 1079, 1080, 3032, 3169),  # shutdown, offline mode
    codes.STATEMENT_INTERRUPTED: (1205, 1213, 1317, 1412, 1461, 1615, 3024, 3168, 3572),  # locks, killed, out of time
    codes.ACCESS_DENIED: (1045, 1130, 1698, 1820, 1862, 3118),
    codes.RIGHT_MISSING: (1044, 1142, 1143, 1227, 1370),
    codes.OBJECT_MISSING: (1049, 1051, 1054, 1146),
    codes.TABLE_DAMAGED: (1016, 1017, 1030, 1033, 1034, 1035, 1194, 1195, 1712, 1812, 1814, 1877, 1932),
    codes.AUTHENTICATION_UNSUPPORTED: (1251, 1275, 2059),
    codes.TLS_FAILED: (2026, 3159),
    codes.HOST_UNKNOWN: (2005,),
    codes.BINLOG_DISABLED: (1381,),
    codes.XA_RECOVER_DENIED: (1401,),  # XA RECOVER without the right
}
_PRIVILEGE_NEEDED = 1227  # ER_SPECIFIC_ACCESS_DENIED_ERROR
_CODES = {number: code for code, numbers in _NUMBERS.items() for number in numbers}
_USER = "the user of the source"  # in hints: the account takes its place, where it is known
_PRIVILEGES = re.compile(r"\bthe ([A-Z_, ]+) privilege\(s\)")
_SELECT = f"GRANT SELECT ON *.* TO {_USER}, or on the databases that are captured"
_EXPIRED = "the password has expired: give the user another one (ALTER USER, IDENTIFIED BY)"
_HINTS = {  # where a number says more than its code does
    1698: "the server authenticates the user by another way than a password; use an account with a password",
    1130: "the server does not accept this host: CREATE USER for it",
    1044: _SELECT, 1142: _SELECT, 1143: _SELECT,
    1227: f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {_USER}",
    1401: f"GRANT XA_RECOVER_ADMIN ON *.* TO {_USER}",
    3032: "run again when the server has left the offline mode (SET GLOBAL offline_mode = OFF)",
    1049: "check the name of the database",
    1820: _EXPIRED, 1862: _EXPIRED,
    2003: "check host and port, and that the server runs",
    2026: "the TLS handshake failed, or the server offers no TLS: see source.tls",
    3159: "the server requires TLS: set source.tls: required",
    3118: "the account is locked: unlock it (ALTER USER, ACCOUNT UNLOCK)",
}  # fmt: skip


def server_error(number: int, text: str, where: str, account: str = "") -> CdcError:
    """The error for `number`, whose message is `text`, at `where` (a server or a table).

    `account` is that of the session, 'user'@'host', where it is known.
    """
    who = "the connection failed with" if 2000 <= number < 3000 else "the server answered with"
    code = _CODES.get(number, codes.STATEMENT_REFUSED)
    hint = _HINTS.get(number, "")
    if number == _PRIVILEGE_NEEDED and (named := _PRIVILEGES.search(text)):
        hint = f"GRANT {named[1].split(', ')[-1]} ON *.* TO {_USER}"  # any of them suffices; SUPER is named first
    return code.error(f"{who} error {number}: {text}", where=where, hint=hint.replace(_USER, account or _USER))
