"""Bring one silver table through a batch, in which its schema may change, once or several times.

A batch is cut at the changes of the schema, in the order of seq: the rows below the first are of the schema before it,
those above of the schema after it, and so on. Each segment is applied by a writer for its schema, with commits of its
own; between two, the table evolves. Bronze is written and read in the order of seq, so a table that has gone through a
change, or has begun to, has had everything older: of a batch that comes again, after a crash at any point or from an
older checkpoint, the segments below are passed over, the change that was under way continues (see `evolution`), and
what remains is known to Delta, or moves no row backwards. A table that is left off stays as it is, and says so. So does
one that is quarantined here, because silver cannot hold what comes: it says which part of bronze it holds, and takes up
from there when it is tried again.

A table that is met for the first time, or was moved away, is built from the whole of bronze, which may hold changes as
well; then it says that it is being built until all segments are in, so that a crash does not pass for the end.

Of many rows that were written while they were read, such a table is given those of the read first, and what came after
it next, as if they were two batches: rows of one read are loaded in a fraction of the time (see `load.direct_load`).
`TableBatch.in_two` says whether they can be: every other change is newer. Each of the two has steps of its own, and a
batch that comes again, which it does until the table holds all of it, is divided as before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.direct.file_listing import Listed, files_of
from lakehouse_cdc.lake.noting import noting
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.sessions import is_remote
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.bronze_row import PARTITION
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.apply import schema_executor
from lakehouse_cdc.silver.apply.evolution_at_once import evolve_at_once
from lakehouse_cdc.silver.apply.opening import Opening, Rows
from lakehouse_cdc.silver.apply.progress import Progress
from lakehouse_cdc.silver.batch import typed_columns
from lakehouse_cdc.silver.batch.batch_from_files import parts_of, segment_of
from lakehouse_cdc.silver.batch.computed_columns import derived
from lakehouse_cdc.silver.batch.contents import SchemaBoundary, Segment, TableBatch, split
from lakehouse_cdc.silver.batch.seq_range import EVERYTHING, SeqRange
from lakehouse_cdc.silver.definition.column_mapping import Shape
from lakehouse_cdc.silver.definition.engine import DELTALAKE, why_spark
from lakehouse_cdc.silver.definition.form import Writer
from lakehouse_cdc.silver.definition.policy import Policy, require_names_free
from lakehouse_cdc.silver.evolution.steps import Phase
from lakehouse_cdc.silver.table_tasks.work import Outcome, TableTask, TaskWriter
from lakehouse_cdc.silver.tables import table_definition
from lakehouse_cdc.silver.tables.names import own_table
from lakehouse_cdc.silver.tables.properties import FrozenShape, Held, SilverQuarantine, held_by, own_properties
from lakehouse_cdc.sinks.schema_cache import Schemas

_MOST_AT_FIRST = 50_000  # rows that one task puts into a new table; more of them are loaded by several
_READ = Op.READ.value


class AnotherForm(Exception):
    """The table gets a key, or loses it: from there on it is of another form, and is to be built again."""


class TableApplier:
    """The only writer of one silver table. After an exception it is of no more use."""

    def __init__(self, layout: Layout, schemas: Schemas, name: str, *, keep_days: float, policy: Policy) -> None:
        self._layout, self._schemas, self._name = layout, schemas, name
        self._table = layout.silver_table(name)
        self._configured, self._opening = policy, Opening(layout, schemas, name, keep_days, policy)
        self._held: Held | None = None
        self._progress = Progress()
        self._writer: Writer | None = None
        self._range: Versions | None = None  # what is being applied
        # by tasks: what is left of a part, each the change that it begins with and the one that it ends with
        self._segments: list[tuple[SchemaBoundary | None, SchemaBoundary | None]] = []

    @property
    def _policy(self) -> Policy:
        return self._opening.policy

    def apply(self, session: SparkSession, part: TableBatch, versions: Versions, note: CommitNote) -> None:
        """Apply the table's rows of those commits of bronze, of which `part` says what they hold."""
        self._range, after, self._segments = versions, versions.after, []
        note = replace(note, part=self._table.part)
        if self._held is None:
            held = held_by(SparkReader(session), self._layout, self._name)
            after = self._progress.begin(held, versions.after)
            if after is not None and after >= versions.last:
                return  # it was set aside after all of this
            rest = self._rest(session, part, versions, after)
            if rest is None:
                return
            part = rest
            self._held = self._open(session, held, part, partial(self._rows, session, self._range))
        rows = self._rows(session, self._range)
        note, whole = self._order(session, after, note)
        if whole is None and self._held.in_steps and (two := self._in_two(part)) is not None:
            read, part = two
            self._begin_with(session, self._held, read, rows.where(F.col("op") == _READ), note)
            rows = rows.where(F.col("op") != _READ)
        for change, until in pairwise([None, *part.changes, None]):
            self._held = self._segment(session, self._held, part, rows, whole, change, until, note)
        self._held = self._mark(session, self._held, part.left, note)
        if self._held.building:
            schema_executor.finish_building(session, self._layout, self._name, self._progress.holding(self._held, note))
            self._held = replace(self._held, building=False, in_steps=False)
        if self._held.quarantine is not None:
            schema_executor.set_aside(session, self._layout, self._name, None, self._progress.holding(self._held, note))
            self._held = replace(self._held, quarantine=None)
        self._progress.ended(versions.last, note)

    def task(
        self,
        session: SparkSession,
        part: TableBatch,
        versions: Versions,
        note: CommitNote,
        files: Sequence[Listed],
        is_new: Callable[[], bool],
    ) -> TableTask | Outcome | None:
        """What a task is to do next of the part; None where it is `apply`'s. The outcome, where nothing is left to do.

        That is the part, or where the schema changes in it, one segment after the other: before each, the table goes
        through the change, if that is one commit. A table may be made. `files` are all of bronze in those commits that
        are the table's. `is_new`: bronze has no others of it, and there may be a table. After an exception the applier
        is of no more use; after None it may be used if it was before.
        """
        if part.left or self._policy.engine != "auto":
            return None
        if self._held is None:
            with delta_log.asked_once():
                self._held = self._looked_at(session, part, versions, files, is_new)
        held = self._held
        if held is None or not held.settled or held.engine != DELTALAKE:
            return None
        known = not self._progress.carried  # by tasks, which look for the transaction
        if held.form.depends_on_order and not self._progress.is_next(versions.after, note, known=known):
            return None
        if not self._segments:
            cuts = pairwise([None, *part.changes, None])
            self._segments = [(one, until) for one, until in cuts if until is None or until.seq > held.applied]
        while self._segments:
            change, until = self._segments[0]
            if not self._through(session, change, note):
                return None
            task = self._task_of_segment(part, files, note, change, until)
            if isinstance(task, TableTask) or task is None:
                return task
            self._segments = self._segments[1:]
        return Outcome(self._name)

    def _through(self, session: SparkSession, change: SchemaBoundary | None, note: CommitNote) -> bool:
        """Whether the table is of the schema after the change now; False, and nothing is done, where it is Spark's."""
        held, writer = self._held, self._writer
        assert held is not None
        if change is None or change.seq <= held.schema_seq:
            return True
        if not isinstance(writer, TaskWriter) or not self._continues(held, writer, change):
            return False
        done = self._evolve_at_once(session, held, change, note)
        self._held = held if done is None else done
        return done is not None

    def _task_of_segment(
        self,
        part: TableBatch,
        files: Sequence[Listed],
        note: CommitNote,
        change: SchemaBoundary | None,
        until: SchemaBoundary | None,
    ) -> TableTask | Literal["nothing"] | None:
        """What a task is to do of the rows between two changes of the schema; None where that is Spark's."""
        held, writer, among, mine = self._held, self._writer, EVERYTHING, part
        assert held is not None
        if part.changes:
            among = SeqRange(-1 if change is None else change.seq, None if until is None else until.seq)
            within, files = segment_of(self._layout.changes, self._name, files, among)
            if within is None:
                return "nothing"
            mine = within
        begins = [mine.first] * mine.has_rows + [barrier.seq for barrier in mine.barriers]
        if not begins and part.changes:
            return "nothing"
        if not begins and self._progress.begun:
            return None
        if min(begins, default=mine.end) <= held.applied:
            return None
        if not isinstance(writer, TaskWriter) or not writer.shape.plain:
            return None
        if held.form.counts_copies and min(begins, default=mine.end) <= self._progress.through:
            return None  # some of it may be in the table
        schema = writer.shape.rows
        if schema.key_given and "r" in mine.ops:
            return None  # two rows may have one key, which is to be found out
        table_definition.require_same(schema, {i: self._schemas[i] for i in sorted(mine.schema_ids)})
        end = note.source_point.seq if until is None else until.seq - 1
        return replace(writer.task(mine, files, self._progress.noting(held, note, end)), among=among)

    def _looked_at(
        self,
        session: SparkSession,
        part: TableBatch,
        versions: Versions,
        files: Sequence[Listed],
        is_new: Callable[[], bool],
    ) -> Held | None:
        """What the table says of itself, where tasks may apply a batch, and the applier is ready then."""
        held = held_by(SparkReader(session), self._layout, self._name)
        if held is None or held.untouched:
            if part.changes:
                return None
            schema = self._schemas[min(part.schema_ids)]
            why = why_spark(self._configured.for_schema(schema), self._table, schema)
            if why or sum(file.rows for file in files) > _MOST_AT_FIRST or not is_new():
                return None
            self._progress.begin(held, versions.after)
            held = None if held is None else replace(held, building=False)
        elif not held.settled or held.engine != DELTALAKE or self._progress.begin(held, versions.after) is None:
            return None
        self._range = versions
        return self._open(session, held, part, partial(self._rows, session, versions))

    def outgrew(self, session: SparkSession, note: CommitNote) -> None:
        """Have Spark keep the table from now on. The applier is of no more use."""
        beside = [self._layout.tombstones(self._name)] * self._policy.form.has_tombstones
        with noting(session, note):
            for table in (*beside, self._table):
                table_definition.hand_to_spark(session, table)

    def did(self, session: SparkSession, outcome: Outcome, versions: Versions, note: CommitNote) -> bool:
        """A task has done what it was given, or nothing was left; whether the table holds all of those commits now."""
        until = None
        if self._segments:
            assert isinstance(self._writer, TaskWriter)
            self._writer.did(session, outcome)
            (_, until), *self._segments = self._segments
        if until is None:
            self._progress.ended(versions.last, note, note.source_point.seq)
            return True
        self._progress.reached(until.seq - 1)
        return False

    def _rest(
        self, session: SparkSession, part: TableBatch, versions: Versions, after: int | None
    ) -> TableBatch | None:
        """What is to be applied of the commits after `after`; None where the table has no rows there."""
        if after == versions.after:
            return part
        self._range = Versions(after, versions.last)
        rest = parts_of(session, self._layout, self._range, self._name).get(self._name)
        if rest is not None:
            self._schemas.learn(session, rest.schema_ids, partial(self._rows, session, self._range))
        return rest

    def set_aside(self, session: SparkSession, reason: str, note: CommitNote) -> None:
        """Quarantine the table, as the batch that has just failed found it. The applier is of no more use.

        One that was refused before it was made has no place to say so: a reader sees the same reason.
        """
        if own_table(SparkReader(session), self._layout, self._name) is None:
            return
        note = replace(note, part=self._table.part)
        schema_executor.set_aside(
            session, self._layout, self._name, SilverQuarantine(reason, self._progress.after), note
        )

    def _order(self, session: SparkSession, after: int | None, note: CommitNote) -> tuple[CommitNote, DataFrame | None]:
        """What commits say to a table that depends on the order: up to where it holds bronze, which never goes back.

        And all rows up to there, if the table may hold some that are newer than `after`. A batch that comes again, next
        after itself, does not count: Delta knows which of its segments are in, and the others are newer.
        """
        if not self._policy.form.depends_on_order:
            return note, None
        note, last = self._progress.in_order(note)
        if self._progress.is_next(after, note, known=self._knows(session)):
            return note, None
        return note, self._rows(session, Versions(None, last))

    def _knows(self, session: SparkSession) -> bool:
        """Whether the session would know that the newest commit of the table is in (see `lake.commits`)."""
        if self._progress.carried:
            return is_remote(session)
        return not is_remote(session) or delta_log.is_at_hand(session, self._table)

    def _rows(self, session: SparkSession, versions: Versions) -> DataFrame:
        return versions.rows(session, self._layout.changes).where(F.col("source_table") == self._name)

    def _open(self, session: SparkSession, held: Held | None, part: TableBatch, rows: Rows) -> Held:
        """Make the table, or see that it is what it says, and be ready to write; not so during a change."""
        opening = self._opening
        opening.require_prefix(session)
        schema = part.changes[0].old if part.changes else self._schemas[min(part.schema_ids)]
        if held is None:
            self._opening = self._with_policy_for(part.changes[-1].new if part.changes else schema)
            begin = self._begin(part)
            schema, since = (schema, 0) if begin is None else (begin.new, begin.seq)
            steps = bool(part.changes) or self._is_divided(part)
            held, self._writer = self._opening.make(session, schema, rows, since=since, in_steps=steps)
            return held
        if held.schema_id is not None:
            self._schemas.learn(session, [held.schema_id], rows)
            schema = self._schemas[held.schema_id]
        self._opening = opening = self._with_policy_for(schema)
        opening.require_same(held)
        if not held.changing:
            self._writer = opening.writer(session, opening.shape(session, schema, held, rows), held)
        return held

    def _with_policy_for(self, schema: TableSchema) -> Opening:
        return replace(self._opening, policy=self._configured.for_schema(schema))

    def _in_two(self, part: TableBatch) -> tuple[TableBatch, TableBatch] | None:
        """The read that a new table begins with, and the rest; None where they are one batch."""
        return part.in_two if self._table.part is None else None

    def _is_divided(self, part: TableBatch) -> bool:
        """Whether the first batch of the table, which is about to be made, is applied as two."""
        if self._in_two(part) is None or self._range is None or self._layout.changes.path is None:
            return False
        files = files_of(self._layout.changes, self._range, {PARTITION: self._name})
        return sum(file.rows for file in files or ()) > _MOST_AT_FIRST

    def _begin_with(
        self, session: SparkSession, held: Held, read: TableBatch, rows: DataFrame, note: CommitNote
    ) -> None:
        """Apply the read that the table begins with."""
        assert self._writer is not None
        shape, through = self._writer.shape, self._progress.through
        writer = self._opening.writer(session, shape, held, step=":read")
        note = self._progress.holding(held, note, read.end)
        self._write(session, writer, Segment(read, rows, None, self._range, through), note)
        self._writer = self._opening.writer(session, shape, held)

    def _begin(self, part: TableBatch) -> SchemaBoundary | None:
        """The change after which the table fits its form, where it did not before it: the table begins with that.

        A table that gets a key is read again, so what bronze has from before is not needed.
        """
        unfit = [change for change in part.changes if not self._policy.form.fits(change.old)]
        return unfit[-1] if unfit else None

    def _segment(
        self,
        session: SparkSession,
        held: Held,
        part: TableBatch,
        rows: DataFrame,
        whole: DataFrame | None,
        change: SchemaBoundary | None,
        until: SchemaBoundary | None,
        note: CommitNote,
    ) -> Held:
        """The change that begins it, where that is yet to be done, and the rows up to the next; what the table is then.

        Done already, it is passed over.
        """
        if until is not None and until.seq <= held.applied:
            return held  # without a look at its rows
        if change is not None and change.seq > held.schema_seq:
            held = self._evolve(session, held, change, note)
        mine: TableBatch | None = part
        if part.changes:
            rows = _between(rows, change.seq if change is not None else 0, until)
            mine = split(rows).get(self._name)
        if mine is None or mine.end < held.applied:
            return held
        if self._writer is None:
            raise self._amid_a_change(held)
        whole = None if whole is None else _between(whole, held.schema_seq, until)
        through = self._progress.through
        note = self._progress.holding(held, note, note.source_point.seq if until is None else until.seq - 1)
        versions = None if part.changes else self._range
        self._write(session, self._writer, Segment(mine, rows, whole, versions, through), note, part.barrier)
        return held

    def _write(
        self, session: SparkSession, writer: Writer, segment: Segment, note: CommitNote, barrier: int = 0
    ) -> None:
        """Apply a segment of a batch that has that barrier."""
        part, schema = segment.part, writer.shape.rows
        table_definition.require_same(schema, {i: self._schemas[i] for i in sorted(part.schema_ids)})
        if schema.key and schema.key_given and _READ in part.ops:
            last_read = segment.rows.where(f"seq >= {barrier}BD")  # it replaces those before, whatever their schema
            typed_columns.require_unique(last_read, writer.shape)
        writer.write(session, segment, note)

    def _mark(self, session: SparkSession, held: Held, left: int, note: CommitNote) -> Held:
        """Whether the table is still followed: one that comes back begins with a change of its schema."""
        last = max(left, held.left)
        left = last if last > held.schema_seq else 0
        if left != held.left:
            schema_executor.mark_left(session, self._layout, self._name, left, self._progress.holding(held, note))
        return replace(held, left=left)

    def _evolve(self, session: SparkSession, held: Held, change: SchemaBoundary, note: CommitNote) -> Held:
        if self._writer is not None:
            if not self._continues(held, self._writer, change):
                return self._stay(session, held, change, self._writer.shape, note)
            if (done := self._evolve_at_once(session, held, change, note)) is not None:
                return done
        elif held.changing != change.seq:
            raise self._amid_a_change(held)
        shape = self._shape_after(held, change)
        added = derived(session, shape, self._table)
        # refused before the first step
        table_definition.columns(shape.schema, added, form=held.form, own=self._table.own)
        self._writer = None
        done = _after_change(held, change)
        last = self._progress.holding(done, note, change.seq)
        kept = schema_executor.evolve(session, self._layout, change, held.phase, note, last, self._policy, added)
        # the change may have taken it from deltalake
        engine = own_properties(SparkReader(session), self._layout, self._name).engine
        done = replace(done, kept=kept, engine=engine)
        self._writer = self._opening.writer(session, shape, done)
        return done

    def _continues(self, held: Held, writer: Writer, change: SchemaBoundary) -> bool:
        """Whether the table is to follow the change, which must be one of its schema; False: it is to stay as it is."""
        table_definition.require_same(writer.shape.rows, {change.old.id: change.old})
        self._require_form(held, change)
        return not self._policy.freezes

    def _evolve_at_once(
        self, session: SparkSession, held: Held, change: SchemaBoundary, note: CommitNote
    ) -> Held | None:
        """The same of a table that deltalake keeps, in one commit; None, and nothing is done, where it takes Spark."""
        if held.engine != DELTALAKE or held.changing or self._policy.engine != "auto":
            return None
        shape, done = self._shape_after(held, change), _after_change(held, change)
        last = self._progress.noting(done, note, change.seq)
        kept = evolve_at_once(session, self._layout, change, last, self._policy)
        if kept is None:
            return None
        self._progress.reached(change.seq)
        done = replace(done, kept=kept)
        self._writer = self._opening.writer(session, shape, done)
        return done

    def _shape_after(self, held: Held, change: SchemaBoundary) -> Shape:
        shape = Shape.of(change.new, held.transform)
        require_names_free(shape, self._table)
        return shape

    def _require_form(self, held: Held, change: SchemaBoundary) -> None:
        if self._table.part is not None:
            return  # it keeps its key, and with that its form, or it is refused
        if self._configured.for_schema(change.new).form is not held.form:
            raise AnotherForm
        held.form.require_fit(change.new)

    def _stay(self, session: SparkSession, held: Held, change: SchemaBoundary, shape: Shape, note: CommitNote) -> Held:
        where = f"{self._table} seq {change.seq}"
        frozen = shape.after(change.new, change.origin, change.filled, where)
        self._writer = None
        done = replace(held, schema_id=change.new.id, schema_seq=change.seq, frozen=FrozenShape.of_shape(frozen.shape))
        schema_executor.stay(
            session, self._layout, change, frozen, note, self._progress.holding(done, note, change.seq), self._policy
        )
        self._writer = self._opening.writer(session, frozen.shape, done)
        return done

    def _amid_a_change(self, held: Held) -> DefiniteError:
        return codes.SILVER_CHANGE_INTERRUPTED.error(
            f"the silver table of {self._name} is in the middle of a change of its schema,"
            " which bronze does not continue",
            where=f"{self._table} seq {held.changing}",
            hint="restore bronze, or move the silver table away to have it built again",
        )


def _after_change(held: Held, change: SchemaBoundary) -> Held:
    return replace(held, schema_id=change.new.id, schema_seq=change.seq, changing=0, phase=Phase.BEFORE, frozen=None)


def _between(rows: DataFrame, since: int, until: SchemaBoundary | None) -> DataFrame:
    """Those that are newer than `since`, and older than the change `until`."""
    rows = rows.where(f"seq > {since}BD") if since else rows
    return rows.where(f"seq < {until.seq}BD") if until is not None else rows
