"""Keys of a table that are to be read again: what a partial repair is asked for by, immutable once it is stored.

A key is here as what it is to silver, decoded and encoded again, so that it compares with a key of the source by
its values: 'a' and 'A' are two, whatever a collation says of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lakehouse_cdc.model.variant import decode, encode

Key = dict[str, Any]  # the key's columns, by name
MOST_KEYS = 10_000  # of a repair; where more differ, the whole table is read again


@dataclass(frozen=True)
class Repair:
    """Keys of `table` by the schema of that id.

    `since` is the seq at which the table's last repeated reading as a whole began when they were found, or 0.
    """

    table: str
    schema: str
    since: int
    keys: tuple[tuple[bytes, bytes], ...]  # VARIANT objects: value and metadata

    @classmethod
    def of(cls, table: str, schema: str, since: int, keys: Iterable[Key]) -> Repair:
        """From keys as values; the same keys in another order are the same repair."""
        return cls(table, schema, since, tuple(sorted(map(encode, keys))))

    def decoded(self) -> list[Key]:
        """The keys as values, in the order of `keys`."""
        return [decode(value, metadata) for value, metadata in self.keys]

    def to_json(self) -> str:
        """Canonical: sorted keys, no spaces. Numbers of many digits and bytes are text."""
        keys = [[value.hex(), metadata.hex()] for value, metadata in self.keys]
        data = {"table": self.table, "schema": self.schema, "since": str(self.since), "keys": keys}
        return json.dumps(data, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Repair:
        """The inverse of `to_json`."""
        data = json.loads(text)
        keys = tuple((bytes.fromhex(value), bytes.fromhex(metadata)) for value, metadata in data["keys"])
        return cls(data["table"], data["schema"], int(data["since"]), keys)
