"""What a task is given for one silver table, what it does, and what it answers.

A task opens the table, sees that it is what the driver took it for, and does the `Work` of its form (`current`,
`folded`, `counted`, `appended`), which ends with one commit to the table. See the package for why either engine may do
any batch.
"""

from __future__ import annotations

import faulthandler
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import pyarrow as pa

from lakehouse_cdc.images.typed.columns import arrow_type
from lakehouse_cdc.lake.direct.rust_table import Once, RustTable
from lakehouse_cdc.model.own_columns import OwnColumns
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.batch.seq_range import EVERYTHING, SeqRange
from lakehouse_cdc.silver.definition.engine import DELTALAKE, ENGINE
from lakehouse_cdc.silver.definition.form import MOMENT
from lakehouse_cdc.silver.load.bronze_images import SEQ, TIME
from lakehouse_cdc.silver.table_tasks.changes import Changes
from lakehouse_cdc.silver.tables.guards import Guards

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_cdc.lake.direct.file_listing import Listed
    from lakehouse_cdc.model.commit_note import CommitNote
    from lakehouse_cdc.silver.batch.contents import TableBatch

MOST_BYTES = 1 << 30  # of a table, of which a MERGE here may have to write each file again
_TABLE_ROWS = 5_000  # that are read in the time that a table takes without any
_LONGEST = 1200.0  # seconds for a table; a MERGE into one as large as is taken here needs some tens
_NONE = Guards()
OF_FORMS = {  # types of columns of forms
    "timestamp": TIME,
    MOMENT: pa.struct([("seq", SEQ), ("commit_ts", TIME)]),
    "string": pa.string(),
    "int": pa.int32(),
}


class GaveUp(Exception):
    """The table, or what it is to be given, is not the plain case. What was committed Spark would have committed."""


class Outgrown(GaveUp):
    """The table is so large that a MERGE which writes whole files again costs too much."""


class Work(Protocol):
    """What is done with the table of a task, by its form; one of more than `most_bytes` is Spark's."""

    @property
    def most_bytes(self) -> int:
        """Of all of the table's files."""

    def apply(self, task: TableTask, table: RustTable) -> Outcome:
        """Do it, in one commit to the table. Raises GaveUp, NotOurs, or an error of deltalake's."""


@dataclass(frozen=True)
class TableTask:
    """The part of a batch that is one table's.

    `files` are the paths of its files below the folder of `bronze`, which hold `rows` rows. `of_form` are the columns
    that its form adds, and their types. `kept` are columns that the table has beside those of `schema`; they are NULL
    in every row that is written. `bounded` is Delta's list of the columns that have statistics. `merges` is the commit.
    `among` are the seqs of those rows of the files that are meant.
    """

    name: str
    bronze: str
    files: tuple[str, ...]
    rows: int
    table: str
    schema: TableSchema
    schema_ids: frozenset[str]
    own: OwnColumns
    of_form: tuple[tuple[str, str], ...]
    kept: frozenset[str]
    bounded: str
    merges: Once
    work: Work
    among: SeqRange = EVERYTHING

    def changes(self, *, befores: bool = False) -> Changes:
        """The row changes of its files; `befores`: with the images of rows before them. Raises NotOurs."""
        return Changes.read(self.bronze, self.files, self.schema, self.schema_ids, among=self.among, befores=befores)

    def with_kept(self, rows: pa.Table, table: RustTable) -> pa.Table:
        """Rows with the columns that the table keeps, too."""
        kinds = {field.name: field.type for field in table.schema}
        for name in sorted(self.kept):
            rows = rows.append_column(pa.field(name, kinds[name]), pa.nulls(len(rows), kinds[name]))
        return rows


@dataclass(frozen=True)
class Outcome:
    """What a task has done of a table: it is at that version, with tombstones of these guards, if it has any.

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


def run(tasks: Sequence[TableTask], longest: float = _LONGEST) -> list[Outcome]:
    """Do them one after the other. A table that fails is Spark's, whatever the reason, and no other's trouble.

    In a process for which tasks alone are done: where a table takes `longest` seconds, it ends, and says where it was.
    Threads of a library may wait for each other for ever, and Python cannot end such a call. The job then fails.
    """
    outcomes = []
    for task in tasks:
        faulthandler.dump_traceback_later(longest, exit=True, file=2)  # stderr
        try:
            outcomes.append(_tried(task))
        finally:
            faulthandler.cancel_dump_traceback_later()
    return outcomes


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
    table = RustTable(task.table, name_of(task.table))
    _require_plain(task, table)
    return task.work.apply(task, table)


def name_of(path: str) -> str:
    """The name of the table in that folder."""
    return path.rpartition("/")[2]


def _require_plain(task: TableTask, table: RustTable) -> None:
    if table.properties.get(ENGINE) != DELTALAKE or not table.bare:
        raise GaveUp("the table is Spark's")
    if table.bounded != task.bounded:
        raise GaveUp("statistics are kept of other columns than expected, of which some would be wrong")
    held = {field.name: field.type for field in table.schema}
    wanted = {c.name: arrow_type(require(c, task.schema.name)) for c in task.schema.captured}
    wanted |= {name: OF_FORMS[kind] for name, kind in task.of_form}
    wanted |= {task.own.seq: SEQ, task.own.commit_ts: TIME}
    if {name: kind for name, kind in held.items() if name not in task.kept} != wanted:
        raise GaveUp("the table has other columns than expected")
    if sum(table.sizes()) > task.work.most_bytes:
        raise Outgrown("so large a table is Spark's")


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
