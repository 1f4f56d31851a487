"""Rows of a table without a key, each copy a row, by deltalake: what `forms.writers.multiset` does, by the same stacks.

A batch that takes away all older rows (a truncation, a repeated read) of a table that has files is Spark's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_cdc.lake.direct.rust_table import Merge, RustTable
from lakehouse_cdc.model.copies import settled
from lakehouse_cdc.model.own_columns import longer_than_any
from lakehouse_cdc.silver.batch.row_digest import by_arrow
from lakehouse_cdc.silver.load.bronze_images import SEQ
from lakehouse_cdc.silver.table_tasks.changes import Changes, whole_numbers
from lakehouse_cdc.silver.table_tasks.work import GaveUp, Outcome, TableTask

_MOST_ROWS = 100_000  # of a part: each takes a hundredth of a millisecond or two
_COME, _GO = pa.array(["r", "c", "u"]), pa.array(["d", "u"])
_DELETED = longer_than_any("_lakehouse_cdc_deleted")
_Event = tuple[int, int, int]  # seq, +1 or -1, and which row it is among those that come, or -1


@dataclass(frozen=True)
class _Copies:
    """Copies that are written (digest, number, which row among those that come), and those that go (digest, number)."""

    written: Sequence[tuple[str, int, int]]
    gone: Sequence[tuple[str, int]]
    merged: bool  # whether a row of the table is among them


@dataclass(frozen=True)
class Counted:
    """`barrier` is the seq below which no row survives, or 0."""

    barrier: int
    most_bytes: ClassVar[int] = 64 << 20  # rows that change are in any of the files, each of which is written again

    def apply(self, task: TableTask, table: RustTable) -> Outcome:
        """See `work.Work`."""
        if not table.has(task.merges):
            if task.rows > _MOST_ROWS:
                raise GaveUp("so many changes are applied by Spark")
            changes = task.changes(befores=True)
            floor = self._floor(changes)
            if floor and table.sizes():
                raise GaveUp("rows of the table may go")
            counts = np.array([seq >= floor for seq in whole_numbers(changes.seqs)], bool)
            come, came = changes.images(np.flatnonzero(counts & _among(changes, _COME)), "after")
            go, went = changes.images(np.flatnonzero(counts & _among(changes, _GO)), "before")
            events: dict[str, list[_Event]] = defaultdict(list)
            for digest, seq in zip(by_arrow(go, task.schema), _seqs(changes, went), strict=True):
                events[digest].append((seq, -1, -1))
            for place, (digest, seq) in enumerate(zip(by_arrow(come, task.schema), _seqs(changes, came), strict=True)):
                events[digest].append((seq, 1, place))
            copies = _copies(events, _there(task, table, events))
            rows = _written(task, table, changes, come, came, copies)
            if copies.merged:
                rows = pa.concat_tables([rows, _gone(task, table, changes, copies)])
                key = (task.own.row_hash, task.own.row_copy)
                table.merge(Merge(rows, key, task.own.seq, _DELETED), task.merges)
            else:
                table.append(rows.select(table.schema.names), task.merges)
            table.put_together()
        return Outcome(task.name, table.version)

    def _floor(self, changes: Changes) -> int:
        """That below which no row survives; a read finds all rows that there are."""
        reads = changes.seqs.filter(pc.equal(changes.ops, "r"))
        return max(self.barrier, int(pc.max(reads).as_py()) if len(reads) else 0)


def _among(changes: Changes, ops: pa.Array) -> npt.NDArray[np.bool_]:
    chosen: npt.NDArray[np.bool_] = pc.is_in(changes.ops, value_set=ops).to_numpy(zero_copy_only=False)
    return chosen


def _seqs(changes: Changes, numbers: npt.NDArray[np.int64]) -> list[int]:
    return whole_numbers(changes.seqs.take(pa.array(numbers)))


def _there(task: TableTask, table: RustTable, digests: Iterable[str]) -> Mapping[str, int]:
    """How many copies the table has, by digest."""
    if not table.sizes():
        return {}
    name, number = task.own.row_hash, task.own.row_copy
    rows = table.rows([name, number], among=(name, pa.array(list(digests), pa.string())))
    most = rows.group_by(name, use_threads=False).aggregate([(number, "max")])
    return dict(zip(most.column(name).to_pylist(), most.column(f"{number}_max").to_pylist(), strict=True))


def _copies(events: Mapping[str, list[_Event]], there: Mapping[str, int]) -> _Copies:
    """Raises GaveUp where more copies go than there are; Spark then finds out what that means."""
    written: list[tuple[str, int, int]] = []
    gone: list[tuple[str, int]] = []
    merged = False
    for digest, of_digest in events.items():
        ordered = sorted(of_digest)  # of one seq what goes is first
        on_top, removed = settled([n for _, n, _ in ordered])
        held = there.get(digest, 0)
        if removed > held:
            raise GaveUp("a row goes more often than it is there")
        base = held - removed
        merged = merged or removed > 0
        written += [(digest, base + 1 + i, ordered[place][2]) for i, place in enumerate(on_top)]
        gone += [(digest, number) for number in range(base + len(on_top) + 1, held + 1)]
    return _Copies(written, gone, merged)


def _written(
    task: TableTask, table: RustTable, changes: Changes, come: pa.Table, came: npt.NDArray[np.int64], copies: _Copies
) -> pa.Table:
    """The copies that are written, in the table's columns, and not deleted."""
    places = np.array([place for _, _, place in copies.written], np.int64)
    rows, of = come.take(pa.array(places)), pa.array(came[places])
    seqs, times = changes.seqs.take(of), changes.times.take(of)
    rows = rows.append_column(task.own.seq, seqs).append_column(task.own.commit_ts, times)
    named = [(digest, number) for digest, number, _ in copies.written]
    return _named(task, table, task.with_kept(rows, table), named, deleted=False)


def _gone(task: TableTask, table: RustTable, changes: Changes, copies: _Copies) -> pa.Table:
    """The copies that go, newer than all that the table has."""
    last, n = Decimal(max(whole_numbers(changes.seqs))), len(copies.gone)
    ours = (task.own.row_hash, task.own.row_copy)
    columns = {field.name: pa.nulls(n, field.type) for field in table.schema if field.name not in ours}
    columns[task.own.seq] = pa.array([last] * n, SEQ)
    return _named(task, table, pa.table(columns), copies.gone, deleted=True)


def _named(
    task: TableTask, table: RustTable, rows: pa.Table, copies: Sequence[tuple[str, int]], *, deleted: bool
) -> pa.Table:
    """Rows with digest and number, and whether they are deleted; in the order of the table's columns."""
    rows = rows.append_column(task.own.row_hash, pa.array([digest for digest, _ in copies], pa.string()))
    rows = rows.append_column(task.own.row_copy, pa.array([number for _, number in copies], pa.int32()))
    rows = rows.append_column(_DELETED, pa.array([deleted] * len(copies), pa.bool_()))
    return rows.select([*table.schema.names, _DELETED])
