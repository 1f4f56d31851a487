"""Type 1 with hard deletes by deltalake: what `forms.writers.current` does, tombstones and then rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_cdc.lake.direct.rust_table import Merge, Once, RustTable
from lakehouse_cdc.model.own_columns import longer_than_any
from lakehouse_cdc.silver.load.bronze_images import SEQ, TIME
from lakehouse_cdc.silver.table_tasks.changes import Changes, rank_in, same_keys, within
from lakehouse_cdc.silver.table_tasks.work import MOST_BYTES, GaveUp, Outcome, TableTask, name_of
from lakehouse_cdc.silver.tables.guards import BARRIER, BOUNDED, DELETE, HORIZON, Guards

_DELETED = longer_than_any("_lakehouse_cdc_deleted")


@dataclass(frozen=True)
class Current:
    """`first` is the least seq of the part's changes, `barrier` that below which no row survives, or 0.

    `guards` are those of the tombstones, None where the task is to read them. `old` are the microseconds since 1970
    before which tombstones are to be pruned, None where it is not time to look. `buries` is the commit to them.
    """

    tombstones: str
    first: int
    barrier: int
    buries: Once
    guards: Guards | None
    old: int | None
    most_bytes: ClassVar[int] = MOST_BYTES

    def apply(self, task: TableTask, table: RustTable) -> Outcome:
        """See `work.Work`."""
        graves = RustTable(self.tombstones, name_of(self.tombstones))
        if not graves.bare or graves.bounded != BOUNDED:
            raise GaveUp("the table of the tombstones is Spark's")
        guards = self.guards if self.guards is not None else _guards(graves)
        if not table.has(task.merges):
            changes = task.changes()
            latest = changes.latest()
            own = _bury(self, graves, changes, latest)
            # those of this very batch may be among them, where it comes again: they overtake none of its own deletes
            survivors = _survivors(self, graves, changes, latest, guards, own)
            guards = guards.joined(own)
            rows = task.with_kept(changes.rows(survivors, task.own, _DELETED), table)
            if not table.sizes():
                rows = rows.filter(pc.invert(rows.column(_DELETED)))
                table.append(rows.select(table.schema.names), task.merges)
            elif len(rows) or self.barrier:
                range_of_key = within(rows, task.schema)
                merge = Merge(rows, task.schema.key, task.own.seq, _DELETED, range_of_key, self.barrier)
                table.merge(merge, task.merges)
                table.put_together()
                graves.put_together()
        else:
            guards = _guards(graves)
        return Outcome(task.name, table.version, guards, _prunable(self, graves))


def _guards(graves: RustTable) -> Guards:
    greatest = graves.rows(["op", "seq"]).group_by("op").aggregate([("seq", "max")]).to_pylist()
    return Guards.of({row["op"]: int(row["seq_max"]) for row in greatest})


def _bury(work: Current, graves: RustTable, changes: Changes, latest: pa.Array) -> Guards:
    """Append the batch's deletes and its barrier; the guards that these are."""
    gone = latest.filter(changes.deleted.take(latest))
    keys = changes.keys.take(gone).combine_chunks()
    op = [DELETE] * len(gone) + [BARRIER] * bool(work.barrier)
    seqs = pa.concat_arrays([changes.seqs.take(gone), pa.array([Decimal(work.barrier)][: bool(work.barrier)], SEQ)])
    if not op:
        return Guards()
    held = graves.schema
    kind = held.field("key").type
    if {f.name for f in kind} != set(keys.column_names):
        raise GaveUp("the tombstones are of another key")
    columns = [keys.column(f.name).cast(f.type).combine_chunks() for f in kind]
    structs = pa.StructArray.from_arrays(columns, fields=list(kind))
    now = datetime.now(timezone.utc)
    rows = {
        "op": pa.array(op, pa.string()),
        "key": pa.concat_arrays([structs, pa.nulls(len(op) - len(gone), kind)]),
        "seq": seqs,
        "applied_at": pa.array([now] * len(op), TIME),
    }
    graves.append(pa.table(rows), work.buries)
    last = int(pc.max(changes.seqs).as_py()) if len(gone) else -1
    return Guards(delete=last, barrier=work.barrier)


def _survivors(
    work: Current, graves: RustTable, changes: Changes, latest: pa.Array, before: Guards, own: Guards
) -> pa.Array:
    """Those of the last changes that nothing earlier applied has overtaken."""
    barrier = max(before.barrier, own.barrier)
    if barrier > work.first:
        latest = latest.filter(pc.greater_equal(changes.seqs.take(latest), pa.scalar(Decimal(barrier), SEQ)))
    if before.horizon >= work.first:
        latest = latest.filter(pc.greater(changes.seqs.take(latest), pa.scalar(Decimal(before.horizon), SEQ)))
    if before.delete < work.first:
        return latest
    first = pa.scalar(Decimal(work.first), SEQ)
    buried = graves.rows(["key", "seq"], (pc.field("op") == DELETE) & (pc.field("seq") >= first))
    later = rank_in(changes.keys.take(latest), same_keys(buried, changes.keys.schema), buried.column("seq"))
    seqs, deleted = changes.seqs.take(latest), changes.deleted.take(latest)
    overtaken = pc.fill_null(pc.less(seqs, later), False)
    return latest.filter(pc.or_(deleted, pc.invert(overtaken)))


def _prunable(work: Current, graves: RustTable) -> bool:
    if work.old is None:
        return False
    limit = pa.scalar(work.old, TIME)
    return len(graves.rows(["op"], (pc.field("op") != HORIZON) & (pc.field("applied_at") < limit))) > 0
