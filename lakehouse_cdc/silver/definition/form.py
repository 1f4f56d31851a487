"""What a silver table keeps of its source's rows, and the columns by which it says so: pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from lakehouse_cdc.errors import TableError
from lakehouse_cdc.model.table_layout import DELETED_AT, END_AT, START_AT
from lakehouse_cdc.schema.table import TableSchema

MOMENT = "struct<seq: decimal(38,0), commit_ts: timestamp>"  # of `__START_AT` and `__END_AT`
OPEN = f"{END_AT}.seq IS NULL"  # of the row as it is now
_SCD = "lakehouse_cdc.scd"  # the type, 1 where it is not said
_DELETES = "lakehouse_cdc.deletes"  # of type 1: soft, hard where it is not said, or none where rows are only added


class Form(Enum):
    """Rows as they are now; these and, marked as deleted, those that are gone; or every version of a row.

    Or rows without a key, which are only ever added.
    """

    ROWS = "type 1"
    MARKED = "type 1 with soft deletes"
    VERSIONS = "type 2"
    ADDED = "type 1 of rows that are only added"

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Those that a table of this form has beside the source's, `_seq` and `_commit_ts`, with their types."""
        return _COLUMNS[self]

    @property
    def indexed(self) -> tuple[str, ...]:
        """Those of them, and of their fields, that Delta is to keep statistics of."""
        return tuple(f"{name}.seq" if kind == MOMENT else name for name, kind in self.columns)

    @property
    def buries(self) -> bool:
        """Whether such a table needs tombstones beside it: nothing in it says what is gone."""
        return self is Form.ROWS

    @property
    def standing(self) -> str:
        """SQL: whether a row of such a table is one as it is now."""
        return {Form.MARKED: f"{DELETED_AT} IS NULL", Form.VERSIONS: OPEN}.get(self, "true")

    @property
    def properties(self) -> dict[str, str]:
        """What a table says of itself."""
        if self is Form.VERSIONS:
            return {_SCD: "2"}
        return {_SCD: "1", _DELETES: {Form.MARKED: "soft", Form.ADDED: "none"}.get(self, "hard")}

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Form:
        """The inverse."""
        if properties.get(_SCD) == "2":
            return cls.VERSIONS
        return {"soft": cls.MARKED, "none": cls.ADDED}.get(properties.get(_DELETES, "hard"), cls.ROWS)

    @classmethod
    def of_columns(cls, names: Iterable[str]) -> Form:
        """That of a table, also of a version of it, with these columns; rows that are only added tell by no column."""
        there = set(names)
        return next(form for form in (cls.VERSIONS, cls.MARKED, cls.ROWS) if there >= {n for n, _ in form.columns})


def require_fit(schema: TableSchema, form: Form) -> None:
    """Raise TableError where a table of that schema cannot be kept so, for it lacks a key, or has one."""
    if form is Form.ADDED and schema.key:
        raise TableError(
            f"{schema.name} has the key ({', '.join(schema.key)}), and append is for tables without one",
            where=schema.name,
            hint=f"take append out of tables.{schema.name}; a silver table that was made so is to be moved away",
        )
    if form is not Form.ADDED and not schema.key:
        raise no_key(schema.name)


def no_key(name: str) -> TableError:
    """Why there is no silver table of a table without a key."""
    return TableError(
        f"{name} has no primary key, so it is in bronze alone",
        where=name,
        hint=f"tables.{name}: append: true if rows are only ever added, or key: [columns] that tell rows apart",
    )


_COLUMNS = {
    Form.ROWS: (),
    Form.ADDED: (),
    Form.MARKED: ((DELETED_AT, "timestamp"),),
    Form.VERSIONS: ((START_AT, MOMENT), (END_AT, MOMENT)),
}
