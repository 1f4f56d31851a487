"""Which columns the user wants of which tables, and which of them masked.

By patterns on `database.table` and names of columns, in any case, as in MySQL. All patterns that match a table exclude
and mask (of two masks of one column the last counts); of those that include, the last one decides. The columns of the
primary key are captured, whether or not they are included, for without them there are no rows; to exclude one is an
error, which `schema.types` finds. What is excluded goes, also where it is included. Generated columns that have no
value to capture (see `mysql.catalog`) are left out, unless the user wants such a table to be refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.table_name import last_match, matches, pattern_of
from lakehouse_cdc.schema.masks import hashed_under
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.unique_key import is_unique_key

GeneratedColumns = Literal["skip", "fail"]
WITHOUT_VALUE = {  # what a column's `generated` says of those that have no value to capture
    "virtual": "is a virtual generated column whose value may depend on the session that reads it",
    "unlogged": "is a generated column that the server leaves out of its binlog's updates",
}


@dataclass(frozen=True)
class Choice:
    """What the user says. `masks` maps patterns to columns, and these to masks as a schema holds them.

    `generated`: `skip` leaves out generated columns that have no value to capture; with `fail` they stay, and
    `schema.types` finds them.
    """

    exclude: Mapping[str, Sequence[str]] = field(default_factory=dict)
    include: Mapping[str, Sequence[str]] = field(default_factory=dict)
    masks: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    generated: GeneratedColumns = "skip"

    def chosen(self, schema: TableSchema, known: Mapping[str, str] | None = None) -> TableSchema:
        """The schema with columns captured and masked as their names say; `known` are not asked to be included."""
        excluded = {c.lower() for p in self.exclude if matches(schema.name, p) for c in self.exclude[p]}
        listed = last_match(self.include, schema.name)
        key = () if is_unique_key(schema) else schema.key
        included = None if listed is None else {c.lower() for c in (*listed, *key, *(known or ()))}
        masks = self._masks(schema.name)

        def column(one: Column) -> Column:
            name = one.name.lower()
            wanted = name not in excluded and (included is None or name in included)
            wanted = wanted and not (self.generated == "skip" and one.generated in WITHOUT_VALUE)
            return replace(one, captured=one.captured and wanted, mask=masks.get(name, ""))

        return replace(schema, columns=tuple(map(column, schema.columns)))

    def named(self) -> list[tuple[str, str, Sequence[str]]]:
        """(setting, pattern, columns) of all that is said."""
        settings: tuple[tuple[str, Mapping[str, Sequence[str] | Mapping[str, str]]], ...] = (
            ("exclude", self.exclude),
            ("include", self.include),
            ("masks", self.masks),
        )
        return [
            (setting, pattern, [*by_pattern[pattern]]) for setting, by_pattern in settings for pattern in by_pattern
        ]

    def masking(self, schema: TableSchema) -> Choice:
        """The same, and what is masked in `schema`, by the names that the columns have there."""
        masks, name = {column.name: column.mask for column in schema.columns if column.mask}, pattern_of(schema.name)
        return replace(self, masks={**self.masks, name: {**self.masks.get(name, {}), **masks}}) if masks else self

    def _masks(self, table: str) -> dict[str, str]:
        masks: dict[str, str] = {}
        for pattern, columns in self.masks.items():
            if matches(table, pattern):
                masks |= {name.lower(): mask for name, mask in columns.items()}
        return masks


def left_out(schema: TableSchema) -> dict[str, str]:
    """The columns that are left out since they have no value to capture, each with what it is."""
    return {
        column.name: WITHOUT_VALUE[column.generated]
        for column in schema.columns
        if not column.captured and column.generated in WITHOUT_VALUE
    }


def require_same_choice(before: TableSchema, now: TableSchema) -> None:
    """Raise DefiniteError where the configuration gives another key, or treats a column otherwise than before."""
    given = [schema.key if schema.key_given else () for schema in (before, now)]
    if given[0] != given[1] and not now.primary_key and not before.primary_key:
        raise key_changed(before, given[1])
    was = {column.name: column for column in before.columns}
    for column in now.columns:
        old = was.get(column.name, column)
        if old.mask != column.mask:
            raise _masked_otherwise(old, column, now.name)
        if (old.captured, old.carried) != (column.captured, column.carried):
            raise codes.COLUMN_CHOICE_CHANGED.error(
                f"column {column.name} of {now.name} is left out, or carried, otherwise than before",
                where=now.name,
                hint="put include, exclude, types, type_map and zero_dates back as they were for one run: this release"
                " then knows what is changed",
            )


def key_changed(before: TableSchema, now: Sequence[str]) -> DefiniteError:
    """The error for another key of a table without a primary key than that of its rows in bronze."""
    return codes.COLUMN_CHOICE_CHANGED.error(
        f"the key of {before.name} is ({', '.join(now)}) now, and was ({', '.join(before.key)})",
        where=before.name,
        hint=f"put tables.{before.name}.key back as it was for one run: this release then knows what is changed",
    )


def require_same_salt(table: str, before: Sequence[Column], now: Sequence[Column]) -> None:
    """Raise DefiniteError where a column, one after the other, is hashed under another salt than before."""
    for old, new in zip(before, now, strict=True):
        if old.mask != new.mask and hashed_under(old.mask) and hashed_under(new.mask):
            raise codes.MASK_SALT_CHANGED.error(
                "source.mask_salt is another one than before, so that equal values would have other hashes",
                where=table,
            )


def _masked_otherwise(old: Column, now: Column, table: str) -> DefiniteError:
    require_same_salt(table, [old], [now])
    return codes.COLUMN_CHOICE_CHANGED.error(
        f"column {now.name} of {table} is masked otherwise than before",
        where=table,
        hint="put masks back as they were for one run (a column that was renamed keeps its mask: name it there by its"
        " new name): this release then knows what is changed",
    )


def require_masks(before: TableSchema, now: TableSchema, origin: Mapping[str, str]) -> None:
    """Raise DefiniteError where a new column, not masked, may be a masked one under another name.

    That is for changes that no statement describes: `origin` maps the columns that are known to those that they were.
    """
    lost = [c.name for c in before.columns if c.mask and c.name not in origin.values()]
    new = [c.name for c in now.captured if not c.mask and c.name not in origin]
    if lost and new:
        raise codes.MASKED_COLUMN_LOST.error(
            f"the masked column {lost[0]} of {now.name} is gone, and no statement says that {new[0]} is another one",
            where=now.name,
            hint=f"mask or exclude {new[0]}",
        )
