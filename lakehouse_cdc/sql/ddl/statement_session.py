"""What the event of a statement in the binlog says of the session that ran it, as far as DDL depends on it.

Sources: MySQL `libs/mysql/binlog/event/statement_events.h` and MariaDB `sql/log_event.h` (status variables of a query
event), MySQL `sql/system_variables.h` and MariaDB `sql/sql_class.h` (the bits of sql_mode).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_REAL_AS_FLOAT = 1
_STRICT = 1 << 21 | 1 << 22  # STRICT_TRANS_TABLES, STRICT_ALL_TABLES: the same bits on all servers
_NO_ENGINE_SUBSTITUTION = 1 << 30
_PAD_CHAR_TO_FULL_LENGTH = 1 << 31
_EMPTY_STRING_IS_NULL = 1 << 32  # MariaDB's; to MySQL the bit is TIME_TRUNCATE_FRACTIONAL
_FIXED_ZONE = re.compile(r"UTC|[+-][0-9]{1,2}:[0-9]{2}")


@dataclass(frozen=True)
class StatementSession:
    """What a statement's own event says of the session that ran it.

    `sql_mode` are bits, None where not known. `time_zone` is the name that the event has; a server logs it only where
    the statement used it, so it is None for one that did not.
    """

    sql_mode: int | None = None
    time_zone: str | None = None

    @property
    def strict(self) -> bool:
        """Whether the server refuses to change a value where it does not fit."""
        return bool((self.sql_mode or 0) & _STRICT)

    @property
    def keeps_to_the_engine(self) -> bool:
        """Whether the server refuses an engine that it does not have, and takes no other in its place."""
        return bool((self.sql_mode or 0) & _NO_ENGINE_SUBSTITUTION)

    @property
    def pads(self) -> bool:
        """Whether a CHAR may be read with spaces up to its length."""
        return self.sql_mode is None or bool(self.sql_mode & _PAD_CHAR_TO_FULL_LENGTH)

    @property
    def empty_is_null(self) -> bool:
        """Whether the literal '' may be NULL."""
        return self.sql_mode is None or bool(self.sql_mode & _EMPTY_STRING_IS_NULL)

    @property
    def real_is_float(self) -> bool | None:
        """Whether REAL is another name of FLOAT, and not of DOUBLE; None where that is not known."""
        return None if self.sql_mode is None else bool(self.sql_mode & _REAL_AS_FLOAT)

    @property
    def local_time(self) -> bool:
        """Whether the statement used a time zone in which two moments may have one local time."""
        return self.time_zone is not None and not _FIXED_ZONE.fullmatch(self.time_zone)


UNKNOWN_SESSION = StatementSession()
