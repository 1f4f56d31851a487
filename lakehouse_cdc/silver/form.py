"""What a silver table keeps of its source's rows, and the columns by which it says so: pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from lakehouse_cdc.model.layout import DELETED_AT, END_AT, START_AT

MOMENT = "struct<seq: decimal(38,0), commit_ts: timestamp>"  # of `__START_AT` and `__END_AT`
OPEN = f"{END_AT}.seq IS NULL"  # of the row as it is now
_SCD = "lakehouse_cdc.scd"  # the type, 1 where it is not said
_DELETES = "lakehouse_cdc.deletes"  # of type 1: soft, or hard where it is not said


class Form(Enum):
    """Rows as they are now; these and, marked as deleted, those that are gone; or every version of a row."""

    ROWS = "type 1"
    MARKED = "type 1 with soft deletes"
    VERSIONS = "type 2"

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
        return {Form.ROWS: "true", Form.MARKED: f"{DELETED_AT} IS NULL", Form.VERSIONS: OPEN}[self]

    @property
    def properties(self) -> dict[str, str]:
        """What a table says of itself."""
        return {_SCD: "2" if self is Form.VERSIONS else "1", _DELETES: "soft" if self is Form.MARKED else "hard"}

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Form:
        """The inverse."""
        if properties.get(_SCD) == "2":
            return cls.VERSIONS
        return cls.MARKED if properties.get(_DELETES) == "soft" else cls.ROWS

    @classmethod
    def of_columns(cls, names: Iterable[str]) -> Form:
        """That of a table, also of a version of it, with these columns."""
        there = set(names)
        return next(form for form in (cls.VERSIONS, cls.MARKED, cls.ROWS) if there >= {n for n, _ in form.columns})


_COLUMNS = {
    Form.ROWS: (),
    Form.MARKED: ((DELETED_AT, "timestamp"),),
    Form.VERSIONS: ((START_AT, MOMENT), (END_AT, MOMENT)),
}
