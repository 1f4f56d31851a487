"""The shape of a silver table, and where in the rows of the source its values come from: pure.

As a rule the two are one: silver has the columns and the key of the source's schema, by the names that are configured
them (see `transform`). A table that is frozen keeps its
shape while the schema of the source moves on. Then each of its columns follows the column of the source that it was,
through renames and other types, as long as there is one that silver was informed of:

- A column that comes is not followed. So the shape stays, whatever the source adds.
- A column that goes leaves its silver column without a source: NULL in every row written from then on. If one of its
  name comes later, in whatever case, that one is followed from there, and what older rows hold is what the source says
  that they hold in it: the constant that it was added with, or NULL. What the source cannot say it reads again.
- A value that has another type now is carried over where the way back gives the same value; where not it is an error
  of that value (see `batch.typed_columns`), for NULL would be a loss that nobody sees.
- Rows of silver are found by the source's key. So the key must still be the columns that it was, in that order, under
  whatever names, and a change that makes it another is refused: no row of silver could be found by it.

What a table follows is a function of the changes in their order, so it is the same however often they are met.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from lakehouse_cdc.errors import codes
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.definition.casts import castable
from lakehouse_cdc.silver.definition.transform import NOTHING, Transform

THAW = (
    "let its schema_changes be evolve: the next run builds the silver table again;"
    " one of several that go into one table is to be taken out of into"
)


def columns_of(schema: TableSchema) -> list[tuple[str, str]]:
    """Silver's columns for those of a source table: names, and Spark's types."""
    return [(c.name, require(c, schema.name).silver) for c in schema.captured]


@dataclass(frozen=True)
class Shape:
    """Silver's columns and key are those of `base`, as `transform` names them; rows come under `rows`.

    `sources` maps silver's columns to those of `rows` that they follow; one that follows none is not among them.
    """

    base: TableSchema
    rows: TableSchema
    sources: Mapping[str, str]
    transform: Transform = NOTHING

    @classmethod
    def of(cls, schema: TableSchema, transform: Transform = NOTHING) -> Shape:
        """Silver is as the source, but for what is configured."""
        names = transform.renamed(schema).captured
        sources = {name.name: c.name for name, c in zip(names, schema.captured, strict=True)}
        return cls(schema, schema, sources, transform)

    @classmethod
    def joining(cls, base: TableSchema, rows: TableSchema, transform: Transform, where: str) -> Shape:
        """That of a table that goes into one of the shape `base`: columns are those of the same name, in any case.

        Raises TableError where its key is another, or a column is of a type that silver's cannot hold.
        """
        there = {c.name.lower(): c.name for c in rows.captured}
        names = zip(transform.renamed(base).captured, base.captured, strict=True)
        sources = {name.name: there[c.name.lower()] for name, c in names if c.name.lower() in there}
        shape = cls(base, rows, sources, transform)
        shape._check(where)
        return shape

    @cached_property
    def schema(self) -> TableSchema:
        """Silver's columns of the source's, and the key; the name is that of the source's table."""
        named = replace(self.base, database=self.rows.database, table=self.rows.table)
        return self.transform.renamed(named)

    @property
    def names(self) -> list[str]:
        """The columns that silver writes of a row: the source's, then the computed ones."""
        return [*(c.name for c in self.schema.captured), *self.transform.computed]

    @property
    def plain(self) -> bool:
        """True if silver's columns of the source's are just those, by name and type."""
        return self._is_like(Shape.of(self.rows))

    @property
    def frozen(self) -> bool:
        """True if silver's columns, their types or the key are others than those configured for the source's."""
        return not self._is_like(Shape.of(self.rows, self.transform))

    def _is_like(self, other: Shape) -> bool:
        def silver(schema: TableSchema) -> list[tuple[str, str]]:
            return [(c.name, require(c, schema.name).silver) for c in schema.captured]

        one, two = self.schema, other.schema
        return self.sources == other.sources and silver(one) == silver(two) and one.key == two.key

    @property
    def ignored(self) -> tuple[str, ...]:
        """The source's columns that silver does not hold."""
        followed = {*self.sources.values()}
        return tuple(c.name for c in self.rows.captured if c.name not in followed)

    def after(self, new: TableSchema, origin: Mapping[str, str], filled: Mapping[str, str], where: str) -> Frozen:
        """The same shape after a change of the source's schema to `new`; `where` it is, for an error.

        `origin` maps columns of `new` to those that they were, `filled` has what all rows hold in some of the others.
        Raises TableError for another key, and for a column whose new type silver's cannot hold.
        """
        now = {c.name for c in new.captured}
        became = {was: name for name, was in origin.items() if name in now}
        held = {name: became[was] for name, was in self.sources.items() if was in became}
        captured = {c.name for c in self.rows.captured}
        # one that was left out until now is as new to silver as one that was added
        free = {name.lower(): source for name, source in Shape.of(new, self.transform).sources.items()}
        free = {name: source for name, source in free.items() if origin.get(source) not in captured}
        taken = {
            c.name: free[c.name.lower()]
            for c in self.schema.captured
            if c.name not in held and c.name.lower() in free
        }  # fmt: skip
        shape = Shape(self.base, new, {**held, **taken}, self.transform)
        shape._check(where)
        return Frozen(shape, {name: filled.get(source) for name, source in taken.items()})

    def _check(self, where: str) -> None:
        table = self.schema.name
        if [self.sources.get(name) for name in self.schema.key] != [*self.rows.key]:
            raise codes.FROZEN_KEY_CHANGED.error(
                f"the key of {table} is ({', '.join(self.rows.key)}) now, and its silver table is frozen",
                where=where,
                hint=THAW,
            )
        by_name = {c.name: c for c in self.rows.captured}
        for column in self.schema.captured:
            if (source := self.sources.get(column.name)) is None:
                continue
            held, comes = (require(c, table).silver for c in (column, by_name[source]))
            if held != comes and {held, comes} != {"string", "variant"} and not castable(comes, held):
                raise codes.FROZEN_COLUMN_UNFIT.error(
                    f"column {source} of {table} is {comes} now, which {column.name} of its frozen silver table, "
                    f"of {held}, cannot hold",
                    where=where,
                    hint=THAW,
                )


@dataclass(frozen=True)
class Frozen:
    """A shape after a change, and what every row holds from there on in columns that follow another (None: NULL)."""

    shape: Shape
    retaken: Mapping[str, str | None]
