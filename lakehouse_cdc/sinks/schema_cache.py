"""The schemas that a batch's rows were written under, by their ids.

They are in `<bronze>.schemas`; those that came with this very batch may not be there yet where bronze is still at
work on it, and are taken from the batch's own s rows. A schema is named by its content, so it cannot be another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.engines.choice import engine_of
from lakehouse_cdc.model.bronze_row import LEFT
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.schema.table import TableSchema


class Schemas:
    """Every schema met so far, by id; asks the tables for others."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._known: dict[str, TableSchema] = {}

    def learn(self, spark: SparkSession, ids: Iterable[str], batch: Callable[[], DataFrame]) -> None:
        """Get those ids; `batch` gives bronze's rows, where they are needed.

        Raises DefiniteError for one that neither bronze nor the batch describes.
        """
        wanted = set(ids) - set(self._known)
        if wanted:
            schemas = self._layout.schemas
            rows = engine_of(spark, schemas).read(schemas, ("schema_id", "schema"))
            self._add({row["schema_id"]: row["schema"] for row in rows if row["schema_id"] in wanted and row["schema"]})
            wanted -= set(self._known)
        if wanted:
            schema_rows = batch().where(
                (F.col("op") == Op.SCHEMA.value) & F.col("schema_id").isin(*wanted) & ~F.expr(LEFT)
            )
            self._add(dict(map(tuple, schema_rows.select("schema_id", F.to_json("after")).collect())))
            wanted -= set(self._known)
        if wanted:
            raise codes.SCHEMA_RECORD_DAMAGED.error(
                f"no schema {min(wanted)} is recorded, but rows are written under it",
                where=str(self._layout.schemas),
                hint="restore the table of schemas; it belongs to the change table",
            )

    def __getitem__(self, schema_id: str) -> TableSchema:
        return self._known[schema_id]

    def _add(self, texts: Mapping[str, str]) -> None:
        for schema_id, text in texts.items():
            schema = TableSchema.from_json(text)
            if schema.id != schema_id:
                raise codes.SCHEMA_RECORD_DAMAGED.error(
                    f"schema {schema_id} of {schema.name} is not what its id says",
                    where=str(self._layout.schemas),
                    hint="restore the table of schemas",
                )
            self._known[schema.id] = schema
