"""What the configuration says of the tables, kept beside the checkpoint, so that a later one is compared with it.

A stored offset names the configuration under which it was planned by a digest (see `planned_configuration`). Here the
digest names a file with the settings that schemas carry: which columns are captured, masked and carried how, and which
key is given. The difference between two configurations is what the user has changed, whatever names columns have by
now: a column that was renamed keeps what it had, also where neither configuration names it any more.

A table whose settings changed is altered by us (see `planning.reconfigured`).

Guards: tests/source/test_reconfigured.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.schema.column_choice import Choice, require_same_salt
from lakehouse_cdc.schema.declared_key import Keys, with_given_key
from lakehouse_cdc.schema.representation import Rules, carried_by
from lakehouse_cdc.schema.table import Carried, Column, TableSchema
from lakehouse_cdc.schema.unique_key import is_unique_key, keyed_by_unique
from lakehouse_cdc.source.options import SourceOptions

_CARRIED: dict[Carried, str] = {"": "by its type", "text": "as text", "null": "with NULL for what is no date"}


@dataclass(frozen=True)
class TableSettings:
    """What one configuration says of the columns and keys of all tables."""

    choice: Choice = field(default_factory=Choice)
    rules: Rules = field(default_factory=Rules)
    keys: Keys = field(default_factory=dict)

    @classmethod
    def of(cls, options: SourceOptions) -> TableSettings:
        """Those of a source's options."""
        return cls(options.choice, options.rules, options.keys)

    def to_json(self) -> str:
        """Without secrets: of a salt there is the fingerprint alone."""
        choice, rules = self.choice, self.rules
        return json.dumps(
            {
                "exclude": _lists(choice.exclude), "include": _lists(choice.include), "masks": _maps(choice.masks),
                "types": _maps(rules.types), "zero_dates": rules.zero_dates, "type_map": rules.type_map,
                "keys": _lists(self.keys),
            }
        )  # fmt: skip

    @classmethod
    def from_json(cls, text: str) -> TableSettings:
        """The inverse."""
        data: dict[str, Any] = json.loads(text)
        choice = Choice(data["exclude"], data["include"], data["masks"])
        return cls(choice, Rules(data["zero_dates"], data["type_map"], data["types"]), data["keys"])

    def without_unknown(self, schema: TableSchema) -> TableSettings:
        """Without lists of columns to include that name another column than the table has: a rename may give it one."""
        named = {column.name.lower() for column in schema.columns}
        include = {p: columns for p, columns in self.choice.include.items() if {c.lower() for c in columns} <= named}
        return replace(self, choice=replace(self.choice, include=include))

    def applied(self, schema: TableSchema) -> TableSchema:
        """The schema as it would be captured for the first time. Raises ConfigError for a key that cannot be."""
        columns = tuple(replace(column, captured=True, carried="", mask="") for column in schema.columns)
        keyed = with_given_key(replace(schema.declared, columns=columns), self.keys)
        return carried_by(keyed_by_unique(self.choice.chosen(keyed)), self.rules)


def changed(
    schema: TableSchema, before: Sequence[TableSettings], now: TableSettings, *, showing: bool
) -> SchemaChange | None:
    """What the difference of configurations makes of a table that is captured so; None if it is nothing.

    Of each column, what all configurations say alike stays as it is. Without `showing` nothing that is
    hidden, by a mask or since it is left out, is shown: the configuration may name the column as it is called later.
    A given key is another one when the end of the log is reached, for its columns are named as they are called there.
    Values are kept where nothing but columns are left out. Raises DefiniteError for another salt.
    """
    new = (now if showing else now.without_unknown(schema)).applied(schema)
    olds = [settings.applied(schema) for settings in before]

    def column(held: Column, wanted: Column, *was: Column) -> Column:
        shown = showing or not wanted.captured
        captured = wanted.captured if shown and any(w.captured != wanted.captured for w in was) else held.captured
        shown = showing or bool(wanted.mask)
        mask = wanted.mask if shown and any(w.mask != wanted.mask for w in was) else held.mask
        carried = wanted.carried if any(w.carried != wanted.carried for w in was) else held.carried
        return replace(held, captured=captured, carried=carried, mask=mask)

    columns = tuple(map(column, schema.columns, new.columns, *(old.columns for old in olds)))
    require_same_salt(schema.name, schema.columns, columns)
    after = replace(schema, columns=columns)
    if is_unique_key(after) and (
        not keyed_by_unique(after.declared).key or any(column.carried for column in after.key_columns)
    ):
        after = after.declared  # one of its columns is hidden now, or carried otherwise
    if showing and not schema.primary_key and any(old.key != new.key for old in olds):
        after = replace(after, key=new.key, key_given=new.key_given)
    if after == schema:
        return None
    left_out = after.key == schema.key and all(
        is_now == was or not is_now.captured for was, is_now in zip(schema.columns, columns, strict=True)
    )
    return replace(SchemaChange.by_names(None, schema, after), kept=left_out)


def hides(change: SchemaChange) -> bool:
    """Whether the change of a table's settings hides values of a column that were captured before."""
    assert change.after is not None
    return any(
        was.captured and (not now.captured or (bool(now.mask) and now.mask != was.mask))
        for was, now in zip(change.before.columns, change.after.columns, strict=True)
    )


def described(change: SchemaChange) -> str:
    """The change of a table's settings, in words."""
    assert change.after is not None
    words = []
    for was, now in zip(change.before.columns, change.after.columns, strict=True):
        if was.captured != now.captured:
            words.append(f"{now.name} is {'captured' if now.captured else 'left out'}")
        elif was.mask != now.mask:
            words.append(f"{now.name} is {'masked' if now.mask else 'not masked any more'}")
        elif was.carried != now.carried:
            words.append(f"{now.name} is carried {_CARRIED[now.carried]}")
    if change.before.key != change.after.key:
        words.append(f"its key is ({', '.join(change.after.key)})" if change.after.key else "it has no key any more")
    return ", ".join(words)


def _lists(settings: Mapping[str, Any]) -> dict[str, list[str]]:
    return {pattern: list(columns) for pattern, columns in settings.items()}


def _maps(settings: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    return {pattern: dict(columns) for pattern, columns in settings.items()}
