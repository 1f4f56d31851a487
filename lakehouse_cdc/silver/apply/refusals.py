"""Which errors are about one silver table alone, and why it cannot continue then."""

from __future__ import annotations

from lakehouse_cdc.errors import CdcError, TableError, codes
from lakehouse_cdc.lake.spark_errors import conditions, raised_in_sql, violated
from lakehouse_cdc.model.table_layout import Table, quoted


def refusal(table: str, silver: Table, error: Exception) -> TableError | None:
    """What one table alone cannot continue for, if that is what the error says. `silver` is its silver table."""
    ours = error if isinstance(error, CdcError) else raised_in_sql(error)
    if isinstance(ours, TableError):
        return ours
    if "INVALID_VARIANT_CAST" in conditions(error):
        what = f"a value of {table} in bronze does not fit its column in silver"
        hint = "the table was altered in a way that was not seen; signal snapshot reads it again"
        return codes.SILVER_VALUE_UNFIT.error(what, hint=hint, table=table)
    if (constraint := violated(error)) is not None:
        kind, name = constraint
        change = f"ALTER COLUMN {quoted(name)} DROP NOT NULL" if kind == "column" else f"DROP CONSTRAINT {quoted(name)}"
        what = f"a row violates the constraint of the {kind} {name}, which the silver table of {table} was given"
        hint = f"take it back, and run again: ALTER TABLE {silver.sql} {change}"
        return codes.SILVER_CONSTRAINT_VIOLATED.error(what, hint=hint, table=table)
    return None
