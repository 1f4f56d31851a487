"""What can happen to a table, for `model.state_machine`: each event with what the next state needs of it.

A `seq` is the one at which a pass, or the reading of single keys, begins if the event makes one begin
(`Offset.next_reading`). A `floor` is the position at which the table has its shape: no read of it looks before that.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.table_state import Cursor

# ---------------------------------------------------------------------- a table is captured, or is not any more


@dataclass(frozen=True)
class TableDiscovered:
    """The catalog has the table, and it is to be captured from here on; `snapshots`: its rows are to be read."""

    schema: str
    snapshots: bool
    seq: int
    floor: Position | None = None


@dataclass(frozen=True)
class TableBorn:
    """A statement in the log created the table, empty."""

    schema: str
    snapshots: bool
    floor: Position


@dataclass(frozen=True)
class TableRecorded:
    """Bronze has rows of the table, and there is no offset that says more."""

    schema: str


@dataclass(frozen=True)
class TableDropped:
    """There is no such table any more."""


@dataclass(frozen=True)
class TableRefused:
    """The table cannot be captured, for this reason. `schema` is for one that is not in the offset yet."""

    reason: str
    schema: str = ""


@dataclass(frozen=True)
class TableDeselected:
    """The configuration does not select the table any more."""


@dataclass(frozen=True)
class EpochBegun:
    """The table, just found, was in the epoch before."""

    seq: int


# ---------------------------------------------------------------------- DDL


@dataclass(frozen=True)
class SchemaChanged:
    """`values_kept`: stored values read as they did. `key_order_kept`: a cursor means what it did."""

    schema: str
    values_kept: bool
    key_order_kept: bool
    seq: int
    floor: Position


@dataclass(frozen=True)
class RowsChanged:
    """Rows have other values, and the log does not say which."""

    seq: int
    floor: Position


@dataclass(frozen=True)
class TableTruncated:
    """All rows are gone."""

    floor: Position


# ---------------------------------------------------------------------- reading


@dataclass(frozen=True)
class ChunkPlanned:
    """The batch that ends here reads a chunk up to this cursor."""

    to: Cursor


@dataclass(frozen=True)
class LastChunkPlanned:
    """The batch that ends here reads all that is left."""


@dataclass(frozen=True)
class ReadsConfirmed:
    """The reads of the batch before crossed no DDL."""


@dataclass(frozen=True)
class DdlCrossed:
    """They may have crossed one. `reread`: at which seq all is read again, of a table without a key."""

    reread: int | None = None


@dataclass(frozen=True)
class ServerReplaced:
    """The log of another server continues this one's, and may not have what those reads met. See `DdlCrossed`."""

    reread: int | None = None


@dataclass(frozen=True)
class RereadAsked:
    """The rows are to be read again; nothing happened to the table."""

    seq: int


@dataclass(frozen=True)
class RepairAsked:
    """The stored keys of that name are to be read again; the batch that ends here does."""

    keys: str
    seq: int


@dataclass(frozen=True)
class RepairRetried:
    """The batch that ends here reads the keys again that are pending."""

    seq: int


Event = (
    TableDiscovered | TableBorn | TableRecorded | TableDropped | TableRefused | TableDeselected | EpochBegun
    | SchemaChanged | RowsChanged | TableTruncated
    | ChunkPlanned | LastChunkPlanned | ReadsConfirmed | DdlCrossed | ServerReplaced
    | RereadAsked | RepairAsked | RepairRetried
)  # fmt: skip
EVENTS: tuple[type[Event], ...] = (
    TableDiscovered, TableBorn, TableRecorded, TableDropped, TableRefused, TableDeselected, EpochBegun,
    SchemaChanged, RowsChanged, TableTruncated,
    ChunkPlanned, LastChunkPlanned, ReadsConfirmed, DdlCrossed, ServerReplaced,
    RereadAsked, RepairAsked, RepairRetried,
)  # fmt: skip
