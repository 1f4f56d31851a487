"""What a task is given for one silver table, what it does, and what it answers.

It does what `forms.writers.current` does, with deltalake in the place of Spark: the tombstones of the batch, then one
commit to the table. See the package for why either may do any batch.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_cdc.images.typed.columns import arrow_type
from lakehouse_cdc.lake.direct.rust_table import Merge, Once, RustTable, literal
from lakehouse_cdc.model.own_columns import OwnColumns, longer_than_any
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.definition.engine import DELTALAKE, ENGINE
from lakehouse_cdc.silver.load.bronze_images import SEQ, TIME
from lakehouse_cdc.silver.table_tasks.changes import Changes, rank_in, same_keys
from lakehouse_cdc.silver.tables.guards import BARRIER, BOUNDED, DELETE, HORIZON, Guards

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_cdc.lake.direct.file_listing import Listed
    from lakehouse_cdc.model.commit_note import CommitNote
    from lakehouse_cdc.silver.batch.contents import TableBatch

_DELETED = longer_than_any("_lakehouse_cdc_deleted")
_MOST_BYTES = 1 << 30  # of a table, of which a MERGE here may have to write each file again
_TABLE_ROWS = 5_000  # that are read in the time that a table takes without any
_NONE = Guards()
_RANGED = (pa.types.is_integer, pa.types.is_date)


class GaveUp(Exception):
    """The table, or what it is to be given, is not the plain case. What was committed Spark would have committed."""


class Outgrown(GaveUp):
    """The table is so large that a MERGE which writes whole files again costs too much."""


@dataclass(frozen=True)
class TableTask:
    """The part of a batch that is one table's.

    `files` are the paths of its files below the folder of `bronze`; `first` is the least seq of its changes, `barrier`
    that below which no row survives, or 0. `kept` are columns that the table has beside those of `schema`; they are
    NULL in every row that is written. `bounded` is Delta's list of the columns that have statistics. `guards` are those
    of its tombstones, None where the task is to read them. `old` are the microseconds since 1970 before which
    tombstones are to be pruned, None where it is not time to look.
    """

    name: str
    bronze: str
    files: tuple[str, ...]
    rows: int
    table: str
    tombstones: str
    schema: TableSchema
    schema_ids: frozenset[str]
    own: OwnColumns
    kept: frozenset[str]
    bounded: str
    first: int
    barrier: int
    buries: Once
    merges: Once
    guards: Guards | None
    old: int | None


@dataclass(frozen=True)
class Outcome:
    """What a task has done of a table: it is at that version, with tombstones of these guards.

    `prunable`: there are tombstones that are old. `gave_up` says why Spark is to do it; the rest then says nothing, but
    for `outgrown`: the table is to be Spark's from now on.
    """

    name: str
    version: int = -1
    guards: Guards = _NONE
    prunable: bool = False
    gave_up: str = ""
    outgrown: bool = False


@runtime_checkable
class TaskWriter(Protocol):
    """A writer (see `definition.form.Writer`) whose table may be one that deltalake keeps."""

    def task(self, part: TableBatch, files: Sequence[Listed], note: CommitNote) -> TableTask:
        """What a task is to do of the part, which has no change of the schema, and is in those files of bronze."""

    def did(self, session: SparkSession, outcome: Outcome) -> None:
        """A task has done it."""


def run(tasks: Sequence[TableTask]) -> list[Outcome]:
    """Do them one after the other. A table that fails is Spark's, whatever the reason, and no other's trouble."""
    return [_tried(task) for task in tasks]


def _tried(task: TableTask) -> Outcome:
    try:
        return applied(task)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic of Rust is no Exception
        return gave_up(task, error)


def gave_up(task: TableTask, error: BaseException) -> Outcome:
    """What is answered for a task that ended so."""
    reason = f"{type(error).__name__}: {error}"[:500]
    return Outcome(task.name, gave_up=reason, outgrown=isinstance(error, Outgrown))


def applied(task: TableTask) -> Outcome:
    """Do one. Raises GaveUp, NotOurs, or an error of deltalake's."""
    table, graves = RustTable(task.table, _name(task.table)), RustTable(task.tombstones, _name(task.tombstones))
    _require_plain(task, table, graves)
    guards = task.guards if task.guards is not None else _guards(graves)
    if not table.has(task.merges):
        changes = Changes.read(task.bronze, task.files, task.schema, task.schema_ids)
        latest = changes.latest()
        own = _bury(task, graves, changes, latest)
        # those of this very batch may be among them, where it comes again: they overtake none of its own deletes
        survivors = _survivors(task, graves, changes, latest, guards, own)
        guards = guards.joined(own)
        if len(survivors) or task.barrier:
            table.merge(_merge(task, table, changes, survivors), task.merges)
            table.put_together()
            graves.put_together()
    else:
        guards = _guards(graves)
    return Outcome(task.name, table.version, guards, _prunable(task, graves))


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _require_plain(task: TableTask, table: RustTable, graves: RustTable) -> None:
    if table.properties.get(ENGINE) != DELTALAKE or not (table.bare and graves.bare):
        raise GaveUp("the table, or that of its tombstones, is Spark's")
    if (table.bounded, graves.bounded) != (task.bounded, BOUNDED):
        raise GaveUp("statistics are kept of other columns than expected, of which some would be wrong")
    held = {field.name: field.type for field in table.schema}
    wanted = {c.name: arrow_type(require(c, task.schema.name)) for c in task.schema.captured}
    wanted |= {task.own.seq: SEQ, task.own.commit_ts: TIME}
    if {name: kind for name, kind in held.items() if name not in task.kept} != wanted:
        raise GaveUp("the table has other columns than expected")
    if sum(table.sizes()) > _MOST_BYTES:
        raise Outgrown("so large a table is Spark's")


def _guards(graves: RustTable) -> Guards:
    greatest = graves.rows(["op", "seq"]).group_by("op").aggregate([("seq", "max")]).to_pylist()
    return Guards.of({row["op"]: int(row["seq_max"]) for row in greatest})


def _bury(task: TableTask, graves: RustTable, changes: Changes, latest: pa.Array) -> Guards:
    """Append the batch's deletes and its barrier; the guards that these are."""
    gone = latest.filter(changes.deleted.take(latest))
    keys = changes.keys.take(gone).combine_chunks()
    op = [DELETE] * len(gone) + [BARRIER] * bool(task.barrier)
    seqs = pa.concat_arrays([changes.seqs.take(gone), pa.array([Decimal(task.barrier)][: bool(task.barrier)], SEQ)])
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
    graves.append(pa.table(rows), task.buries)
    last = int(pc.max(changes.seqs).as_py()) if len(gone) else -1
    return Guards(delete=last, barrier=task.barrier)


def _survivors(
    task: TableTask, graves: RustTable, changes: Changes, latest: pa.Array, before: Guards, own: Guards
) -> pa.Array:
    """Those of the last changes that nothing earlier applied has overtaken."""
    barrier = max(before.barrier, own.barrier)
    if barrier > task.first:
        latest = latest.filter(pc.greater_equal(changes.seqs.take(latest), pa.scalar(Decimal(barrier), SEQ)))
    if before.horizon >= task.first:
        latest = latest.filter(pc.greater(changes.seqs.take(latest), pa.scalar(Decimal(before.horizon), SEQ)))
    if before.delete < task.first:
        return latest
    first = pa.scalar(Decimal(task.first), SEQ)
    buried = graves.rows(["key", "seq"], (pc.field("op") == DELETE) & (pc.field("seq") >= first))
    later = rank_in(changes.keys.take(latest), same_keys(buried, changes.keys.schema), buried.column("seq"))
    seqs, deleted = changes.seqs.take(latest), changes.deleted.take(latest)
    overtaken = pc.fill_null(pc.less(seqs, later), False)
    return latest.filter(pc.or_(deleted, pc.invert(overtaken)))


def _merge(task: TableTask, table: RustTable, changes: Changes, survivors: pa.Array) -> Merge:
    rows = changes.rows(survivors, task.own, _DELETED)
    kinds = {field.name: field.type for field in table.schema}
    for name in sorted(task.kept):
        rows = rows.append_column(pa.field(name, kinds[name]), pa.nulls(len(rows), kinds[name]))
    first = task.schema.key[0]
    within, kind = None, rows.schema.field(first).type
    if len(rows) and any(is_kind(kind) for is_kind in _RANGED):
        ends = pc.min_max(rows.column(first)).as_py()
        within = (first, literal(ends["min"], kind), literal(ends["max"], kind))
    return Merge(rows, task.schema.key, task.own.seq, _DELETED, within, task.barrier)


def _prunable(task: TableTask, graves: RustTable) -> bool:
    if task.old is None:
        return False
    limit = pa.scalar(task.old, TIME)
    return len(graves.rows(["op"], (pc.field("op") != HORIZON) & (pc.field("applied_at") < limit))) > 0


def micros_ago(days: float) -> int:
    """The time so many days ago, in microseconds since 1970."""
    return round((time.time() - days * 86400) * 1e6)


def spread(tasks: Sequence[TableTask], runs: int) -> list[list[TableTask]]:
    """The tables in so many runs or fewer, each with about as much to do: rows of bronze, and a little a table."""
    lists: list[list[TableTask]] = [[] for _ in range(max(1, min(runs, len(tasks))))]
    load = [0] * len(lists)
    for task in sorted(tasks, key=lambda one: (-one.rows, one.name)):
        least = load.index(min(load))
        lists[least].append(task)
        load[least] += task.rows + _TABLE_ROWS
    return lists
