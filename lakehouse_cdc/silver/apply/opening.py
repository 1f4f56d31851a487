"""What has to hold before rows are written to a silver table, and the writer of its form then.

A table that is there is what its properties say, and the configuration wants the same: otherwise it is refused, by
name, before anything is written. One that is not there is made, once its columns are known to fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from lakehouse_cdc.errors import TableError, codes
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.table_state import Columns
from lakehouse_cdc.model.table_layout import Layout, Table
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.batch.computed_columns import derived
from lakehouse_cdc.silver.definition.column_mapping import Shape
from lakehouse_cdc.silver.definition.form import Writer, WriterArguments
from lakehouse_cdc.silver.definition.policy import Policy, require_names_free, require_usable_name
from lakehouse_cdc.silver.tables import table_definition
from lakehouse_cdc.silver.tables.names import own_table
from lakehouse_cdc.silver.tables.properties import (
    SCHEMA_ID,
    SCHEMA_SEQ,
    FrozenShape,
    Held,
    held_by_others,
)
from lakehouse_cdc.sinks.schema_cache import Schemas

Rows = Callable[[], DataFrame]


@dataclass(frozen=True)
class Opening:
    """Of the silver table of the source table `name`; `policy` is as it is for the schema that the rows have."""

    layout: Layout
    schemas: Schemas
    name: str
    keep_days: float  # of tombstones
    policy: Policy

    @property
    def table(self) -> Table:
        return self.layout.silver_table(self.name)

    def make(
        self, session: SparkSession, schema: TableSchema, rows: Rows, *, since: int, in_steps: bool
    ) -> tuple[Held, Writer]:
        """Make the table for rows of that schema from the seq `since` on.

        It says that it is being built if it is to be filled in several steps. Raises ConfigError or TableError where
        it cannot be made as it is configured.
        """
        policy = self.policy
        require_usable_name(self.table, self.name)
        policy.require_fit(schema)
        shape = self._first_shape(session, schema, rows)
        require_names_free(shape, self.table)
        engine = table_definition.make(
            session, self.layout, shape, self._added(session, shape), in_steps=in_steps, policy=policy, since=since
        )
        of_part = self.table.part is not None
        held = replace(
            Held.of({SCHEMA_ID: schema.id, SCHEMA_SEQ: str(since)}, ()),
            building=in_steps or of_part, form=policy.form, transform=shape.transform,
            frozen=FrozenShape.of_shape(shape) if of_part else None, engine=engine, in_steps=in_steps,
        )  # fmt: skip
        return held, self.writer(session, shape, held, fresh=True)

    def writer(self, session: SparkSession, shape: Shape, held: Held, *, fresh: bool = False, step: str = "") -> Writer:
        """That of the table's form, for rows of a shape; `step` tells apart what one batch writes in several steps."""
        if shape.frozen and not self.policy.freezes:
            raise codes.SILVER_FROZEN_EARLIER.error(
                f"the silver table of {self.name} was frozen while its source changed, and is to evolve now",
                where=str(self.table),
                hint="move it away to have it built again from bronze, or let its schema_changes be freeze",
            )
        form = held.form
        added = derived(session, shape, self.table)
        kept = table_definition.require_shape(session, self.layout, shape.schema, added, held.kept, form=form)
        arguments = WriterArguments(
            self.layout, shape, held.schema_seq, kept,
            fresh=fresh, keep_days=self.keep_days, track=self.policy.track, step=step,
        )  # fmt: skip
        return form.writer(session, arguments)

    def shape(self, session: SparkSession, schema: TableSchema, held: Held, rows: Rows) -> Shape:
        """The table's own, with where its values come from in rows of the schema."""
        if held.frozen is None:
            return Shape.of(schema, held.transform)
        self.schemas.learn(session, [held.frozen.schema_id], rows)
        return Shape(self.schemas[held.frozen.schema_id], schema, held.frozen.sources, held.transform)

    def require_prefix(self, session: SparkSession) -> None:
        """Refuse a table whose own columns have another prefix than is configured."""
        there = own_table(SparkReader(session), self.layout, self.name)
        if there is not None and there.own != self.table.own:
            raise codes.SILVER_PREFIX_CHANGED.error(
                f"silver's own columns in the table of {self.name} begin with {there.own.prefix},"
                f" and are to begin with {self.table.own.prefix}",
                where=str(self.table),
                hint="move it away to have it built again from bronze, or set target.metadata_prefix back",
            )

    def require_same(self, held: Held) -> None:
        """Refuse a table of another form or transform than is configured."""
        self._require_same_form(held)
        if held.transform != self.policy.transform:
            raise codes.SILVER_TRANSFORM_CHANGED.error(
                f"the silver table of {self.name} was made with another rename, computed, filter or metadata",
                where=str(self.table),
                hint="move it away to have it built again from bronze, or set these back",
            )

    def _require_same_form(self, held: Held) -> None:
        wanted = self.policy
        if held.form is not wanted.form:
            raise codes.SILVER_FORM_CHANGED.error(
                f"the silver table of {self.name} is of {held.form.title}, and is to be of {wanted.form.title}",
                where=str(self.table),
                hint="move it away to have it built again from bronze, or set scd and deletes back",
            )

    def _first_shape(self, session: SparkSession, schema: TableSchema, rows: Rows) -> Shape:
        """That of a table that is not there, or that others go into so far."""
        others, transform = held_by_others(SparkReader(session), self.layout, self.name), self.policy.transform
        if others is None or others.base is None:
            return Shape.of(schema, transform)
        self.schemas.learn(session, [others.base], rows)
        shape = Shape.joining(self.schemas[others.base], schema, transform, str(self.table))
        self._require_same_form(others)
        return shape

    def _added(self, session: SparkSession, shape: Shape) -> Columns:
        """The columns of the transform. Raises ConfigError: nothing was ever written by it."""
        try:
            return derived(session, shape, self.table)
        except TableError as error:
            raise codes.TRANSFORM_INVALID.error(
                error.what,
                where=error.where,
                hint=f"correct rename, computed, filter or metadata of tables.{self.name}, and run again",
            ) from error
