"""The window of an as-of read: what the binlog (F, H] says of one table, or that its schema changed in it."""

from __future__ import annotations

from collections.abc import Callable

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql.binlog.scan import LoggedStatement
from lakehouse_cdc.source.log import LogReader
from lakehouse_cdc.source.log_part import LogPart
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.splits import RepairSplit, SnapshotSplit


def read_window(
    split: SnapshotSplit | RepairSplit,
    options: SourceOptions,
    server_id: int,
    high: Position,
    take: Callable[[LogPart], None],
) -> bool:
    """Hand the parts of (F, `high`] that hold changes of the split's table to `take`; rows of XA transactions last.

    False where DDL of the table lies in (W, `high`]: what was taken is of no use then. Raises DefiniteError for DDL in
    (F, W], which the planner puts F behind.
    """
    if not split.floor < high:
        return True
    try:
        with LogReader(
            options, split.floor, high, [split.schema], split.identity, server_id, prepared=split.prepared
        ) as log:
            for part in log:
                if part.statements:
                    return _ddl(part.statements[0], split, options)
                take(part)
            return True
    except DefiniteError:
        # rows behind DDL do not fit the schema: look for the DDL alone, without looking at rows
        with LogReader(options, split.floor, high, [], split.identity, server_id, watched=split.schema) as log:
            for part in log:
                if part.statements:
                    return _ddl(part.statements[0], split, options)
        raise


def _ddl(found: LoggedStatement, split: SnapshotSplit | RepairSplit, options: SourceOptions) -> bool:
    if found.position <= split.stamp.position:
        raise DefiniteError(
            f"a statement between the floor {split.floor} and W concerns the table: {options.shown(found.text)}",
            where=f"{split.schema.name} at {found.position}",
            hint="this should be impossible; please report it with the checkpoint's last offset",
        )
    return False
