"""The schemas that bronze has met of each source table, and from which seq on each was in force."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.definition.column_mapping import columns_of

if TYPE_CHECKING:
    from lakehouse_cdc.lake.readers.port import TableReader


@dataclass(frozen=True)
class SchemaInForce:
    """A schema that bronze met at `seq`; None where the table was left off there (dropped, or quarantined).

    `same`: silver has the same columns and key as under the schema before, each from the same column.
    """

    seq: int
    schema: TableSchema | None
    same: bool = False


def schemas_in_force(
    reader: TableReader, layout: Layout, names: Iterable[str] | None = None
) -> dict[str, list[SchemaInForce]]:
    """The schemas of those tables, or of all, in order."""
    wanted = None if names is None else set(names)
    rows = reader.rows(layout.schemas, ("source_table", "seq", "schema"))
    schemas: dict[str, list[SchemaInForce]] = {}
    for row in sorted(rows, key=itemgetter("seq")):
        if wanted is None or row["source_table"] in wanted:
            earlier = schemas.setdefault(row["source_table"], [])
            earlier.append(_in_force(int(row["seq"]), row["schema"], earlier[-1].schema if earlier else None))
    return schemas


def _in_force(seq: int, text: str | None, before: TableSchema | None) -> SchemaInForce:
    if text is None:
        return SchemaInForce(seq, None)
    data = json.loads(text)
    schema, origin = TableSchema.from_dict(data), data.get("origin", {})
    same = (
        before is not None
        and columns_of(schema) == columns_of(before)
        and schema.key == before.key
        and all(origin.get(column.name) == column.name for column in schema.captured)
    )
    return SchemaInForce(seq, schema, same)


def past_schemas(in_force: Iterable[SchemaInForce]) -> list[TableSchema]:
    """Without the places where the table was left off."""
    return [one.schema for one in in_force if one.schema is not None]


def schemas_of(reader: TableReader, layout: Layout, name: str) -> list[TableSchema]:
    """All schemas that bronze has met of one table, in order."""
    return past_schemas(schemas_in_force(reader, layout, [name]).get(name, ()))
