"""A pipeline: its configuration, wired to source, bronze, silver and verify.

    Pipeline.from_yaml("pipeline.yml").run(once=True)

Nothing is decided here; every part is given where its tables and checkpoints lie and what its options are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lakehouse_cdc.errors import CdcError, TransientError, codes
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.model.belonging import Silver
from lakehouse_cdc.model.commit_note import SourcePoint
from lakehouse_cdc.model.moment import Moment
from lakehouse_cdc.mysql.connection.session import ConnectionOptions
from lakehouse_cdc.mysql.estimates import estimates
from lakehouse_cdc.mysql.log_view import LogView
from lakehouse_cdc.mysql.preflight import checks
from lakehouse_cdc.mysql.preflight.settings import Finding
from lakehouse_cdc.mysql.uncaptured import Uncaptured, uncaptured
from lakehouse_cdc.ops import last_error, verify_history
from lakehouse_cdc.options.secrets import CONNECTION
from lakehouse_cdc.pipeline import source_checks, target_checks
from lakehouse_cdc.pipeline.config.file import load
from lakehouse_cdc.pipeline.from_topics import DeadLetters, FromTopics, of_server
from lakehouse_cdc.pipeline.report import Layer, Progress, RunReport, VerifyReport
from lakehouse_cdc.pipeline.run.disk import disks_asked
from lakehouse_cdc.pipeline.run.failures import translate
from lakehouse_cdc.pipeline.run.restarts import persistently
from lakehouse_cdc.pipeline.run.store import store_asked
from lakehouse_cdc.pipeline.run.streams import Streams
from lakehouse_cdc.pipeline.taking_signals import OTHER_RUN, TakesSignals
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.source.options import SourceOptions, replica_ids
from lakehouse_cdc.source.requests.set_aside import SetAside
from lakehouse_cdc.source.state.offset_codec import restored
from lakehouse_cdc.source.state.planned_configuration import digest
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.source.state.stream_start import Beginning
from lakehouse_cdc.telemetry.events import BRONZE, SILVER, Begun, Ended

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from lakehouse_cdc.bronze.sink import Planned, Ready
    from lakehouse_cdc.lake.micro_batches import MicroBatches
    from lakehouse_cdc.ops.maintain import Maintained
    from lakehouse_cdc.ops.reach import Reach
    from lakehouse_cdc.ops.source_watch import SourceWatch
    from lakehouse_cdc.ops.status import Status
    from lakehouse_cdc.pipeline.start.silver_settings import SilverSettings
    from lakehouse_cdc.silver.apply.stream import SilverBatch
    from lakehouse_cdc.silver.definition.policy import Policy
    from lakehouse_cdc.sinks.port import Sink
    from lakehouse_cdc.telemetry.report.history import History

T = TypeVar("T")
_REST_SECONDS = 1.0  # between looks whether a paused pipeline may continue


class Milestones(NamedTuple):
    """What a run comes to: `streams_begin` is called as they do, `record` is of what stops them."""

    streams_begin: Callable[[], None]
    record: last_error.Record


class Pipeline(TakesSignals):
    """One source into one lakehouse. Its constructor is that of `PipelineContext`."""

    @classmethod
    def from_yaml(
        cls, path: str | Path, spark: SparkSession | None = None, *, settings: Sequence[str] = ()
    ) -> Pipeline:
        """Read a configuration file; relative paths in it start at its folder. Raises ConfigError with the line.

        Each of `settings`, such as `source.url=mysql://cdc@db:3306`, takes the place of what the file says.
        """
        path = Path(path)
        return cls(load(path, settings), spark, home=path.absolute().parent)

    @property
    def dead_letters(self) -> DeadLetters:
        """The messages that were set aside, of a pipeline whose source is topics."""
        return DeadLetters(self)

    @property
    def _topics(self) -> FromTopics | None:
        topics = self.config.source.kafka
        return None if topics is None else FromTopics(self, topics)

    def doctor(self) -> list[Finding]:
        """Everything that must be true of source and target. Raises only if the source cannot be reached."""
        if (topics := self._topics) is not None:
            return topics.doctor()
        rules = SourceOptions.parse(self.source_options()).rules
        with self._session() as session:
            checked = source_checks.check(session, self._connection(), self.config, self.layout, rules)
        if checked.tables is None:
            return checked.findings
        return [*checked.findings, *target_checks.checks(self.layout, self.checkpoints, checked.tables, checked.size)]

    def estimates(self) -> dict[str, int]:
        """About how many rows each captured table has, as the server's statistics say; of topics nothing is known."""
        if self._topics is not None:
            return {}
        with self._session() as session:
            estimated = estimates(session)
        selection = Selection(self.config.source.tables)
        return {name: one.rows for name, one in estimated.items() if selection.matches(name)}

    def plan(self) -> list[str]:
        """What the configuration, if it has changed, would do to the captured tables: a sentence for each.

        Nothing is changed. Raises DefiniteError for what cannot be done.
        """
        from lakehouse_cdc.pipeline.start.configuration_changes import configuration_changes
        from lakehouse_cdc.pipeline.start.last_look import LastLook

        sentences = []
        if self._topics is None:
            sentences = configuration_changes(self.folders, SourceOptions.parse(self.source_options()))
        if self.layout.silver is not None and self._has_begun and not LastLook(self.checkpoints, self.config).is_of_now:
            with self.failures():
                sentences += [rebuild.sentence for rebuild in self._silver_settings().rebuilds()]
        return sentences

    def _silver_settings(self, policy: Callable[[str], Policy] | None = None) -> SilverSettings:
        from lakehouse_cdc.pipeline.start.silver_settings import SilverSettings

        return SilverSettings(self.spark, self.layout, self.config, self.checkpoints, self.checkpoint("silver"), policy)

    def run(
        self,
        *,
        once: bool = False,
        every_seconds: float | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> RunReport:
        """Bring bronze and silver up to the source: all that is there now (`once`), or until it is interrupted.

        `every_seconds` are those between the beginnings of two batches, in place of `run.every` in the configuration.
        `progress` is called after each batch. Raises DefiniteError or TransientError; everything that was committed
        before stays consistent, and the next run continues from there.
        """
        report = RunReport(progress)
        with self.failures():
            self._answer_signals()
        if once and self.signals.paused:
            raise codes.PIPELINE_PAUSED.error(
                "the pipeline is paused", where=self.config.name, hint="lakehouse-cdc signal -c pipeline.yml resume"
            )
        every = None if once else self.config.run.triggers(every_seconds)
        with last_error.recorded(self.checkpoints) as record, self.failures(), self._measured(report):
            try:
                while not self._as_selected(every, report, record):
                    pass
                self.signals.stopped()
            except KeyboardInterrupt:
                report.interrupted = True
        if (topics := self._topics) is not None:
            report.source_point = topics.point()
        elif (offset := self._offset()) is not None:
            report.end_at(offset)
        with suppress(TransientError):  # what was there when the run began is known
            report.leave_out(self.uncaptured())
        return report

    def _as_selected(self, every: tuple[float, float] | None, report: RunReport, record: last_error.Record) -> bool:
        """Run to the end, or until signals select other tables, which is False; for `every` see `_follow`."""
        from lakehouse_cdc.bronze.tables import BronzeMaker
        from lakehouse_cdc.pipeline.start.settling import Naming

        self._take_signals()
        with ExitStack() as starting:
            self._require_fit()
            # a server that has never been reached may be a misspelt one, as may a folder that was never written
            patient = partial(self._persistently, report=report, record=record, waits=self._has_begun)
            patient(lambda: starting.enter_context(self.writing(OTHER_RUN)))
            report.notices += patient(partial(self._settled, report))
            with BronzeMaker(self.spark, self.layout) as making:
                ready = Naming(self.spark, self.layout, self.schemas, making.wait)
                return self._run(every, report, ready, Milestones(starting.close, record))

    def _settled(self, report: RunReport) -> list[str]:
        """See that what is there belongs together, then look at the source; its notices."""
        from lakehouse_cdc.pipeline.start.configuration_changes import configuration_changes
        from lakehouse_cdc.pipeline.start.settling import settle

        if (topics := self._topics) is not None:
            report.notices += topics.settle()
            return topics.require_topics()
        options = SourceOptions.parse(self.source_options())
        report.notices += settle(self.spark, self.layout, self.folders, digest(options))
        SetAside(self.schemas).under(digest(options))
        self._require_own_silver()
        left_out, unused = self._of_the_source()
        report.leave_out(left_out)
        return [*unused, *configuration_changes(self.folders, options)]

    @contextmanager
    def _measured(self, report: RunReport) -> Iterator[None]:
        """What happens within the block is measured."""
        report.telemetry = self.telemetry()
        try:
            yield
        finally:
            report.telemetry.saw(Ended())
            report.telemetry.close()

    def _say_where(self, report: RunReport, watch: SourceWatch | None) -> None:
        """Where bronze and silver are as the streams begin."""
        from lakehouse_cdc.ops.verify_history import VerifyWatch
        from lakehouse_cdc.silver.tables.progress import applied

        if not report.telemetry.wanted:
            return
        points = {} if watch is None or watch.point is None else {BRONZE: (0, watch.point)}
        with suppress(Exception):  # whatever it is, silver's stream meets it, too
            silver = self.layout.silver and applied(SparkReader(self.spark), self.layout, self.checkpoint("silver"))
            points |= {SILVER: (silver.bronze_version, silver.source_point)} if silver else {}
        report.telemetry.saw(Begun(version("lakehouse-cdc"), self.spark.version, points))
        report.verifications = VerifyWatch(self.checkpoints)

    def _run(self, every: tuple[float, float] | None, report: RunReport, ready: Ready, milestones: Milestones) -> bool:
        """Run the streams, with pauses, to the end; False if signals select other tables by now."""
        from lakehouse_cdc.pipeline.table_failures import sparing_others

        if self.config.target.metrics:
            from lakehouse_cdc.ops.metrics import Metrics

            report.metrics = Metrics(self.spark, self.layout)
        report.watch = None if self._topics is not None else self._source_watch()
        try:
            self._say_where(report, report.watch)
            ended = False
            while not ended:
                follow = partial(self._follow, every, report, ready, milestones)
                persistent = partial(self._persistently, follow, report, milestones.record)
                ended = sparing_others(persistent, self._set_aside, report.notices.append)
                while not ended and self.signals.paused:
                    report.tick()
                    self._answer_signals()
                    time.sleep(max(_REST_SECONDS, self.signals.seconds_between_looks))
                if not ended and not self._signals_taken:
                    return False
                if not ended and self.signals.stopping:
                    every = None  # what there is now is brought to the end
            return True
        finally:
            if report.watch is not None:
                report.watch.close()
            if report.metrics is not None:
                report.metrics.flush()

    def _source_watch(self) -> SourceWatch:
        from lakehouse_cdc.lake.checkpoint import Checkpoint
        from lakehouse_cdc.ops.source_watch import SourceWatch

        options, place = SourceOptions.parse(self.source_options()), Checkpoint(self.checkpoint("bronze"))
        batch = place.last_commit()
        point = None if batch is None else SourcePoint.of_offset(place.offset(batch))
        return SourceWatch(self._connection(), next(replica_ids(options.server_ids)), self.checkpoints, point)

    def _persistently(
        self, does: Callable[[], T], report: RunReport, record: last_error.Record, *, waits: bool = True
    ) -> T:
        """The result of `does`, also where the source is away or the disk full for a time, which is shown meanwhile."""

        def note(error: CdcError, tries: int, until: datetime) -> None:
            record.waits(error, tries, until)
            report.restarted(error)

        def asked() -> T:
            with disks_asked(self._local_folders), store_asked(self.checkpoints, lambda: self.spark):
                return does()

        seconds = self.config.source.retry_seconds if waits else 0
        return persistently(asked, batches=report.batches.total, retry_seconds=seconds, waits=note)

    def _of_the_source(self) -> tuple[Uncaptured, list[str]]:
        """What the source has and is not captured, and a notice for each setting that concerns no table of it."""
        return self.uncaptured(), [
            f"{finding.what}; {finding.hint}" for finding in source_checks.unused(self.config, self.estimates())
        ]

    def _set_aside(self, error: CdcError) -> bool:
        if self._topics is not None:
            return False  # what cannot be read is a letter
        from lakehouse_cdc.pipeline.table_failures import set_aside

        with self.writing(OTHER_RUN):
            return set_aside(self.spark, self.layout, self.folders, SourceOptions.parse(self.source_options()), error)

    def _sinks(self, ending: ExitStack) -> Iterator[Sink[Any]]:
        """The sinks besides silver, in the order of `sink_folders`; what they hold is given up at the end."""
        from lakehouse_cdc.sinks.kafka.sink import KafkaSink
        from lakehouse_cdc.sinks.registry import sink_named

        for name in self.config.target.sinks:
            yield sink_named(name)(self.spark, self.layout)
        for name, sink in self.config.sinks.items():
            made = KafkaSink(self.spark, self.layout, name, sink.kafka)
            ending.callback(made.close)
            yield made

    def _follow(
        self, every: tuple[float, float] | None, report: RunReport, ready: Ready, milestones: Milestones
    ) -> bool:
        """Run the streams to their end; False if a signal has stopped them.

        `every`: seconds between two batches of bronze, and of its sinks; None: all that is there now.
        """
        from lakehouse_cdc.lake.checkpoint import Checkpoint
        from lakehouse_cdc.pipeline.start.settling import settle
        from lakehouse_cdc.pipeline.start.source_comments import SourceComments
        from lakehouse_cdc.silver.apply import stream as silver
        from lakehouse_cdc.sinks.stream import start as start_sink

        spark, layout, place = self.spark, self.layout, self.checkpoint("bronze")
        bronze_every, sinks_every = every or (None, None)

        def signalled() -> bool:
            report.tick()
            if streams.begin_to_work():
                milestones.record.over()
            return every is not None and self._halted_by_signal(report.batches["bronze"])

        with self.writing(OTHER_RUN), ExitStack() as ending, Streams() as streams:
            ending.enter_context(self._upkeep(report))
            if self.config.source.on_failover == "follow" and Checkpoint(place).planned is not None:
                # what bronze has not got is planned where the source is now, and what it has is not read again
                settle(spark, layout, self.folders, digest="")
            milestones.streams_begin()
            streams.add(self._bronze_stream(bronze_every, report, ready))
            # silver has no position before bronze's first batch
            begun = Checkpoint(place)
            streams.wait(until=lambda: every is not None and begun.last_commit() is not None)
            if layout.silver is not None:
                place = self.checkpoint("silver")
                comments = SourceComments.of_pipeline(self)
                settings = self._silver_settings(comments.policy)
                for notice in chain(settings.follow(), comments.follow(spark, layout, self.checkpoints)):
                    report.notices.append(notice)

                def silver_batch(batch: SilverBatch) -> None:
                    if batch.quarantined:
                        settings.look_again()  # the next run sees whether the cause is gone
                    report.silver(batch)

                streams.add(
                    silver.start(
                        spark, layout, place, every_seconds=sinks_every, policy=comments.policy, on_batch=silver_batch
                    )
                )
            for name, place, made in zip(self.config.sink_names, self.folders.sinks, self._sinks(ending), strict=True):
                streams.add(start_sink(spark, layout, place, made, name=name, every_seconds=sinks_every))
            return streams.wait(until=signalled)

    def _bronze_stream(self, every: float | None, report: RunReport, ready: Ready) -> StreamingQuery | MicroBatches:
        """Start the stream into bronze."""
        from lakehouse_cdc.bronze import sink
        from lakehouse_cdc.lake.catalog_folder import SESSION_CATALOG, by_folder
        from lakehouse_cdc.lake.direct.newest_version import can_commit
        from lakehouse_cdc.lake.sessions import is_remote
        from lakehouse_cdc.source.spark.planned_here import PlannedHere

        if (topics := self._topics) is not None:
            return topics.stream(every, ready, report.bronze)
        spark, layout, options = self.spark, self.layout, self.source_options()
        if layout.catalog == SESSION_CATALOG:
            ready(layout.changes)  # only when it is there, its folder is known
        changes_table = by_folder(spark, layout.changes)
        if can_commit(spark, changes_table):
            options["filesTo"] = str(changes_table.path)
        changes: DataFrame | Planned
        if is_remote(spark):
            changes = PlannedHere(options)
        else:
            changes = spark.readStream.format("mysql_cdc").options(**options).load()
        reading, place = partial(self._reading, report), self.checkpoint("bronze")
        return sink.start(
            spark, changes, layout, place,
            every_seconds=every, reading=reading, ready=ready, on_batch=report.bronze,
        )  # fmt: skip

    @contextmanager
    def _upkeep(self, report: RunReport) -> Iterator[None]:
        """While streams run, unless the configuration says otherwise; after them, it ends what it is at."""
        from lakehouse_cdc.ops.upkeep import Upkeep

        if self.config.target.maintain == "off":
            yield
            return
        with Upkeep(self.spark, self.layout, report.notices.append) as report.upkeep:
            yield

    @property
    def _has_begun(self) -> bool:
        """Whether a first batch has been planned."""
        from lakehouse_cdc.lake.checkpoint import Checkpoint

        return Checkpoint(self.checkpoint("bronze")).last_offset() is not None

    def _require_fit(self) -> None:
        """Before the first batch, refuse what cannot end well before anything is written, a lock included.

        From then on the source decides: it may still have to catch up with a past that was fit.
        """
        if not self._has_begun and self._topics is None:
            checks.require(self.doctor(), SourceOptions.parse(self.source_options()).stops)
            for name in self.estimates() if self.layout.silver is not None else ():
                self.config.policy(name)  # refuses settings that contradict each other

    def _require_own_silver(self) -> None:
        """Before the first batch, refuse silver's tables of others, and those that there are though there is no bronze.

        Silver would come late to refuse them.
        """
        if self._has_begun or self.layout.silver is None:
            return
        from lakehouse_cdc.lake.tables import exists, require_owner
        from lakehouse_cdc.pipeline.start.settling import refused

        for table in map(self.layout.silver_table, self.estimates()):
            if exists(self.spark, table):
                require_owner(self.spark, table, self.layout.pipeline)
                if Beginning(self.schemas).after is None:
                    raise refused(Silver.LEFT, self.layout, self.folders)

    def _reading(self, report: RunReport, stored: Mapping[str, Any]) -> Mapping[str, int]:
        """The tables that are being read at an offset, as Spark has stored it."""
        offset = restored(stored, SchemaStore(self.schemas))
        if offset is None:
            return {}
        report.planned(offset)
        return offset.reading

    def as_of(
        self,
        table: str,
        *,
        timestamp: datetime | str | None = None,
        gtid: str | None = None,
        position: str | None = None,
    ) -> DataFrame:
        """A silver table as the source held it at a time, after a GTID (or set), or at a position, `FILE:POS`.

        It has the table's columns, the seq and the commit time (`layout.own` has their names); of type 2, the rows that
        were open. Raises ConfigError for what cannot be read, DefiniteError where the table cannot be had exactly, with
        how far back it goes.
        """
        return self._as_of(Moment(timestamp, gtid, position), table)[table]

    def all_as_of(
        self, *, timestamp: datetime | str | None = None, gtid: str | None = None, position: str | None = None
    ) -> dict[str, DataFrame]:
        """All tables that the source had at one moment, as it held them together; see `as_of`."""
        return self._as_of(Moment(timestamp, gtid, position), None)

    def seq_at(
        self, *, timestamp: datetime | str | None = None, gtid: str | None = None, position: str | None = None
    ) -> int:
        """The seq of a moment: bronze's rows up to it, and SCD 2 versions that began by then and did not end by then.

        Raises ConfigError for what cannot be read, DefiniteError for a moment that bronze has not reached.
        """
        from lakehouse_cdc.ops.as_of import seq_at
        from lakehouse_cdc.ops.reach import newest_note

        with self.failures():
            self._refuse_first(partial(newest_note, layout=self.layout))
            return seq_at(self.spark, self.layout, Moment(timestamp, gtid, position))

    def _as_of(self, moment: Moment, table: str | None) -> dict[str, DataFrame]:
        from lakehouse_cdc.ops.as_of import as_of
        from lakehouse_cdc.ops.reach import known_schemas, newest_note

        with self.failures():
            self._refuse_first(partial(newest_note, layout=self.layout))
            self._refuse_first(partial(known_schemas, layout=self.layout, table=table))
            return as_of(self.spark, self.layout, moment, table, self.config.policy)

    def reach(self) -> dict[str, Reach | None]:
        """How far back each table can be had, and why; None of one that cannot be had yet."""
        from lakehouse_cdc.ops.reach import reaches

        with self.failures():
            return reaches(self.reader(), self.layout)

    def maintain(self, *, vacuum: bool = False) -> list[Maintained]:
        """Put the files of all tables together and, with `vacuum`, delete those that were replaced long ago.

        The pipeline may run meanwhile, in this process; in another one only where the tables are in a catalog other
        than `spark_catalog`. Raises DefiniteError before the first run, and while another process writes to the tables
        of that, or to local ones.
        """
        from lakehouse_cdc.ops.maintain import maintain
        from lakehouse_cdc.ops.reach import require_begun

        if vacuum and self.config.sink_names:
            raise codes.VACUUM_WITH_SINKS.error(
                "vacuum deletes files of bronze that a sink may not have read",
                where="target.sinks" if self.config.target.sinks else "sinks",
                hint="run maintain without vacuum, or take the sinks out of target.sinks and sinks",
            )
        with self.failures(), self.writing("signal pause, then maintain, then signal resume"):
            self._refuse_first(partial(require_begun, layout=self.layout))
            return maintain(self.spark, self.layout, self.checkpoint("silver"), vacuum=vacuum)

    def verify(self, layer: Layer = "silver") -> VerifyReport:
        """Compare every table of a layer with the source, as both were at the position that the layer is at.

        Of bronze, what its changes come to. Writes, and this pipeline itself, may continue meanwhile. A table that
        cannot be compared is named in the report; raises DefiniteError before the layer's first batch, and
        TransientError where the source cannot be reached. With `target.metrics` it leaves a row there.
        """
        from lakehouse_cdc.ops.reach import require_begun
        from lakehouse_cdc.silver.tables.progress import require_applied
        from lakehouse_cdc.verify.all_tables import Verifier

        of_server(self.config.source.kafka, "verify")
        if layer == "silver" and self.layout.silver is None:
            raise codes.SILVER_NOT_CONFIGURED.error(
                "this pipeline keeps no silver tables to verify", hint="verify --layer bronze, or name target.silver"
            )
        places, log = (self.checkpoint("bronze"), self.checkpoint("silver")), self.log_of_session
        began = time.monotonic()
        with self.failures():
            options = self.source_options()
            policy = self.config.policy
            if layer == "silver":
                self._refuse_first(partial(require_applied, layout=self.layout, checkpoint=places[1]))
            else:
                self._refuse_first(partial(require_begun, layout=self.layout))
            verifier = Verifier(self.spark, self.layout, options, *places, lambda error: translate(error, log), policy)
            verified = verifier.silver_tables() if layer == "silver" else verifier.bronze_tables()
        offset = verified.offset
        report = VerifyReport(
            offset.position, offset.gtid_set, tuple(verified.results), verified.quarantined, self._pending(offset),
            offset.tables, self.uncaptured(), verified.failed, verified.left_out, layer,
        )  # fmt: skip
        verification = report.verification(time.time(), time.monotonic() - began)
        verify_history.note(self.checkpoints, verification)
        if self.config.target.metrics:
            from lakehouse_cdc.ops.metrics import record_verification

            record_verification(self.spark, self.layout, verification)
        return report

    def history(self, days: float = 7.0) -> History:
        """What the pipeline did in the last days, for a report; the source is not asked."""
        from lakehouse_cdc.ops.run_history import gathered

        of_server(self.config.source.kafka, "the report")
        url = self.config.source.url
        server = ConnectionOptions.from_url(url) if not CONNECTION.fullmatch(url) else None
        source = url if server is None else f"{server.host}:{server.port}"
        with self.failures():
            places = self.checkpoints, self.schemas, self.checkpoint("bronze")
            return gathered(self.layout, self.reader(), *places, source, days)

    def status(self) -> Status:
        """The position of the pipeline, and how far behind its source, if that can be reached."""
        from lakehouse_cdc.ops.status import status

        if (topics := self._topics) is not None:
            with self.failures():
                return replace(topics.status(), last_error=last_error.read(self.checkpoints))
        logs, left_out = None, None
        with self.failures():
            options = SourceOptions.parse(self.source_options())
        with suppress(TransientError), self._session() as session:
            logs = LogView.of(session, next(replica_ids(options.server_ids)))
            left_out = uncaptured(session, Selection(self.config.source.tables))
        with self.failures():
            places = self.checkpoint("bronze"), self.checkpoint("silver"), self.schemas
            known = logs, options.choice, self.config.policy
            state = status(self.reader(), self.layout, *places, *known, noted=self.checkpoints)
        selection = Selection(self.config.source.tables)
        tables = {
            name: replace(table, snapshot="left out", quarantined="")
            if table.snapshot in ("dropped", "quarantined") and not selection.matches(name)
            else table
            for name, table in state.tables.items()
        }
        stopped_by = last_error.read(self.checkpoints)
        names = None if left_out is None else left_out.all
        return replace(state, tables=tables, uncaptured=names, last_error=stopped_by)
