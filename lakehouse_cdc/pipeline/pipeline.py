"""A pipeline: its configuration, wired to source, bronze, silver and verify.

    Pipeline.from_yaml("pipeline.yml").run(once=True)

Nothing is decided here; every part is told where its tables and checkpoints lie and what its options are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse_cdc.errors import CdcError, ConfigError, DefiniteError, TransientError
from lakehouse_cdc.model.layout import Layout
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.mysql import preflight
from lakehouse_cdc.mysql.preflight_settings import Finding
from lakehouse_cdc.mysql.server import binary_logs
from lakehouse_cdc.mysql.session import ConnectionOptions, connect
from lakehouse_cdc.pipeline.config import PipelineConfig, load
from lakehouse_cdc.pipeline.failures import translate
from lakehouse_cdc.pipeline.report import Progress, RunReport, VerifyReport
from lakehouse_cdc.pipeline.restarts import while_late
from lakehouse_cdc.pipeline.source_options import connection_options, source_options
from lakehouse_cdc.pipeline.streams import Streams
from lakehouse_cdc.runtime.databricks import brought_session
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.source.offsets import restored
from lakehouse_cdc.source.schemas import SchemaStore
from lakehouse_cdc.source.signals import Signals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_cdc.ops.status import Status

_REST_SECONDS = 1.0  # between looks whether a paused pipeline may go on


class Pipeline:
    """One source into one lakehouse. `spark` is the session to use; without it Databricks' own, else one is made.

    Relative paths start at `home`, the working directory by default. `log` and `conf` are for a session that is made
    here: the file of Spark's own log, by default beside the checkpoints, and further settings of Spark.
    """

    def __init__(
        self,
        config: PipelineConfig,
        spark: SparkSession | None = None,
        *,
        home: Path | None = None,
        log: Path | None = None,
        conf: Mapping[str, str] | None = None,
    ) -> None:
        self.config = config
        self._spark = spark
        self._made_session = False
        self._log, self._conf = log, conf
        self._home = home or Path.cwd()

    @classmethod
    def from_yaml(cls, path: str | Path, spark: SparkSession | None = None) -> Pipeline:
        """Read a configuration file; relative paths in it start at its folder. Raises ConfigError with the line."""
        path = Path(path)
        return cls(load(path), spark, home=path.absolute().parent)

    # ------------------------------------------------------------------ where things lie

    @property
    def layout(self) -> Layout:
        """The names of all tables."""
        target = self.config.target
        return Layout(
            pipeline=self.config.name,
            bronze=target.bronze,
            silver=target.silver,
            path=str(self._absolute(target.path)) if target.path is not None else None,
            catalog=target.catalog,
            silver_name=target.silver_name,
        )

    @property
    def state(self) -> Path:
        """The folder of checkpoints and schemas. They belong together: keep or delete them as one."""
        target = self.config.target
        root = target.checkpoints or f"{target.path}/_checkpoints"
        return self._absolute(root) / self.config.name

    @property
    def log(self) -> Path:
        """Where Spark's own log goes, in a session that this pipeline makes."""
        return self._log or self.state / "spark.log"

    def _prepared_log(self) -> Path:
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            self.log.touch()
        except OSError as error:
            raise ConfigError(
                f"cannot write to {self.log.parent}: {error.strerror}", hint="choose another folder under target"
            ) from error
        return self.log

    def checkpoint(self, layer: str) -> str:
        """The checkpoint of a layer's stream, bronze or silver."""
        return str(self.state / layer)

    @property
    def schemas(self) -> str:
        """The folder of what the source's offsets name."""
        return str(self.state / "schemas")

    def _absolute(self, path: str) -> Path:
        return (self._home / path).resolve()

    def source_options(self) -> dict[str, str]:
        """The options of the `mysql_cdc` source, the password among them."""
        return source_options(self.config, self._home, self.schemas)

    def _connection(self) -> ConnectionOptions:
        return connection_options(self.config, self._home)

    @property
    def spark(self) -> SparkSession:
        """The session, with the source registered."""
        if self._spark is None:
            self._spark = brought_session()
        if self._spark is None:
            from lakehouse_cdc.runtime.session import is_running, local_session

            self._made_session = not is_running()
            self._spark = local_session(self.config.name, conf=self._conf, log=self._prepared_log())
        from lakehouse_cdc.source.stream import MySqlCdcSource

        self._spark.dataSource.register(MySqlCdcSource)
        return self._spark

    # ------------------------------------------------------------------ what it does

    def doctor(self) -> list[Finding]:
        """Everything that must be true of the source. Raises only if the source cannot be reached."""
        excluded = {p: tuple(t.exclude) for p, t in self.config.tables.items()}
        with connect(self._connection()) as session:
            return preflight.check(session, Selection(self.config.source.tables), excluded)

    def estimates(self) -> dict[str, int]:
        """About how many rows each captured table has, as the server's statistics say."""
        with connect(self._connection()) as session:
            found = session.query(
                "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_ROWS FROM INFORMATION_SCHEMA.TABLES"
                " WHERE TABLE_TYPE = 'BASE TABLE'"
            )
        selection = Selection(self.config.source.tables)
        names = {f"{database}.{table}": int(rows or 0) for database, table, rows in found}
        return {name: rows for name, rows in names.items() if selection.matches(name)}

    def run(
        self, *, once: bool = False, every_seconds: float = 1.0, progress: Callable[[Progress], None] | None = None
    ) -> RunReport:
        """Bring bronze and silver up to the source: all that is there now (`once`), or until it is interrupted.

        `progress` is called after each batch. Raises DefiniteError or TransientError; everything that was committed
        before stays consistent, and the next run goes on from there.
        """
        from lakehouse_cdc.bronze.tables import create_bronze

        report = RunReport(progress)
        if once and self.signals.paused:
            raise DefiniteError("the pipeline is paused", where=self.config.name, hint="signal resume")
        with self._failures():
            self._before_the_first_batch()
            create_bronze(self.spark, self.layout)
            try:
                every = None if once else every_seconds
                while not while_late(lambda: self._follow(every, report), report.batches.total, report.restarted):
                    while self.signals.paused:
                        time.sleep(_REST_SECONDS)
            except KeyboardInterrupt:
                report.interrupted = True
        if (offset := self._offset()) is not None:
            report.end_at(offset)
        return report

    def _follow(self, every: float | None, report: RunReport) -> bool:
        """Run the streams to their end; False if they were stopped because the pipeline is paused."""
        from lakehouse_cdc.bronze import sink
        from lakehouse_cdc.lake.checkpoint import Checkpoint
        from lakehouse_cdc.silver import stream as silver

        spark, layout, place = self.spark, self.layout, self.checkpoint("bronze")
        changes = spark.readStream.format("mysql_cdc").options(**self.source_options()).load()
        with Streams() as streams:
            streams.add(sink.start(spark, changes, layout, place, every_seconds=every, on_batch=report.bronze))
            # silver has no standing before bronze's first batch
            begun = Checkpoint(place)
            streams.wait(until=lambda: every is not None and begun.last_commit() is not None)
            if layout.silver is not None:
                place = self.checkpoint("silver")
                policy = self.config.policy
                streams.add(
                    silver.start(spark, layout, place, every_seconds=every, policy=policy, on_batch=report.silver)
                )
            return streams.wait(until=lambda: every is not None and self.signals.paused)

    @property
    def signals(self) -> Signals:
        """What a person asks of this pipeline while it runs, or of its next run."""
        return Signals(self.schemas)

    def read_again(self, patterns: Sequence[str]) -> list[str]:
        """Have the captured tables that match be read again as of now, beside the stream; their names.

        What the pass does not find is deleted in silver, so it mends whatever differs; a table that is quarantined is
        followed again, if it can be. Raises ConfigError for a pattern that no captured table matches, DefiniteError
        before the first run.
        """
        offset = self._offset()
        if offset is None:
            raise DefiniteError("nothing has been read yet", where=self.config.name, hint="run first")
        there = [name for name, state in offset.tables.items() if not state.dropped]
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in there):
                raise ConfigError(f"no captured table matches '{pattern}'", hint=f"one of {', '.join(there)}")
        found = [name for name in there if any(fnmatchcase(name, pattern) for pattern in patterns)]
        for name in found:
            self.signals.request(name)
        return found

    def _before_the_first_batch(self) -> None:
        """Refuse what cannot end well before anything is written; silver would come late to refuse its tables."""
        from lakehouse_cdc.lake.checkpoint import Checkpoint

        if Checkpoint(self.checkpoint("bronze")).last_offset() is not None:
            return  # from here on the source decides: it may still have to catch up with a past that was fit
        preflight.require(self.doctor())
        if self.layout.silver is None:
            return
        from lakehouse_cdc.lake.tables import exists, require_owner

        names = self.estimates()
        for name in names:
            self.config.policy(name)  # refuses settings that contradict each other
        for table in self.layout.silver_tables(names).values():
            if exists(self.spark, table):
                require_owner(self.spark, table, self.layout.pipeline)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Whatever goes wrong inside is one of our errors outside."""
        try:
            yield
        except CdcError:
            raise
        except Exception as error:
            raise translate(error, self.log if self._made_session else None) from error

    def _offset(self) -> Offset | None:
        """The source's last offset."""
        from lakehouse_cdc.lake.checkpoint import Checkpoint

        place = Checkpoint(self.checkpoint("bronze"))
        batch = place.last_offset()
        return None if batch is None else restored(place.offset(batch), SchemaStore(self.schemas))

    def verify(self) -> VerifyReport:
        """Compare every silver table with the source, as both stood at the position that silver stands at.

        Writes, and this pipeline itself, may go on meanwhile. Raises DefiniteError before silver's first batch.
        """
        from lakehouse_cdc.verify.tables import verify_tables

        if self.layout.silver is None:
            raise ConfigError("this pipeline keeps no silver tables to verify", hint="name a schema as target.silver")
        with self._failures():
            offset, results, quarantined = verify_tables(
                self.spark, self.layout, self.source_options(), self.checkpoint("bronze"), self.checkpoint("silver")
            )
        return VerifyReport(offset.position, offset.gtid_set, tuple(results), quarantined)

    def status(self) -> Status:
        """Where the pipeline stands, and how far behind its source, if that can be reached."""
        from lakehouse_cdc.ops.status import status

        logs = None
        with suppress(TransientError), connect(self._connection()) as session:
            logs = binary_logs(session)
        with self._failures():
            return status(
                self.spark, self.layout, self.checkpoint("bronze"), self.checkpoint("silver"), self.schemas, logs
            )

    def close(self) -> None:
        """Stop the session, if this pipeline has made it."""
        if self._made_session and self._spark is not None:
            self._spark.stop()
            self._spark, self._made_session = None, False
