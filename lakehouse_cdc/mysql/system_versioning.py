"""MariaDB's system-versioned tables as the server describes them (see `schema.versioning`).

Their TABLE_TYPE in INFORMATION_SCHEMA.TABLES is SYSTEM VERSIONED. Columns that are declared for the period are listed
among the others, with ROW START and ROW END as their expressions; those that are not are listed nowhere.

Such columns may also be of BIGINT, and hold numbers of transactions. The rows of these tables are not in the log: under
every `binlog_format` the server logs what changes them as text (seen on 10.11 and 11.8), so they are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakehouse_cdc.model.table_name import join
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.schema.versioning import Versioning

VERSIONED = "SYSTEM VERSIONED"
_START, _END = "ROW START", "ROW END"
# a row of what the catalog is asked of columns: name, ..., expression, EXTRA, place
_NAME, _EXPRESSION = 0, -3


def greatest_end(session: Session) -> str:
    """The greatest TIMESTAMP that the server knows, in UTC: that is when current rows end."""
    greatest = session.scalar("SELECT COALESCE(FROM_UNIXTIME(4294967295.999999), FROM_UNIXTIME(2147483647.999999))")
    return str(greatest)


def is_period(row: Sequence[Any]) -> bool:
    """Whether a column, by its row of the catalog, is the start or the end of the period."""
    return row[_EXPRESSION] in (_START, _END)


def period(rows: Sequence[Sequence[Any]], greatest: str) -> Versioning:
    """The period of a versioned table with these columns."""
    declared = {str(row[_EXPRESSION]): str(row[_NAME]) for row in rows if is_period(row)}
    if declared.keys() != {_START, _END}:
        return Versioning.hidden(greatest)
    return Versioning(declared[_START], declared[_END], greatest)


def by_transactions(session: Session) -> dict[str, str]:
    """The tables that are versioned by numbers of transactions, each with the reason why it is not captured."""
    rows = session.query(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM INFORMATION_SCHEMA.COLUMNS"
        f" WHERE GENERATION_EXPRESSION = '{_START}' AND DATA_TYPE = 'bigint'"
    )
    why = "is versioned by transactions (BIGINT columns), and its changes are logged as text alone"
    return {join(str(database), str(table)): why for database, table in rows}
