"""How large tables are, as the server's statistics say."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse_cdc.model.table_name import join
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.uncaptured import CAPTURED


@dataclass(frozen=True)
class Estimate:
    """About how many rows a table has, and how many bytes they take, without indexes."""

    rows: int = 0
    bytes: int = 0


def estimates(session: Session) -> dict[str, Estimate]:
    """Those of all tables that this user sees, by `database.table`; 0 where the server has none."""
    listed = session.query(
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_ROWS, DATA_LENGTH FROM INFORMATION_SCHEMA.TABLES"
        f" WHERE TABLE_TYPE IN ({', '.join(['%s'] * len(CAPTURED))})",
        CAPTURED,
    )
    return {
        join(str(database), str(table)): Estimate(int(rows or 0), int(size or 0))
        for database, table, rows, size in listed
    }
