"""The comments of tables and columns, as INFORMATION_SCHEMA has them now."""

from __future__ import annotations

from lakehouse_cdc.model.table_name import join
from lakehouse_cdc.mysql.catalog import show_generated_keys
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.uncaptured import CAPTURED
from lakehouse_cdc.schema.comments import Comments
from lakehouse_cdc.schema.selection import SYSTEM_SCHEMAS, Selection


def read_comments(session: Session, selection: Selection) -> dict[str, Comments]:
    """Those of the selected tables that this user sees, by `database.table`."""
    show_generated_keys(session)
    places = ", ".join(["%s"] * len(SYSTEM_SCHEMAS))
    of_tables = session.query(
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_COMMENT FROM INFORMATION_SCHEMA.TABLES"
        f" WHERE TABLE_TYPE IN ({', '.join(['%s'] * len(CAPTURED))}) AND TABLE_SCHEMA NOT IN ({places})",
        [*CAPTURED, *SYSTEM_SCHEMAS],
    )
    of_columns = session.query(
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_COMMENT FROM INFORMATION_SCHEMA.COLUMNS"
        f" WHERE TABLE_SCHEMA NOT IN ({places}) ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION",
        SYSTEM_SCHEMAS,
    )
    tables = {join(str(database), str(table)): str(text or "") for database, table, text in of_tables}
    columns: dict[str, dict[str, str]] = {}
    for database, table, column, text in of_columns:
        columns.setdefault(join(str(database), str(table)), {})[str(column)] = str(text or "")
    return {name: Comments(text, columns.get(name, {})) for name, text in tables.items() if selection.matches(name)}
