"""One change of a table's schema: what the stream hands on where a DDL is in it.

Rows before it were written under `before`, rows after it under `after`. The two schemas say what there was and what
there is; `origin` says which column is which, so that a rename is not a column dropped and another one added.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehouse_cdc.schema.table import TableSchema


@dataclass(frozen=True)
class SchemaChange:
    """`statement` turned `before` into `after`; it is None where nobody has read it, since the log has a gap.

    `after` is None where the table is gone, or, for that `reason`, is not followed from there on. `origin` has the old
    name of each column of `after` that there was before. `kept`: it is proven that every row holds what it held, and in
    new columns NULL, or what `filled` has as text; where it is not, all rows of the table are read again from there on.
    `passed`: the user says that the statement changes nothing.
    """

    statement: str | None
    before: TableSchema
    after: TableSchema | None
    origin: Mapping[str, str]
    kept: bool
    reason: str = ""
    filled: Mapping[str, str] = field(default_factory=dict)
    passed: bool = False

    @property
    def schema(self) -> TableSchema:
        """The schema that the `s` row stands for: the new one, or the last that the table had."""
        return self.after or self.before

    @classmethod
    def leaving(cls, statement: str | None, before: TableSchema, reason: str = "") -> SchemaChange:
        """The table is gone, or, for that reason, is not followed."""
        return cls(statement, before, None, {}, kept=True, reason=reason)

    @classmethod
    def nothing(cls, statement: str, schema: TableSchema) -> SchemaChange:
        """The user says that the statement changes neither the schema nor a row."""
        origin = {column.name: column.name for column in schema.columns}
        return cls(statement, schema, schema, origin, kept=True, passed=True)

    @classmethod
    def by_names(cls, statement: str | None, before: TableSchema, after: TableSchema) -> SchemaChange:
        """A change of which no more is known than the two schemas: columns of one name are one column."""
        names = {column.name for column in before.columns}
        origin = {column.name: column.name for column in after.columns if column.name in names}
        return cls(statement, before, after, origin, kept=False)

    def images(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What an `s` row of bronze holds in `before` and in `after`."""
        if self.after is None:
            why = {"quarantined": self.reason} if self.reason else {"dropped": True}
            return self.before.to_dict(), {"statement": self.statement, **why}
        data = {"statement": self.statement, "origin": dict(self.origin), "kept": self.kept}
        data |= {"filled": dict(self.filled)} if self.filled else {}
        data |= {"passed": True} if self.passed else {}
        return self.before.to_dict(), {**self.after.to_dict(), **data}

    def to_json(self) -> str:
        """Canonical: sorted keys, no spaces."""
        before, after = self.images()
        return json.dumps({"before": before, "after": after}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_images(cls, before: dict[str, Any], after: dict[str, Any]) -> SchemaChange:
        """The inverse of `images`."""
        if "columns" not in after:
            return cls.leaving(after["statement"], TableSchema.from_dict(before), after.get("quarantined", ""))
        schemas = TableSchema.from_dict(before), TableSchema.from_dict(after)
        said = {"filled": after.get("filled", {}), "passed": after.get("passed", False)}
        return cls(after["statement"], *schemas, after["origin"], after["kept"], **said)

    @classmethod
    def from_json(cls, text: str) -> SchemaChange:
        """The inverse of `to_json`."""
        return cls.from_images(**json.loads(text))
