"""The schema of one source table: immutable, and named by its content.

`TableSchema.id` is a fingerprint of the canonical JSON, so the same schema has the same id wherever it was learnt
(INFORMATION_SCHEMA or a table map in the binlog), and a file that is named by it never changes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal

from lakehouse_cdc.model.table_name import join
from lakehouse_cdc.schema.engines import LOCKED
from lakehouse_cdc.schema.versioning import Versioning

Carried = Literal["", "text", "null"]
Generated = Literal["", "same", "session", "virtual", "unlogged"]
INEXACT = ("float", "double")
_ONLY_IF_SET = ("values", "carried", "mask", "generated", "compressed")


@dataclass(frozen=True)
class Column:
    """One column, in MySQL's own words.

    `type` is DATA_TYPE in lower case (`int`, `varchar`, `datetime`, ...), `length` the declared length in characters
    (bytes for binary types, bits for BIT), `precision`/`scale` of a decimal, or of a FLOAT(M,D) or DOUBLE(M,D) (schemas
    that were written before these were read have None there), `fraction` the digits of a second.
    `charset` and `collation` are None for everything that is not text. `values` are the labels of an ENUM or SET.
    `captured` is False for a column that the user excludes. `carried` is how its values are carried (see
    `schema.representation`): `text`, `null` (dates that no calendar has are NULL), or as the type map says. `mask` says
    what of the values is let through (see `schema.masks`); all of them where it is empty. `generated` is empty for an
    ordinary column, and where it is not known; else `same` if its expression gives every session the same value (see
    `sql.generated_columns`), and `session` if that is not proven. Of two kinds there is no value to capture: `virtual`,
    a virtual one of which it is not proven, and `unlogged`, which the server leaves out of its updates' images.
    `compressed`: it is one of MariaDB's COMPRESSED columns, as far as the catalog was asked.
    """

    name: str
    type: str
    nullable: bool = True
    unsigned: bool = False
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    fraction: int = 0
    charset: str | None = None
    collation: str | None = None
    captured: bool = True
    values: tuple[str, ...] = ()
    carried: Carried = ""
    mask: str = ""
    generated: Generated = ""
    compressed: bool = False

    @property
    def declared(self) -> str:
        """The type as people write it: `decimal(10,2)`, `bigint unsigned`, `varchar(20)`, `datetime(6)`."""
        if self.values:
            inside = f"({','.join(map(_quoted, self.values))})"
        elif self.precision is not None:
            inside = f"({self.precision},{self.scale or 0})"
        elif self.length is not None:
            inside = f"({self.length})"
        else:
            inside = f"({self.fraction})" if self.fraction else ""
        return f"{self.type}{inside}{' unsigned' if self.unsigned else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data; `values`, `carried`, `mask`, `generated` and `compressed` only where they are set."""
        return {name: value for name, value in asdict(self).items() if value or name not in _ONLY_IF_SET}


@dataclass(frozen=True)
class UniqueIndex:
    """A UNIQUE index by its name, over whole columns that are NOT NULL and not generated, in the index's order."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class TableSchema:
    """One table: every physical column in order, and the names of the key's columns in the key's order.

    `charset` is the character set of a new column that names none, where it is known. `key_given`: the table has no
    primary key, and `key` is what the user says that tells its rows apart, perhaps nothing (see `schema.declared_key`).
    `hidden_hashes`: MariaDB may log hidden numbers after the columns, of UNIQUE keys that it keeps as hashes.
    `prefixed`: the primary key is over prefixes of some of its columns; `key` has the whole columns.
    `unique` is the index that can be the key of a table without a primary key (see `schema.unique_key`), and
    `more_unique` says of such a table whether it may have other UNIQUE indexes, too; None where that is not known.
    `versioning` is that of a system-versioned table, whose keys, here, are those of its current rows.
    `engine` is the storage engine, as catalogs write it; empty for InnoDB.
    """

    database: str
    table: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    charset: str | None = None
    key_given: bool = False
    hidden_hashes: bool = False
    prefixed: bool = False
    unique: UniqueIndex | None = None
    more_unique: bool | None = None
    versioning: Versioning | None = None
    engine: str = ""

    @property
    def name(self) -> str:
        """`database.table`, as in bronze's source_table (see `model.table_name`)."""
        return join(self.database, self.table)

    @cached_property
    def captured(self) -> tuple[Column, ...]:
        """The columns that images hold, in the table's order."""
        return tuple(c for c in self.columns if c.captured)

    @cached_property
    def key_columns(self) -> tuple[Column, ...]:
        """The key's columns, in the key's order."""
        by_name = {c.name: c for c in self.columns}
        return tuple(by_name[name] for name in self.key)

    @property
    def locked(self) -> bool:
        """Whether its engine locks the whole table for each statement (see `schema.engines`)."""
        return self.engine in LOCKED

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns of the primary key; () where there is none."""
        return () if self.key_given or self.unique is not None else self.key

    @property
    def range_key(self) -> tuple[str, ...]:
        """The key's columns where the table is read in ranges of them; () where it is read as one view.

        Ranges need an index of the whole columns, and values that a condition in SQL repeats exactly.
        """
        if self.key_given or self.prefixed or any(column.type in INEXACT for column in self.key_columns):
            return ()
        return self.key

    @property
    def key_index(self) -> str:
        """The name of the index that orders the `range_key`."""
        return "PRIMARY" if self.unique is None else self.unique.name

    @property
    def declared(self) -> TableSchema:
        """The schema as the server has it, without a key that the user gives, or that is a unique index."""
        return self if self.primary_key else replace(self, key=(), key_given=False)

    @cached_property
    def id(self) -> str:
        """Fingerprint: the first 16 hex digits of the SHA-256 of the canonical JSON."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """Plain data: what an `s` row holds in `after`."""
        data: dict[str, Any] = {
            "database": self.database,
            "table": self.table,
            "columns": [c.to_dict() for c in self.columns],
            "key": list(self.key),
        }
        data |= {"charset": self.charset} if self.charset else {}
        data |= {"key_given": True} if self.key_given else {}
        data |= {"prefixed": True} if self.prefixed else {}
        data |= {"unique": [self.unique.name, *self.unique.columns]} if self.unique else {}
        data |= {} if self.more_unique is None else {"more_unique": self.more_unique}
        data |= {"versioning": asdict(self.versioning)} if self.versioning else {}
        data |= {"engine": self.engine} if self.engine else {}
        return data | ({"hidden_hashes": True} if self.hidden_hashes else {})

    def to_json(self) -> str:
        """Canonical: sorted keys, no spaces."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TableSchema:
        """The inverse of `to_dict`."""
        columns = tuple(Column(**{**c, "values": tuple(c.get("values", ()))}) for c in data["columns"])
        named, versioning = data.get("unique"), data.get("versioning")
        return cls(
            data["database"],
            data["table"],
            columns,
            tuple(data["key"]),
            data.get("charset"),
            data.get("key_given", False),
            data.get("hidden_hashes", False),
            data.get("prefixed", False),
            UniqueIndex(named[0], tuple(named[1:])) if named else None,
            data.get("more_unique"),
            Versioning(**versioning) if versioning else None,
            data.get("engine", ""),
        )

    @classmethod
    def from_json(cls, text: str) -> TableSchema:
        """The inverse of `to_json`."""
        return cls.from_dict(json.loads(text))


def _quoted(label: str) -> str:
    """A label as SQL's text."""
    return "'" + label.replace("\\", "\\\\").replace("'", "''") + "'"
