"""A row of bronze to be written as messages, and the messages: key, value and headers as bytes.

Invariant: the messages of a change are a function of the change, of its table's schema, of the settings and of the time
of writing, which only Debezium's format and Canal's have. So a change that is written again has the same key, hence the
same partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.seq import unpack
from lakehouse_cdc.schema.table import TableSchema

RANKED = 300_000_000  # more rows than a transaction has; with the greatest rank before it, a number of 32 bits
Image = Mapping[str, Any]  # values as `model.variant.decode` gives them, by column
Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class RowChange:
    """A row of bronze whose `op` is r, c, u or d. `commit_us` is in microseconds since 1970.

    `key` is None in a table without one. A `d` has no image where its key was looked for and not found.
    """

    seq: int
    op: Op
    key: Image | None
    before: Image | None
    after: Image | None
    commit_us: int
    file: str
    pos: int
    gtid: str | None

    @property
    def row(self) -> Image:
        """The row after the change; of a `d` the one before it, or its key where that is all that is known."""
        if self.op is not Op.DELETE:
            return self.after or {}
        return self.key or {} if self.before is None else self.before

    @property
    def ordinal(self) -> int:
        """Which row of its transaction it is, from 0; of what is no event of the log it says the rank, too."""
        seq = unpack(self.seq)
        return seq.rank * RANKED + seq.ordinal


@dataclass(frozen=True)
class Message:
    """A record of a topic. A value of None is a tombstone: compaction removes the key."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()


# of a topic's part (key or value) and of a schema of Avro: what writes data of that schema as bytes
Part = Literal["key", "value"]
Encoder = Callable[[Part, Mapping[str, Any]], Callable[[Any], bytes]]


@dataclass(frozen=True)
class Settings:
    """How messages are written. `source` names the source in them, as Debezium's `topic.prefix` does.

    `exact`: no value is lost or changed, see each format. `schemas`: Debezium's messages have their schemas.
    `tombstones`: a `d` is followed by a message without a value. `version` is that of this program. `encoder` is for
    formats in Avro, which need one.
    """

    source: str
    topic: str
    exact: bool = False
    schemas: bool = False
    tombstones: bool = True
    version: str = ""
    encoder: Encoder | None = None


# the messages of a change, in order; the number is the time of writing in microseconds since 1970
Writer = Callable[[RowChange, int], list[Message]]
Format = Callable[[TableSchema, Settings], Writer]


def headers_of(change: RowChange) -> Headers:
    """`seq`, by which a reader recognises a message that was sent twice."""
    return (("seq", str(change.seq).encode()),)


def with_tombstone(messages: list[Message], change: RowChange, settings: Settings) -> list[Message]:
    """The messages, and a tombstone where the change takes a key away."""
    if change.op is Op.DELETE and change.key is not None and settings.tombstones:
        messages.append(Message(messages[0].key, None, messages[0].headers))
    return messages
