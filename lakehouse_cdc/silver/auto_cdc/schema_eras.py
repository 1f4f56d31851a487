"""How rows that were written under a table's earlier schemas read as rows of its last one: pure, as SQL.

A declarative pipeline has no place for steps between two batches (see `evolution`): its tables are what their feed says
of each key. So the feed reads every row as the changes of the schema since then have left it, by the same rules as the
MERGE. A change at `seq` parts an era from the next; which one a row is of, its seq says, and its `schema_id` must say
the same, else it is of a schema that nothing has announced yet, and reading it is an error. Through each change

- a column keeps its value under its new name; with another type the value that the way back proves the same, else NULL:
  what a statement did to values beyond that, the source reads again;
- a column that comes has what the change says that all rows hold (`filled`), or NULL;
- a column that goes stays, and is NULL in rows written since, until another one needs its name.

Rows are found by their key. Where a change makes it another, nothing older can be found by it, and the source reads the
table again: the feed begins there (`begins`), which of rows as they are now loses nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lakehouse_cdc.errors import codes
from lakehouse_cdc.errors.codec import encoded
from lakehouse_cdc.model.table_layout import literal, quoted
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import Kind
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.definition.casts import carried_over, widens

Values = Mapping[str, str]  # column -> its value, as SQL over a row of some era


@dataclass(frozen=True)
class Era:
    """Rows whose seq is greater than `since` and not than the next era's were written under `schema`.

    `origin` maps its columns to those of the era before that they were; `filled` is what all rows held in some of the
    others as it began, as text. Of the first era both are empty.
    """

    since: int
    schema: TableSchema
    origin: Mapping[str, str]
    filled: Mapping[str, str]


@dataclass(frozen=True)
class Eras:
    """All of a table's, in order. They are those since the key was made what it is."""

    every: tuple[Era, ...]
    begins: int

    @classmethod
    def of(cls, name: str, schemas: Iterable[tuple[int, str | None]]) -> Eras | None:
        """From the rows of `<bronze>.schemas` of one table, as (seq, schema), in order; None if they have no schema.

        Raises DefiniteError where a change does not say what became of the columns.
        """
        eras: list[Era] = []
        begins = -1
        for seq, text in schemas:
            if text is None:
                continue  # the table was left off there; if it comes back, it begins with a change
            data = json.loads(text)
            schema = TableSchema.from_dict(data)
            if eras and schema.id == eras[-1].schema.id and "origin" not in data:
                continue  # as it was, in a new epoch of the log
            if eras and "origin" not in data:
                raise codes.SCHEMA_CHANGE_INCOMPLETE.error(
                    f"a change of the schema of {name} does not say what became of its columns",
                    where=f"{name} seq {seq}",
                    hint="bronze was written by another release; move it away, with its checkpoint, to begin again",
                )
            era = Era(seq, schema, data.get("origin", {}), data.get("filled", {}))
            if eras and _rekeys(eras[-1].schema, era):
                eras, begins = [], seq
            eras.append(era)
        return cls(tuple(eras), begins) if eras else None

    @property
    def last(self) -> Era:
        """The one in force."""
        return self.every[-1]

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """The columns of the key, with their types."""
        return tuple((c.name, require(c, self.last.schema.name).silver) for c in self.last.schema.key_columns)

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Those that a row has, with their types: the last schema's, then those that are kept."""
        return tuple((name, kind) for name, (_, kind) in self._read(0, "row", self.every[0].schema.captured).items())

    def which(self) -> str:
        """SQL: the number of a row's era, from its `seq` and `schema_id`; an error for a schema that none is of."""
        cases, until = [], ""
        for n, era in reversed([*enumerate(self.every)]):
            since = "" if n == 0 else f" AND seq > {era.since}BD"
            cases.append(f"WHEN schema_id = {literal(era.schema.id)}{since}{until} THEN {n}")
            until = f" AND seq <= {era.since}BD"
        return f"CASE {' '.join(cases)} ELSE raise_error({_unknown(self.last.schema.name)}) END"

    def values(self, n: int, row: str) -> Values:
        """What `columns` hold of a row of era `n`; `row` is its image, a struct of that era's captured columns."""
        expressions = self._read(n, row, self.every[n].schema.captured)
        kept = self._read(0, row, self.every[0].schema.captured)
        return {
            name: expressions[name][0] if name in expressions else f"CAST(NULL AS {kind})"
            for name, (_, kind) in kept.items()
        }

    def keys(self, n: int, key: str) -> Values:
        """What the key's columns hold of a row of era `n`; `key` is that era's key, as a struct."""
        expressions = self._read(n, key, self.every[n].schema.key_columns)
        return {name: expressions[name][0] for name, _ in self.key}

    def _read(self, n: int, row: str, columns: Iterable[Column]) -> dict[str, tuple[str, str]]:
        """Each column of the last schema, then those kept on the way, as (SQL, type), from `columns` of era `n`."""
        schema = self.every[n].schema
        held = {}
        for column in columns:
            mapped, value = require(column, schema.name), f"{row}.{quoted(column.name)}"
            held[column.name] = (f"parse_json({value})" if mapped.kind is Kind.JSON else value, mapped.silver)
        kept: dict[str, tuple[str, str]] = {}
        for era in self.every[n + 1 :]:
            now: dict[str, tuple[str, str]] = {}
            for column in era.schema.captured:
                kind, was = require(column, schema.name).silver, era.origin.get(column.name, "")
                if was in held:
                    now[column.name] = (_converted(*held[was], kind), kind)
                else:
                    now[column.name] = (_constant(era.filled.get(column.name), kind), kind)
            gone = {name: one for name, one in held.items() if name not in era.origin.values()}
            taken = {name.lower() for name in now}
            kept = {name: one for name, one in {**kept, **gone}.items() if name.lower() not in taken}
            held = now
        return {**held, **kept}

    def rebuild_since(self, seq: int) -> str | None:
        """Why a table that was fed up to the change at `seq`, and no later one, must be made again; None if it need
        not.

        AUTO CDC adds a column as NULL, and leaves one that goes; it can do nothing else to the rows that exist.
        """
        if self.begins > seq:
            return f"its key is ({', '.join(self.last.schema.key)}) now"
        names = {c.name.lower() for c in self.every[0].schema.captured}
        for old, new in zip(self.every, self.every[1:], strict=False):
            if new.since > seq and (why := _beyond(old.schema, new, names)):
                return why
            names |= {c.name.lower() for c in new.schema.captured}
        return None

    def retyped(self) -> str | None:
        """A column that got another type, not just a wider one; None if there is none."""
        for old, new in zip(self.every, self.every[1:], strict=False):
            before, after = _types(old.schema), _types(new.schema)
            for name, was in new.origin.items():
                if name in after and was in before and not _stays(before[was], after[name]):
                    return name
        return None


def _beyond(old: TableSchema, new: Era, names: set[str]) -> str | None:
    before, after = _types(old), _types(new.schema)
    for name, kind in after.items():
        was = new.origin.get(name)
        if was not in before:
            if name.lower() in names:
                return f"column {name} came under the name of another one"
            if new.filled.get(name) is not None:
                return f"column {name} came with a value in every row"
        elif was != name:
            return f"column {was} is called {name} now"
        elif before[was] != kind:
            return f"column {name} was {before[was]}, and is {kind} now"
    return None


def _rekeys(old: TableSchema, new: Era) -> bool:
    """Whether rows are found by other columns, or by values that may have become others."""
    if [new.origin.get(name) for name in new.schema.key] != [*old.key]:
        return True
    before, after = _types(old), _types(new.schema)
    return not all(_stays(before[new.origin[name]], after[name]) for name in new.schema.key)


def _types(schema: TableSchema) -> dict[str, str]:
    return {c.name: require(c, schema.name).silver for c in schema.captured}


def _stays(held: str, wanted: str) -> bool:
    return held == wanted or widens(held, wanted)


def _converted(value: str, held: str, wanted: str) -> str:
    if held == wanted:
        return value
    if widens(held, wanted):
        return f"CAST({value} AS {wanted})"
    return f"({carried_over(value, held, wanted, f'CAST(NULL AS {wanted})')})"


_PLACE = "\ue000"  # a character that no name has: what is known of the row alone


def _constant(text: str | None, kind: str) -> str:
    return f"CAST({'NULL' if text is None else literal(text)} AS {kind})"


def _unknown(name: str) -> str:
    """SQL: the text of the error, as data (`errors.codec`), with the seq and the schema of the row.

    The mark is in two parts, so it is whole in the error alone, not in the plans that Spark prints beside it.
    """
    error = codes.DECLARATIVE_SCHEMA_NEWER.error(
        f"{name} has rows of a schema that is newer than this update",
        where=f"{name} seq {_PLACE}",
        hint="start the next update: it has the columns, and continues from here",
        table=name,
    )
    before, _, after = encoded(error).partition(json.dumps(_PLACE)[1:-1])
    of_row = "CAST(seq AS STRING), ', schema ', schema_id"
    return f"concat({literal(before[:5])}, {literal(before[5:])}, {of_row}, {literal(after)}, char(10))"
