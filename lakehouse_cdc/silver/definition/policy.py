"""What is configured for one silver table, and which tables of the source can be kept so.

A column of the source, by the name that it has in silver, may not have that of a column which silver adds. Bronze has
such a table all the same, exactly: a row is one value there. So the table is refused by silver alone, and its silver
table is built from bronze once the prefix of silver's columns, or the name of the column in silver, is another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakehouse_cdc.errors import TableError, codes
from lakehouse_cdc.model.own_columns import END_AT, START_AT
from lakehouse_cdc.model.table_layout import Table
from lakehouse_cdc.model.table_name import pattern_of
from lakehouse_cdc.schema import comments
from lakehouse_cdc.schema.comments import Comments
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.definition.column_mapping import Shape, columns_of
from lakehouse_cdc.silver.definition.engine import Configured
from lakehouse_cdc.silver.definition.form import Form, form_named, no_key
from lakehouse_cdc.silver.definition.transform import Transform

_NOT_CLUSTERED = ("boolean", "binary", "variant")  # nor structs


@dataclass(frozen=True)
class Policy:
    """What silver keeps of a table, and what it does as the table's schema changes.

    `drops`: it drops the columns that go, else it keeps them. `beside`: a column that gets another type stays as it is,
    beside a new one, else it is rewritten. `freezes`: silver keeps its shape, whatever comes and goes (see
    `column_mapping`). `form` is what it keeps of rows; of every version (SCD type 2), a new one for each change of the
    columns `track` (None: of all). `transform` is what it makes of the source's columns. `properties`: what Delta is
    set as the table is made; `cluster_by`: the columns that its files are clustered by, where it has them. `engine`:
    what may write it (see `engine`). `comments` are those of the source's table and columns, as far as they are known.
    """

    drops: bool = False
    beside: bool = False
    freezes: bool = False
    form: Form = field(default_factory=lambda: form_named("current"))
    track: tuple[str, ...] | None = None
    transform: Transform = field(default_factory=Transform)
    properties: Mapping[str, str] = field(default_factory=dict)
    cluster_by: tuple[str, ...] = ()
    engine: Configured = "spark"
    comments: Comments = comments.NONE

    @property
    def column_comments(self) -> dict[str, str]:
        """The comments of columns, by their names in silver, of those that have one."""
        return {self.transform.silver_name(name): text for name, text in self.comments.columns.items() if text}

    def for_schema(self, schema: TableSchema) -> Policy:
        """The same of a table with that schema."""
        return replace(self, form=self.form.for_schema(schema))

    def require_fit(self, schema: TableSchema) -> None:
        """Raise TableError where rows of a table with that schema cannot be kept so."""
        self.form.require_fit(schema)
        if self.track is not None and not schema.key:
            raise no_key(schema.name)  # without one a row that has changed is another row

    def refusal(self, schemas: Sequence[TableSchema], silver: Table) -> TableError | None:
        """Why a source table that has had these schemas, in order, cannot be kept so in `silver`; None if it can.

        A silver table begins with the schema from which on the form fits. From there it goes through all of them, but
        for one that is frozen.
        """
        form = self.for_schema(schemas[-1]).form
        unfit = [n for n, schema in enumerate(schemas) if not form.fits(schema)]
        followed = schemas[unfit[-1] + 1 :] if unfit else schemas
        try:
            require_usable_name(silver, schemas[-1].name)
            replace(self, form=form).require_fit(schemas[-1])
            self._require_clustered(Shape.of(followed[0], self.transform), form, silver)
            for schema in followed[:1] if self.freezes else followed:
                require_names_free(Shape.of(schema, self.transform), silver)
        except TableError as error:
            return error
        return None

    def _require_clustered(self, shape: Shape, form: Form, silver: Table) -> None:
        """As the table is made; of computed columns only Spark knows the types."""
        held = columns_of(shape.schema)
        held += [*self.transform.metadata_columns, *form.columns(silver.own)]
        held += [(silver.own.seq, "decimal(38,0)"), (silver.own.commit_ts, "timestamp")]
        wanted = [name for name in self.cluster_by if name not in self.transform.computed]
        require_clustered(shape.schema.name, wanted, held)


def require_clustered(name: str, cluster_by: Iterable[str], columns: Sequence[tuple[str, str]]) -> None:
    """Raise TableError where the silver table of `name`, with these columns, cannot be clustered so."""
    kinds = dict(columns)
    for column in cluster_by:
        if not clusterable(columns, [column]):
            why = f"it is {kinds[column]}" if column in kinds else "it has no such column"
            raise codes.CLUSTERING_REFUSED.error(
                f"the silver table of {name} cannot be clustered by {column}: {why}",
                where=name,
                hint=f"tables.{name}.cluster_by names columns of silver: numbers, texts, dates or times",
            )


def clusterable(columns: Iterable[tuple[str, str]], names: Iterable[str]) -> list[str]:
    """Those names of columns by which Delta can cluster."""
    kinds = {name: kind for name, kind in columns if kind not in _NOT_CLUSTERED and not kind.startswith("struct")}
    return [name for name in names if name in kinds]


def require_usable_name(silver: Table, name: str) -> None:
    """Raise TableError where the catalog takes no table that is called as the silver table of `name`."""
    if not silver.has_usable_name:
        raise codes.SILVER_NAME_UNUSABLE.error(
            f"the catalog {silver.catalog} takes no table called {silver.name}, so {name} has no silver table",
            where=name,
            hint=f'set silver_name for it under tables: "{pattern_of(name)}": {{silver_name: "NAME"}}, where NAME has'
            " letters of ASCII, digits and _ alone, and run again",
            table=name,
        )


def require_names_free(shape: Shape, silver: Table) -> None:
    """Raise TableError where a column that comes from the source has the name of one that silver adds."""
    own, name = {name.lower() for name in silver.reserved}, shape.schema.name
    for column in shape.schema.captured:
        if column.name.lower() in own:
            source = shape.sources.get(column.name, column.name)
            hint = f'call it otherwise in silver (tables: {{"{pattern_of(name)}": {{rename: {{{source}: NAME}}}}}})'
            if column.name.upper() not in (START_AT, END_AT):
                hint += f", or set target.metadata_prefix to another prefix than {silver.own.prefix}"
            what = f"column {column.name} of {name} has the name of one that silver adds"
            raise codes.COLUMN_NAME_UNUSABLE.error(what, where=name, hint=hint)
