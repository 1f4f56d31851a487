"""What silver makes of a source's columns beside typing them, as the user wishes: pure.

- `rename` gives columns other names. Everything of silver's (keys, tracked columns, expressions) then uses these; the
  schemas of bronze are seen through it, before and after a change alike. So a table whose columns are renamed evolves
  as any other does, and a name that the source gives a column counts where no other is configured.
- `computed` columns are SQL over a row's own columns. They are a function of the row alone, which is held to (see
  `batch.computed_columns`), so that a replay gives them again, and `verify` can ask the source for the same.
- `filter` says which rows silver has. A change to a row that it does not let through (false, or NULL) is, to silver,
  the deletion of that row, at that change's seq: so it is replayed, reordered and kept in history as deletions are.
- `metadata` columns say where a row comes from and when it changed, as Flink CDC offers them.

A table keeps the transform that it was made with: with another one its older rows would not be what they should be.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from lakehouse_cdc.model.table_layout import literal
from lakehouse_cdc.model.table_name import split
from lakehouse_cdc.schema.table import TableSchema

Metadata = Literal["database_name", "table_name", "op_ts"]
_TYPES: Mapping[Metadata, str] = {"database_name": "string", "table_name": "string", "op_ts": "timestamp"}


@dataclass(frozen=True)
class Transform:
    """See the module; `rename` maps the source's names, in any case, to silver's. The other names are silver's."""

    rename: Mapping[str, str] = field(default_factory=dict)
    computed: Mapping[str, str] = field(default_factory=dict)
    filter: str | None = None
    metadata: Mapping[str, Metadata] = field(default_factory=dict)

    @property
    def added(self) -> frozenset[str]:
        """Silver's columns that are none of the source's."""
        return frozenset([*self.computed, *self.metadata])

    @property
    def metadata_columns(self) -> list[tuple[str, str]]:
        """Their names and types."""
        return [(name, _TYPES[what]) for name, what in self.metadata.items()]

    def metadata_of(self, table: str, commit_ts: str) -> dict[str, str]:
        """SQL of each metadata column of a row of `table`, given that of its commit time."""
        database, name = split(table)
        expressions: Mapping[Metadata, str] = {
            "database_name": literal(database),
            "table_name": literal(name),
            "op_ts": commit_ts,
        }
        return {column: expressions[what] for column, what in self.metadata.items()}

    def silver_name(self, column: str) -> str:
        """What a column of the source is called in silver."""
        given = {source.lower(): name for source, name in self.rename.items()}
        return given.get(column.lower(), column)

    def renamed(self, schema: TableSchema) -> TableSchema:
        """The captured columns of a schema, and its key, by silver's names."""
        if not self.rename:
            return schema
        columns = tuple(replace(c, name=self.silver_name(c.name)) for c in schema.captured)
        return replace(schema, columns=columns, key=tuple(self.silver_name(name) for name in schema.key))

    def text(self) -> str:
        """Canonical JSON: the property of a table that is made so."""
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)

    @classmethod
    def of(cls, text: str | None) -> Transform:
        """The inverse; of a table that says nothing, the transform that changes nothing."""
        return cls(**json.loads(text)) if text else NOTHING


NOTHING = Transform()
