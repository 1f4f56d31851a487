"""What one task reads. Plain values, since Spark sends them to other processes; no secret is among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from lakehouse_cdc.model.key_repair import Repair
from lakehouse_cdc.model.offset import Identity, Offset
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.seq import unpack
from lakehouse_cdc.model.table_state import Cursor
from lakehouse_cdc.model.xa import Prepared
from lakehouse_cdc.mysql.value_range import RangeIndex
from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.source.bronze_rows import Stamp
from lakehouse_cdc.source.tail.text_guard import UNKNOWN, TextGuard


@dataclass
class SchemaSplit(InputPartition):
    """The `s` rows of the tables that begin in this batch."""

    stamp: Stamp
    schemas: tuple[TableSchema, ...]


@dataclass
class AlterSplit(InputPartition):
    """The `s` rows of the changes that the statement made at which a stretch of this batch ends."""

    stamp: Stamp
    changes: tuple[SchemaChange, ...]


@dataclass
class TruncateSplit(InputPartition):
    """The `t` rows of the tables that the statement emptied at which a stretch of this batch ends."""

    stamp: Stamp
    schemas: tuple[TableSchema, ...]


@dataclass
class EndSplit(InputPartition):
    """The `x` row of a repeated pass that ends in this batch, the seq that the pass began at, and that below which no
    row exists: the same, but where all rows were read at one position."""

    stamp: Stamp
    schema: TableSchema
    since: int
    below: int


@dataclass
class SnapshotSplit(InputPartition):
    """as_of(table, [lo, hi), W): W is in the stamp, the floor is at or before it. None is unbounded.

    `prepared` are the XA transactions that are open at the floor. `texts` says which statements logged as text may
    change the table. `by`: the range is of values of that index's column, of a table without a key.
    """

    stamp: Stamp
    identity: Identity
    schema: TableSchema
    floor: Position
    lo: Cursor | None
    hi: Cursor | None
    prepared: tuple[Prepared, ...] = ()
    texts: TextGuard = UNKNOWN
    by: RangeIndex | None = None


@dataclass
class RepairSplit(InputPartition):
    """as_of(table, keys, W), otherwise as `SnapshotSplit`."""

    stamp: Stamp
    identity: Identity
    schema: TableSchema
    floor: Position
    repair: Repair
    prepared: tuple[Prepared, ...] = ()
    texts: TextGuard = UNKNOWN


@dataclass
class BinlogSplit(InputPartition):
    """The events in (start, end], both transaction boundaries in one file; or `end` is the beginning of the next file.

    `schemas` are the tables whose events are wanted; of those in `bounds`, only the keys below the cursor. `prepared`
    are the XA transactions that are open at `start`. `ddl`: the statement that ends at `end` is followed, by other
    splits.
    """

    epoch: int
    identity: Identity
    start: Position
    end: Position
    schemas: tuple[TableSchema, ...]
    bounds: Mapping[str, Cursor]
    prepared: tuple[Prepared, ...] = ()
    ddl: bool = False


Split = SchemaSplit | AlterSplit | TruncateSplit | EndSplit | SnapshotSplit | RepairSplit | BinlogSplit


def stamp_of(offset: Offset, since: int | None = None) -> Stamp:
    """What the rows that are at an offset's position share, in the reading of a table that began at seq `since`."""
    reading = unpack(since).ordinal if since is not None else 0
    place = offset.identity.server_uuid, offset.position, offset.last_gtid, offset.commit_ts
    return Stamp(offset.epoch, *place, reading, offset.turn)
