"""The forms of silver tables: what a table keeps of its source's rows. The base class and the registry.

Purpose: everything that differs by form is in the form's own object (`silver.forms`, one module each), so no other
module compares forms. The rest of silver, `ops`, `verify` and the configuration ask the object.

Invariant: a table is read by the form that wrote it. Its properties name it (`Form.properties`, `form_of`), and of an
older version, whose properties Delta does not keep, its columns do (`form_of_columns`).

Why it holds: `lakehouse_cdc.silver` imports every form before any module of it can read a table; `register` refuses two
forms that a table's properties could not tell apart.

Guards: `tests/silver/test_forms.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from lakehouse_cdc.errors import TableError, codes
from lakehouse_cdc.model.own_columns import END_AT, OwnColumns
from lakehouse_cdc.schema.table import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_cdc.model.commit_note import CommitNote
    from lakehouse_cdc.model.table_layout import Layout, Table
    from lakehouse_cdc.silver.batch.contents import SchemaBoundary, Segment
    from lakehouse_cdc.silver.definition.column_mapping import Shape

MOMENT = "struct<seq: decimal(38,0), commit_ts: timestamp>"  # of `__START_AT` and `__END_AT`
ENDED = f"{END_AT}.seq"  # NULL of a version that has not ended
OPEN = f"{ENDED} IS NULL"
SCD = "lakehouse_cdc.scd"  # the SCD type of a table; 1 where it is absent
DELETES = "lakehouse_cdc.deletes"  # of type 1: soft, hard where it is absent, or none where rows are only added
COPIES = "lakehouse_cdc.copies"  # of a table of versions or with soft deletes: numbered where it has no key


class Writer(Protocol):
    """The only writer of one silver table, for the rows of one schema. After an exception it is of no more use."""

    @property
    def shape(self) -> Shape:
        """The columns that it writes, and where their values come from."""

    def write(self, session: SparkSession, segment: Segment, note: CommitNote) -> None:
        """Apply the segment's rows. Applied again, or after newer ones, they leave the table as it would be."""


@dataclass(frozen=True)
class WriterArguments:
    """What a writer is made from. Its schema is in force since the change at seq `since` (0: the first one).

    `kept`: columns that the table has beside those of `shape`; they are NULL in every row that is written. `fresh`:
    nothing was applied to the table yet. `keep_days`: how long tombstones are kept. `track`: the columns whose change
    begins a version (None: all). `step` is in the names of its steps, lest another writer has the
    same in a batch.
    """

    layout: Layout
    shape: Shape
    since: int
    kept: Sequence[str]
    fresh: bool
    keep_days: float
    track: Sequence[str] | None
    step: str = ""

    @property
    def suffix(self) -> str:
        """Of the names of its steps: a batch has commits of its own under each schema."""
        return self.step + (f"@{self.since}" if self.since else "")


class Form(ABC):
    """One form. A subclass sets what differs from a table of rows as they are now; there is one object of each."""

    name: ClassVar[str]
    """As the configuration and the registry call it."""
    title: ClassVar[str]
    """As errors call it."""
    summary: ClassVar[str] = "as it is now"
    """The end of "`table` ..." in the comment of a table that AUTO CDC keeps."""
    comment: ClassVar[str]
    """The same in that of a table that this package's MERGE keeps."""
    properties: ClassVar[Mapping[str, str]]
    """Of the Delta table, by which its form is known. No two forms have the same."""

    needs_key: ClassVar[bool] = True
    has_tombstones: ClassVar[bool] = False
    """Whether deleted keys are in a table of tombstones: nothing in the table itself says what was deleted."""
    depends_on_order: ClassVar[bool] = True
    """Whether a batch that is older than what the table holds needs the table to be built again."""
    has_versions: ClassVar[bool] = False
    """Whether ended versions of a row are kept: columns then lose no value, and `track` has a meaning."""
    marks_deletes: ClassVar[bool] = False
    """Whether deleted rows are kept and marked."""
    counts_copies: ClassVar[bool] = False
    """Whether equal rows are told apart by a number, under a digest of their columns."""
    by_deltalake: ClassVar[bool] = False
    """Whether deltalake can apply a batch (see `silver.table_tasks`)."""
    not_verified: ClassVar[str | None] = None
    """What `verify` cannot compare, for the source has nothing like it."""

    scd_type: ClassVar[int] = 1
    """Of AUTO CDC."""
    auto_cdc_refusal: ClassVar[tuple[str, str] | None] = None
    """The setting that AUTO CDC cannot keep, and why."""

    def columns(self, own: OwnColumns) -> tuple[tuple[str, str], ...]:
        """Name and type of those that it adds to the source's columns; `own.seq` and `own.commit_ts` follow."""
        return ()

    def null_in_first_load(self, own: OwnColumns) -> frozenset[str]:
        """Those of `columns` that are NULL in a row that was read once; the others are then its (seq, commit time)."""
        return frozenset()

    def ended(self, own: OwnColumns) -> str | None:
        """The column, or field of one, that is NULL in the rows that the source has now; None: it has all of them."""
        return None

    def is_current(self, own: OwnColumns) -> str:
        """SQL: whether a row of the table is one that the source has now."""
        ended = self.ended(own)
        return "true" if ended is None else f"{ended} IS NULL"

    def indexed(self, own: OwnColumns) -> tuple[str, ...]:
        """Those of its columns, and of their fields, that Delta is to keep statistics of."""
        return tuple(f"{name}.seq" if kind == MOMENT else name for name, kind in self.columns(own))

    def require_fit(self, schema: TableSchema) -> None:
        """Raise TableError where a table of that schema cannot be kept in this form."""
        if not schema.key:
            raise no_key(schema.name)

    def for_schema(self, schema: TableSchema) -> Form:
        """The form that a table with that schema has where this one is configured."""
        return self

    def fits(self, schema: TableSchema) -> bool:
        """Whether `require_fit` raises nothing."""
        try:
            self.require_fit(schema)
        except TableError:
            return False
        return True

    @abstractmethod
    def writer(self, session: SparkSession, arguments: WriterArguments) -> Writer:
        """A writer of one table of this form."""

    @abstractmethod
    def resolve_equal_keys(self, session: SparkSession, table: Table, change: SchemaBoundary) -> None:
        """After a change of the key: remove rows that are equal under the new one, which the source reads again."""

    def __repr__(self) -> str:
        return self.name


_REGISTERED: dict[str, Form] = {}


def register(form: Form) -> None:
    """Make a form known by its name."""
    for other in _REGISTERED.values():
        if other.name == form.name or other.properties == form.properties:
            raise ValueError(f"forms {other.name} and {form.name} have equal names or properties")
    _REGISTERED[form.name] = form


def forms() -> tuple[Form, ...]:
    """All of them."""
    return tuple(_REGISTERED.values())


def form_names() -> list[str]:
    """The names of all forms."""
    return list(_REGISTERED)


def form_named(name: str) -> Form:
    """Raises ValueError for a name that no form has."""
    if name not in _REGISTERED:
        raise ValueError(f"there is no form {name}; there are {', '.join(_REGISTERED)}")
    return _REGISTERED[name]


def form_of(properties: Mapping[str, str]) -> Form:
    """That of a table with these properties: the form that sets the most of them."""
    known = {SCD: "1", DELETES: "hard"} | dict(properties)
    if known[SCD] != "1":
        known.pop(DELETES, None)
    fitting = [form for form in forms() if form.properties.items() <= known.items()]
    return max(fitting, key=lambda form: len(form.properties), default=form_named("current"))


def form_of_columns(names: Iterable[str], own: OwnColumns) -> Form:
    """That of a table, also of a version of it, with these columns: the form that adds the most of them.

    Forms that add the same columns are read the same way, so the first of them is returned.
    """
    there = set(names)
    fitting = [form for form in forms() if there >= {name for name, _ in form.columns(own)}]
    return max(fitting, key=lambda form: len(form.columns(own)))


def no_key(name: str) -> TableError:
    """Why there is no silver table of a table without a key."""
    return codes.SILVER_KEY_MISSING.error(
        f"{name} has no primary key, so it is in bronze alone",
        where=name,
        hint=f"give tables.{name} key: [columns] that tell rows apart, or take track out of it",
    )
