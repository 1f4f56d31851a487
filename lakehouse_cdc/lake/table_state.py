"""What Delta's log says of a table: who it is, its columns, properties and features, as plain values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse_cdc.lake.bare import BARE, EXTENSIBLE

Columns = Sequence[tuple[str, str]]  # (name, Spark SQL type), in order
Field = Mapping[str, Any]  # a column, or a field of one, as Delta's schema has it
_PHYSICAL = "delta.columnMapping.physicalName"
_ARRAY = re.compile(r"array<(\w+)>")
_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}  # others are as in SQL


@dataclass(frozen=True)
class State:
    """A table as its log says that it is to be read and written.

    `fields` are its columns, as in Delta's schema; `features` those of the protocol that a writer must know.
    """

    id: str
    version: int
    fields: tuple[Field, ...]
    properties: Mapping[str, str]
    partition_by: tuple[str, ...]
    features: frozenset[str]

    @property
    def plain(self) -> bool:
        """Whether columns go by their own names in the table's files."""
        return self.properties.get("delta.columnMapping.mode", "none") == "none"

    @property
    def bare(self) -> bool:
        """Whether deltalake can write the table: it has no feature beyond those in `lake.bare`."""
        return self.plain and self.features <= BARE

    @property
    def extensible(self) -> bool:
        """Whether files that others wrote can be added to the table, or take the place of others, without Spark."""
        return self.plain and self.features <= EXTENSIBLE

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The columns and their types' canonical names, in order."""
        return [(field["name"], sql_type(field["type"])) for field in self.fields]

    def physical(self, path: Sequence[str]) -> tuple[str, ...]:
        """What a column, or a field of one, is called in files (protocol, "Column Mapping"; of mode name or none).

        Raises KeyError for one that the table has not.
        """
        return tuple(_physical(self.fields, path))


def _physical(fields: Sequence[Field], path: Sequence[str]) -> Iterator[str]:
    for name in path:
        field = {one["name"]: one for one in fields}[name]
        yield field["metadata"].get(_PHYSICAL, name)
        fields = field["type"].get("fields", ()) if isinstance(field["type"], dict) else ()


def sql_type(kind: Any) -> str:
    """The name that Spark SQL gives a type of Delta's schema (protocol, "Schema Serialization Format")."""
    if isinstance(kind, str):
        return _NAMES.get(kind, kind)
    if kind["type"] == "array":
        return f"array<{sql_type(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{sql_type(kind['keyType'])},{sql_type(kind['valueType'])}>"
    fields = (field["name"] + ":" + sql_type(field["type"]) for field in kind["fields"])
    return f"struct<{','.join(fields)}>"


def delta_type(name: str) -> Any:
    """The inverse, of a type that silver gives a column of the source."""
    if (array := _ARRAY.fullmatch(name)) is not None:
        return {"type": "array", "elementType": delta_type(array[1]), "containsNull": True}
    return {sql: kind for kind, sql in _NAMES.items()}.get(name, name)
