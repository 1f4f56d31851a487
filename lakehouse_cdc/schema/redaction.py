"""What hiding a column makes of the rows that were written before it was hidden: pure.

Purpose: bronze holds each row as it was read, under the schema of then. A mask, or an exclusion, that is configured
later hides what is read from then on. Here it is decided what becomes of the rows from before: under which schema they
are to be, and what of their values is left.

Invariant: a row that has been redacted is as it would be if the column had been hidden from its first schema on, as
far as that can still be computed; nothing is shown that was hidden, and every other column stays as it is.

Why it holds. Rows between two changes of the schema are an era. Each change says which column of the old schema a new
one was (`origin`), so the columns of all eras make chains, through every rename; a name alone says nothing:

- A chain that reaches the schema in force is treated as that schema treats it, under whatever names it went.
- A chain that ends earlier (the column was dropped, or the table is not followed any more) is treated as it was last,
  and as `exclude` and `masks` treat the last name that it had: no other name of it could be configured. `include` says
  nothing of it. So of two columns of one name, of which one was dropped before the other was added, each is treated for
  itself; both are hidden where the name is.
- A value that a column held under another mask cannot be masked as now: what was not let through is nowhere. It becomes
  NULL. The same holds where a column had a type that the mask cannot have.
- Where a column was part of the key, other values would make two rows one. Hashes do not: there no other mask can be.

The schemas of redacted eras hide the column, too. So a row says itself, by its schema's id, whether it was redacted,
and to redact it again changes nothing. Whether anything is left to be redacted is known from the schemas alone.

Guards: tests/schema/test_redaction.py, and on a server tests/pipeline/test_redact.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.schema.column_choice import Choice
from lakehouse_cdc.schema.masks import HASH, NULL, hashed_under
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.types import can_be_masked

REMOVED = ""  # what becomes of the values of a column that is excluded


@dataclass(frozen=True)
class RedactedEra:
    """The rows from the change at `seq` to the next one: written under `old`, they are to be under `new`.

    `hidden` says of each column of `old` whose values change what becomes of them: a mask as a schema holds it, or
    `REMOVED`.
    """

    seq: int
    old: TableSchema
    new: TableSchema
    hidden: Mapping[str, str]

    @property
    def ids(self) -> tuple[str, str]:
        """Under which its rows may be found."""
        return self.old.id, self.new.id


@dataclass(frozen=True)
class Redaction:
    """All eras of one table, in order."""

    table: str
    eras: tuple[RedactedEra, ...]

    @classmethod
    def of(cls, table: str, schemas: Sequence[tuple[int, Mapping[str, Any] | None]], choice: Choice) -> Redaction:
        """From the rows of `<bronze>.schemas` of a table, as (seq, schema), in order; None where it was left off.

        `choice` is what is configured. The last schema follows that, unless the table was left off.
        """
        eras = [(seq, TableSchema.from_dict(dict(data)), data.get("origin")) for seq, data in schemas if data]
        chains = _chains([(schema, origin) for _, schema, origin in eras])
        treated: dict[int, Column] = {}
        for n, (_, schema, _) in enumerate(eras):
            in_force = n == len(eras) - 1 and schemas[-1][1] is not None
            columns = schema.columns if in_force else _ended(schema, choice)
            # of each chain the last era counts
            treated |= {chains[n][column.name]: column for column in columns}
        return cls(
            table,
            tuple(
                _redacted(seq, schema, {name: treated[chain] for name, chain in chains[n].items()})
                for n, (seq, schema, _) in enumerate(eras)
            ),
        )

    @property
    def columns(self) -> list[str]:
        """Those of which bronze has values that are to be hidden, by every name that they had."""
        return sorted({name for era in self.eras for name in era.hidden})

    def require_possible(self) -> None:
        """Raise DefiniteError where a value of a key would have to be hidden by anything but a hash."""
        for era in self.eras:
            for name in era.old.key:
                if hashed_under(era.hidden.get(name, HASH)) is None:
                    raise codes.REDACTION_OF_KEY.error(
                        f"column {name} of {self.table} was part of the key, which tells rows apart",
                        where=self.table,
                        hint=f"mask it by hash (tables.{self.table}.masks), run, and redact again",
                        table=self.table,
                    )

    def era_of(self, schema_id: str, seq: int) -> RedactedEra:
        """That of a row. Raises DefiniteError for one that was written under a schema of which nothing is recorded."""
        known = self._by_id.get(schema_id)
        if known is None:
            raise codes.SCHEMA_RECORD_DAMAGED.error(
                f"no schema {schema_id} of {self.table} is recorded, but rows are written under it", where=self.table
            )
        return next((era for era in reversed(known) if era.seq < seq), known[0])

    @cached_property
    def _by_id(self) -> Mapping[str, Sequence[RedactedEra]]:
        known: dict[str, list[RedactedEra]] = {}
        for era in self.eras:
            for one in dict.fromkeys(era.ids):
                known.setdefault(one, []).append(era)
        return known


def _ended(schema: TableSchema, choice: Choice) -> list[Column]:
    """The columns of a schema that is not in force any more, as they were hidden, or would be by now."""
    now = replace(choice, include={}).chosen(schema).columns
    return [replace(one, mask=one.mask or was.mask) for was, one in zip(schema.columns, now, strict=True)]


def _chains(eras: Sequence[tuple[TableSchema, Mapping[str, str] | None]]) -> list[dict[str, int]]:
    """Of each era, which chain each of its columns is of. Where a change does not say, columns of one name are one."""
    chains: list[dict[str, int]] = []
    count = 0
    for schema, origin in eras:
        before = chains[-1] if chains else {}
        mine: dict[str, int] = {}
        for column in schema.columns:
            was = column.name if origin is None else origin.get(column.name, "")
            mine[column.name] = before.get(was, count)
            count += was not in before
        chains.append(mine)
    return chains


def _redacted(seq: int, schema: TableSchema, treated: Mapping[str, Column]) -> RedactedEra:
    columns, hidden = [], {}
    for column in schema.columns:
        new, values = _column(column, treated[column.name])
        columns.append(new)
        if values is not None:
            hidden[column.name] = values
    return RedactedEra(seq, schema, replace(schema, columns=tuple(columns)), hidden)


def _column(held: Column, treated: Column) -> tuple[Column, str | None]:
    """The column as it is to be, and what becomes of its values (None: they stay)."""
    if not held.captured:
        return held, None
    if not treated.captured:
        return replace(held, captured=False), REMOVED
    if not treated.mask or treated.mask == held.mask:
        return held, None
    wanted = replace(held, mask=treated.mask)
    if not can_be_masked(wanted):
        return replace(held, mask=NULL), NULL if held.mask != NULL else None
    return wanted, NULL if held.mask else wanted.mask
