"""The configuration that a batch was planned under, and that a batch is never executed under another one.

Schemas are in the offset with what is left out, masked or carried otherwise, so a batch that is executed again gives
the rows that it would have given when it was planned. If the user has masked or excluded a column in between, these are
rows that must not be written any more. So the end of each batch names a digest of every option on which its rows
depend, and a batch whose digest differs is not executed: nothing of it is read. The owner of the tables decides what
becomes of it (see `pipeline.start.settling`); the source alone cannot know whether it was written.

A stream that continues from a complete batch follows the schemas of its offset, too. What the configuration says now is
compared with the catalog where the stream reaches the end of the log (see `planning.new_tables`); until then, a column
that is captured there and excluded or masked now would come in clear. So before anything is planned, the schemas of the
offset are compared with the configuration by their own names of columns. Only what would reveal something is an error
here: after a rename in the backlog the configuration names a column as it is called at the end of it.

The digest covers options that differ from their default, so a release with more options gives the same one. Hash masks
are in it with the fingerprint of their salt, which is keyed by the salt (see `schema.masks`), never with the salt.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.schema.column_choice import Choice, require_same_choice
from lakehouse_cdc.schema.representation import Rules
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.unique_key import is_unique_key
from lakehouse_cdc.source.options import SourceOptions

DIGEST = "config"  # the key in a stored offset; offsets of earlier releases have none


def digest(options: SourceOptions) -> str:
    """16 hexadecimal digits for all options on which the rows of a batch depend, of which tables and how."""
    choice, rules = options.choice, options.rules
    given: dict[str, tuple[Any, Any]] = {  # what is given, and its default
        "tables": (list(options.tables), []),
        "snapshot": (options.snapshot, "initial"),
        "exclude": (_by_pattern(choice.exclude), []),
        "include": (_by_pattern(choice.include), []),
        "masks": (_by_pattern({p: sorted(masks.items()) for p, masks in choice.masks.items()}), []),
        "keys": (_by_pattern(options.keys), []),
        "zero_dates": (rules.zero_dates, Rules().zero_dates),
        "type_map": (rules.type_map, Rules().type_map),
        "types": (_by_pattern({p: sorted(types.items()) for p, types in rules.types.items()}), []),
        "schema_changes": (_by_pattern(options.schema_changes), []),
    }
    changed = {name: value for name, (value, default) in given.items() if value != default}
    return hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()[:16]


def _by_pattern(settings: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """In their order: of some settings the last pattern that matches decides."""
    return list(settings.items())


def require_same_configuration(end: Mapping[str, Any], options: SourceOptions, schemas: Iterable[TableSchema]) -> None:
    """Raise DefiniteError unless the batch with the stored end `end` was planned under these options.

    `schemas` are those of the tables of which it may have rows. Of a batch that an earlier release planned no digest is
    known; then its schemas must not reveal more than the options do.
    """
    planned_under = end.get(DIGEST)
    if planned_under is None:
        differs = next((column for schema in schemas if (column := revealed(options.choice, schema))), "")
    else:
        differs = "" if planned_under == digest(options) else "the configuration"
    if differs:
        raise codes.BATCH_PLANNED_OTHERWISE.error(
            f"a batch was planned, and not completed, before {differs} was changed; it is not executed under another"
            " configuration",
            where=f"{end.get('file')}:{end.get('pos')}",
            hint="put the options back for one more run; or, if nothing of the batch has been written, delete from the"
            " checkpoint's folder `offsets` the file whose number is missing in `commits`, to have it planned again",
        )


def require_nothing_revealed(options: SourceOptions, schemas: Iterable[TableSchema]) -> None:
    """Raise DefiniteError where a schema of the stream captures a column that is excluded, or masked otherwise, now."""
    for schema in schemas:
        require_same_choice(schema, _concealing(options.choice, schema))


def revealed(choice: Choice, schema: TableSchema) -> str:
    """The first column that a schema has in clear, or masked otherwise, and the configuration has not; '' for none."""
    pairs = zip(schema.columns, _concealing(choice, schema).columns, strict=True)
    return next((f"column {was.name} of {schema.name}" for was, now in pairs if was != now), "")


def _concealing(choice: Choice, schema: TableSchema) -> TableSchema:
    """The schema with those columns excluded and masked of which it reveals more than the configuration does."""
    named = {column.name.lower() for column in schema.columns}
    # the list of columns to include may name one as it is called after a rename that has yet to be read
    renamed = {pattern for pattern, columns in choice.include.items() if {c.lower() for c in columns} - named}
    include = {pattern: columns for pattern, columns in choice.include.items() if pattern not in renamed}
    wanted = replace(choice, include=include).chosen(schema)

    key = () if is_unique_key(schema) else schema.key  # without that one the table has no key

    def concealed(was: Column, now: Column) -> Column:
        less = not now.captured or (now.mask and now.mask != was.mask)
        return now if was.captured and was.name not in key and less else was

    return replace(schema, columns=tuple(map(concealed, schema.columns, wanted.columns)))
