"""The window of an as-of read: what the binlog (F, H] says of one table, or that it says too little.

That is where its schema changed in (W, H], or rows by a statement that was logged as text; see `text_guard`.
"""

from __future__ import annotations

from collections.abc import Callable

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql.binlog.scan import Decision, LoggedStatement
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.reading.log_batch import LogPart
from lakehouse_cdc.source.reading.log_reader import LogReader
from lakehouse_cdc.source.reading.xa_groups import PreparedPart
from lakehouse_cdc.source.splits import RepairSplit, SnapshotSplit
from lakehouse_cdc.sql.dml_names import Names
from lakehouse_cdc.sql.references import Definition


def read_window(
    split: SnapshotSplit | RepairSplit,
    options: SourceOptions,
    server_id: int,
    high: Position,
    take: Callable[[LogPart], None],
) -> bool:
    """Hand the parts of (F, `high`] that hold changes of the split's table to `take`; rows of XA transactions last.

    False where DDL of the table lies in (W, `high`], or a text that may change it: what was taken is of no use then.
    Raises DefiniteError for DDL in (F, W], which the planner puts F after.
    """
    if not split.floor < high:
        return True
    texts = _Texts(split)
    try:
        with LogReader(
            options, split.floor, high, [split.schema], split.identity, server_id, prepared=split.prepared
        ) as log:
            for part in log:
                texts.take(part)
                if part.statements:
                    return _ddl(part.statements[0], split, options)
                take(part)
            return not texts.may_have_changed
    except DefiniteError:
        # rows after DDL do not fit the schema: look for the DDL alone, without looking at rows
        with LogReader(options, split.floor, high, [], split.identity, server_id, watched=split.schema) as log:
            for part in log:
                texts.take(part)
                if part.statements:
                    return _ddl(part.statements[0], split, options)
        if texts.may_have_changed:  # it may have been DDL
            return False
        raise


class _Texts:
    """The texts and definitions in (W, H], and the XA transactions that are committed there."""

    def __init__(self, split: SnapshotSplit | RepairSplit) -> None:
        self._guard, self._low = split.texts, split.stamp.position
        self._names: set[Names] = set()
        self._definitions: list[Definition] = []
        self._committed: set[str] = set()

    def take(self, part: LogPart) -> None:
        for statement in part.scan.statements:
            if statement.named is None or statement.position <= self._low:
                continue
            if statement.named.names is not None:
                self._names.add(statement.named.names)
            if statement.named.definition is not None:
                self._definitions.append(statement.named.definition)
        if not isinstance(part, PreparedPart):
            self._committed |= {d.xid for d in part.scan.decisions if d.kind == "commit" and self._after(part, d)}

    def _after(self, part: LogPart, decision: Decision) -> bool:
        txns = part.scan.transactions
        end = Position(part.scan.files[txns.file[decision.transaction]], int(txns.end[decision.transaction]))
        return end > self._low

    @property
    def may_have_changed(self) -> bool:
        return self._guard.may_change(self._names, self._definitions, self._committed)


def _ddl(statement: LoggedStatement, split: SnapshotSplit | RepairSplit, options: SourceOptions) -> bool:
    if statement.position <= split.stamp.position:
        raise codes.INVARIANT_BROKEN.error(
            f"a statement between the floor {split.floor} and W concerns the table: {options.shown(statement.text)}",
            where=f"{split.schema.name} at {statement.position}",
            hint="this should be impossible; please report it with the checkpoint's last offset",
        )
    return False
