"""The status variables of a QUERY event: what of the writing session's state the server logged with a statement.

A variable is a byte of code and a value, whose size depends on the code alone or is written in front of it. The codes
are not in order: MariaDB 11.5 and later write 131 before the character set (4). A code that is not known here has a
value of unknown size, so nothing after it can be read; what has not been read by then is None, never a default.

Sources: MySQL `libs/mysql/binlog/event/statement_events.h`, `Query_event::Query_event_status_vars` (up to 9.x); MariaDB
`sql/log_event.h` and `Query_log_event` in `sql/log_event.cc` (up to 11.8; 131 as 11.8.9 writes it).
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse_cdc.mysql.binlog.cursor import Cursor

UNKNOWN_ZONE = "unknown"
_CATALOG, _SQL_MODE, _CHARSET, _TIME_ZONE, _UPDATED_DATABASES = 2, 1, 4, 5, 12
_GTID_FLAGS3, _COLLATIONS = 130, 131
_FIXED = {
    0: 4,  # flags2: autocommit, foreign_key_checks, ...
    3: 4,  # auto_increment_increment, auto_increment_offset
    7: 2,  # lc_time_names
    8: 2,  # collation_database
    9: 8,  # the tables of a multi-table update
    10: 4,  # master_data_written
    13: 3,  # microseconds of the statement's time
    16: 1,  # explicit_defaults_for_timestamp
    17: 8,  # the XID of an atomic DDL
    18: 2,  # default_collation_for_utf8mb4
    19: 1,  # sql_require_primary_key
    20: 1,  # default_table_encryption
    128: 3,  # MariaDB: microseconds
    129: 8,  # MariaDB: the XID of a DDL
}
_STRINGS = {6: 1, 11: 2}  # catalog; user and host: so many strings, each after a byte of length
_TOO_MANY_DATABASES = 254  # in place of their number: none is listed
_ALTER_ENDS = 4 | 8  # flags of MariaDB's 130 that the number of the ALTER's start follows


@dataclass(frozen=True)
class SessionState:
    """The sql_mode (as bits) and the collation id of character_set_client; None where they are not known.

    `time_zone` is logged only where the statement used it: None for one that did not, `UNKNOWN_ZONE` where it may have.
    """

    sql_mode: int | None
    collation: int | None
    time_zone: str | None = None


def session_state(variables: Cursor) -> SessionState:
    """Read the block of status variables. Raises DefiniteError where a variable of a known size is cut off."""
    mode: int | None = None
    collation: int | None = None
    zone: str | None = None
    while variables.left:
        code = variables.byte()
        if code == _SQL_MODE:
            mode = variables.u64()
        elif code == _CHARSET:
            collation = variables.u16()
            variables.skip(4)  # collation_connection, collation_server
        elif code == _TIME_ZONE:
            zone = variables.take(variables.byte()).decode("ascii", "replace")
        elif not _skipped(variables, code):
            zone = zone or UNKNOWN_ZONE
            break
    return SessionState(mode, collation, zone)


def _skipped(variables: Cursor, code: int) -> bool:
    """Skip the value of a variable; False where its size is not known."""
    if code in _FIXED:
        variables.skip(_FIXED[code])
    elif code in _STRINGS:
        for _ in range(_STRINGS[code]):
            variables.skip(variables.byte())
    elif code == _CATALOG:
        variables.skip(variables.byte() + 1)  # and a zero byte
    elif code == _UPDATED_DATABASES:
        count = variables.byte()
        for _ in range(0 if count == _TOO_MANY_DATABASES else count):
            while variables.byte():
                pass
    elif code == _GTID_FLAGS3:
        variables.skip(8 if variables.byte() & _ALTER_ENDS else 0)
    elif code == _COLLATIONS:
        variables.skip(4 * variables.byte())  # pairs of a character set's and a collation's id
    else:
        return False
    return True
