"""Rows that are only ever added, by deltalake: what `forms.writers.append` does, where none is taken away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_cdc.lake.direct.rust_table import RustTable
from lakehouse_cdc.silver.table_tasks.changes import Changes, whole_numbers
from lakehouse_cdc.silver.table_tasks.work import MOST_BYTES, GaveUp, Outcome, TableTask

_COME = pa.array(["r", "c"])


@dataclass(frozen=True)
class Appended:
    """`barrier` is the seq below which no row survives, or 0."""

    barrier: int
    most_bytes: ClassVar[int] = MOST_BYTES

    def apply(self, task: TableTask, table: RustTable) -> Outcome:
        """See `work.Work`."""
        if not table.has(task.merges):
            changes = task.changes()
            if not pc.all(pc.is_in(changes.ops, value_set=_COME)).as_py():
                raise GaveUp("a row is changed or goes")
            floor = self._floor(changes)
            if floor and table.sizes():
                raise GaveUp("rows of the table may go")
            lasting = np.flatnonzero([seq >= floor for seq in whole_numbers(changes.seqs)])
            rows, order = changes.images(lasting, "after")
            rows = rows.append_column(task.own.seq, changes.seqs.take(pa.array(order)))
            rows = rows.append_column(task.own.commit_ts, changes.times.take(pa.array(order)))
            table.append(task.with_kept(rows, table).select(table.schema.names), task.merges)
            table.put_together()
        return Outcome(task.name, table.version)

    def _floor(self, changes: Changes) -> int:
        """That below which no row survives; a read finds all rows that there are."""
        reads = changes.seqs.filter(pc.equal(changes.ops, "r"))
        return max(self.barrier, int(pc.max(reads).as_py()) if len(reads) else 0)
