"""Apply a range of bronze commits to the silver tables.

Tables that deltalake keeps, and whose part is the plain case, are done by the tasks of one job (see `table_tasks`); the
others by Spark, and so are those that a task has given up. Spark's are written side by side, each thread in a session
of its own, since a session's settings carry what a commit says. A table that fails does not stop the others; the batch
as a whole then fails, and is repeated as a whole.

Maintenance may put a table's files together meanwhile (see `ops.maintain`). Where it commits first, Delta refuses what
silver was about to commit, which has then changed nothing, and the table's part is done again, at once.

A table that gets a key, or loses it, is built again from bronze in the form that it has then (see `rebuild`).

A table that cannot hold what comes (a frozen one under another key, a value that does not fit), or whose name another
has taken (see `tables.names`), is quarantined instead: it says so itself, if it is there, and is passed over. It is
tried again by another process, or when the source has read it once more.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum

from pyspark.sql import SparkSession

from lakehouse_cdc.errors import CdcError, DefiniteError, codes
from lakehouse_cdc.lake.direct.file_listing import LONG, Listed
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.sessions import session_with
from lakehouse_cdc.lake.spark_errors import first_line, is_conflict
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.model.way_out import silver_reason
from lakehouse_cdc.silver.apply import compaction
from lakehouse_cdc.silver.apply.rebuild import rebuild
from lakehouse_cdc.silver.apply.refusals import refusal
from lakehouse_cdc.silver.apply.table_applier import AnotherForm, TableApplier
from lakehouse_cdc.silver.batch.batch_from_files import parts_of
from lakehouse_cdc.silver.batch.contents import TableBatch
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.forms.writers.merge import FILES
from lakehouse_cdc.silver.table_tasks.job import Runner, files_by_table, in_job
from lakehouse_cdc.silver.table_tasks.work import Outcome, TableTask
from lakehouse_cdc.silver.tables.names import SilverNames, known_source_tables
from lakehouse_cdc.sinks.schema_cache import Schemas

_AGAIN = Op.END.value  # a table was read again
_TRIES = 5  # of one table's part of a batch, beside somebody who puts files together
_log = logging.getLogger(__name__)


class _End(Enum):
    """What has become of a table's part: all of it is done, or up to a change of the schema, or it is Spark's."""

    WHOLE = "whole"
    SEGMENT = "segment"
    GAVE_UP = "gave up"


class Applier:
    """Keeps the silver tables of one pipeline, as their only writer. Not for use by two threads at a time.

    `threads` tables are written at once; tombstones older than `keep_days` days are pruned, once a day for each table.
    `policy` says of a source table what becomes of silver's as its schema changes. `run_tasks` has tasks done.
    """

    def __init__(
        self,
        spark: SparkSession,
        layout: Layout,
        *,
        threads: int = 4,
        keep_days: float = 7.0,
        policy: Callable[[str], Policy] = lambda _: Policy(),
        run_tasks: Runner = in_job,
    ) -> None:
        self._layout, self._run_tasks = layout, run_tasks
        self._keep_days, self._policy = keep_days, policy
        self._spark = spark
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="silver")
        self._of_thread = threading.local()
        self._schemas = Schemas(layout)
        self._appliers: dict[str, TableApplier] = {}  # of tables that are ours and hold all up to the last batch
        self._quarantined: dict[str, str] = {}
        self._names: SilverNames | None = None
        self._writing: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._versions: dict[str, int] = {}  # of tables after the last batch, as far as they are known

    @property
    def quarantined(self) -> dict[str, str]:
        """The tables that this applier has set aside, and why."""
        return dict(self._quarantined)

    @property
    def versions(self) -> dict[str, int]:
        """The versions of silver tables that the last batch has touched, where it is known without asking them."""
        return dict(self._versions)

    def apply(self, versions: Versions, note: CommitNote) -> list[str]:
        """Apply those commits of bronze; the tables that they touch. Done before, it changes nothing.

        Raises DefiniteError or TransientError for the first table that failed, after all have been tried; not for one
        that is quarantined.
        """
        parts = parts_of(self._spark, self._layout, versions)
        set_aside = {name for name, part in parts.items() if name in self._quarantined and _AGAIN not in part.ops}
        parts = {name: part for name, part in parts.items() if name not in set_aside}
        changes = self._layout.changes
        ids = {i for part in parts.values() for i in part.schema_ids}
        self._schemas.learn(self._spark, ids, lambda: versions.rows(self._spark, changes))
        turns = self._met(parts).turns(parts)
        alone = [parts[turn[0]] for turn in turns if len(turn) == 1]
        done, failures = self._by_tasks(alone, versions, note)
        rest = [turn for turn in turns if turn[0] not in done]
        futures = [self._pool.submit(self._one_by_one, [parts[name] for name in turn], versions, note) for turn in rest]
        _raise(failures + [failure for future in futures if (failure := future.result()) is not None])
        return list(parts)

    def _by_tasks(
        self, parts: Sequence[TableBatch], versions: Versions, note: CommitNote
    ) -> tuple[set[str], list[tuple[str, Exception]]]:
        """Do what tasks can; the tables that are done with, and those of which something failed after that."""
        self._versions = {}
        possible = [part for part in parts if self._policy(part.table).engine == "auto"]
        files = files_by_table(self._spark, self._layout, versions) if possible else None
        if not files:
            return set(), []
        older = _Older(self._spark, self._layout, versions.after)
        waiting = [part for part in possible if part.table in files]
        done: set[str] = set()
        failures: list[tuple[str, Exception]] = []
        while waiting:  # once, and again where the schema of a table changes within its part
            planned = [
                self._pool.submit(self._planned, part, versions, note, files[part.table], older) for part in waiting
            ]
            ready = {one[1].name: one for future in planned if (one := future.result()) is not None}
            tasks = [task for _, task in ready.values() if isinstance(task, TableTask)]
            outcomes = [task for _, task in ready.values() if isinstance(task, Outcome)]
            outcomes += self._run_tasks(self._spark, tasks) if tasks else []
            ends = {
                one.name: self._pool.submit(self._ended, ready[one.name][0], one, versions, note) for one in outcomes
            }
            ended = {name: future.result() for name, future in ends.items()}
            failures += [(name, end) for name, end in ended.items() if isinstance(end, Exception)]
            done |= {name for name, end in ended.items() if end is _End.WHOLE or isinstance(end, Exception)}
            waiting = [part for part in waiting if ended.get(part.table) is _End.SEGMENT]
        self._versions = {name: at for name, at in self._versions.items() if name in done and at >= 0}
        return done, failures

    def _planned(
        self, part: TableBatch, versions: Versions, note: CommitNote, files: Sequence[Listed], older: _Older
    ) -> tuple[TableApplier, TableTask | Outcome] | None:
        """Who keeps the table, and what a task is to do next of its part, if anything; None where that is Spark's."""

        def is_new() -> bool:
            return older.has_none(part.table) and self._met(()).taken(SparkReader(self._session()), part.table) is None

        applier = self._appliers.pop(part.table, None)
        known = applier is not None
        if applier is None:
            applier = self._applier(part.table)
        try:
            task = applier.task(self._session(), part, versions, note, files, is_new)
        except Exception as error:  # whatever is wrong, Spark's way to do it says so
            _log.info("the part of %s is Spark's: %s", part.table, error)
            return None
        if known or task is not None:
            self._appliers[part.table] = applier
        return None if task is None else (applier, task)

    def _ended(self, applier: TableApplier, outcome: Outcome, versions: Versions, note: CommitNote) -> _End | Exception:
        """Take note of what a task has done, or not; what fails at that."""
        try:
            if not outcome.gave_up:
                self._quarantined.pop(outcome.name, None)
                self._versions[outcome.name] = outcome.version
                return _End.WHOLE if applier.did(self._session(), outcome, versions, note) else _End.SEGMENT
            _log.info("the part of %s is Spark's: %s", outcome.name, outcome.gave_up)
            if outcome.outgrown:
                self._appliers.pop(outcome.name, None)
                applier.outgrew(self._session(), note)
        except Exception as error:
            self._appliers.pop(outcome.name, None)
            return error
        return _End.GAVE_UP

    def _applier(self, table: str) -> TableApplier:
        policy = self._policy(table)
        return TableApplier(self._layout, self._schemas, table, keep_days=self._keep_days, policy=policy)

    def _met(self, source_tables: Iterable[str]) -> SilverNames:
        if self._names is None:
            self._names = SilverNames(self._layout, known_source_tables(SparkReader(self._spark), self._layout))
        self._names.add(source_tables)
        return self._names

    def _one_by_one(
        self, parts: Sequence[TableBatch], versions: Versions, note: CommitNote
    ) -> tuple[str, Exception] | None:
        """The first that fails, and why. Those after it are left to the repetition, lest they take its name."""
        part = parts[0]
        try:
            for part in parts:
                self._table(part, versions, note)
        except Exception as error:
            return part.table, error
        return None

    def _table(self, part: TableBatch, versions: Versions, note: CommitNote) -> None:
        # those that go into one table wait for each other: it has one writer
        with self._writing[self._layout.silver_table(part.table).sql]:
            self._tried(part, versions, note)

    def _tried(self, part: TableBatch, versions: Versions, note: CommitNote, tries: int = _TRIES) -> None:
        try:
            self._once(part, versions, note)
        except Exception as error:
            if tries == 1 or not is_conflict(error):
                raise
            _log.warning("the files of %s were put together meanwhile; its part is done again", part.table)
            self._tried(part, versions, note, tries - 1)

    def _once(self, part: TableBatch, versions: Versions, note: CommitNote) -> None:
        # a table that fails is looked at again in the next batch
        applier, taken = self._appliers.pop(part.table, None), None
        if applier is None:
            applier = self._applier(part.table)
            taken = self._met(()).taken(SparkReader(self._session()), part.table)
        try:
            if taken is not None:
                raise taken
            session = self._session()
            compaction.settle(session, part.table, note.batch)
            applier.apply(session, part, versions, note)
        except AnotherForm:
            self._build_again(part.table, versions)
            return
        except Exception as error:
            if (refused := refusal(part.table, self._layout.silver_table(part.table), error)) is None:
                raise
            reason = silver_reason(refused)
            applier.set_aside(self._session(), reason, note)
            _log.warning("%s is quarantined: %s", part.table, reason, exc_info=error)
            self._quarantined[part.table] = reason
            return
        self._quarantined.pop(part.table, None)
        self._appliers[part.table] = applier

    def _build_again(self, table: str, versions: Versions) -> None:
        refused = rebuild(self._spark, self._layout, table, self._policy(table), versions.last)
        self._quarantined.pop(table, None)
        if refused is not None:
            self._quarantined[table] = silver_reason(refused)

    def _session(self) -> SparkSession:
        """This thread's own session: its settings carry what a commit says."""
        if not hasattr(self._of_thread, "session"):
            self._of_thread.session = session_with(self._spark, FILES)
        session: SparkSession = self._of_thread.session
        return session


class _Older:
    """What bronze had before a batch, `after` being its last version then; looked up once, when it is asked for."""

    def __init__(self, spark: SparkSession, layout: Layout, after: int | None) -> None:
        self._spark, self._layout, self._after = spark, layout, after
        self._tables: frozenset[str] | None = frozenset() if after is None else None
        self._asked, self._asking = after is None, threading.Lock()

    def has_none(self, table: str) -> bool:
        """Whether there surely was nothing of the source table."""
        with self._asking:
            if not self._asked:
                self._asked = True
                if self._after is not None and self._after < LONG:
                    files = files_by_table(self._spark, self._layout, Versions(None, self._after))
                    self._tables = None if files is None else frozenset(files)
        return self._tables is not None and table not in self._tables


def _raise(failed: Sequence[tuple[str, Exception]]) -> None:
    """The first failure as an error of ours, with Spark's as its cause; definite ones come first."""
    if not failed:
        return
    table, error = min(failed, key=lambda f: not isinstance(f[1], DefiniteError))
    others = f" ({len(failed)} tables failed)" if len(failed) > 1 else ""
    if isinstance(error, CdcError):
        raise error.code.error(error.what + others, where=error.where, hint=error.hint, table=table) from error
    what = f"the silver table of {table} could not be written{others}: {first_line(error)}"
    raise codes.SILVER_WRITE_FAILED.error(what, where=table) from error
