"""What a pipeline is built on: where its tables, checkpoints and logs lie, and the session that it works in."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.lake import file_systems
from lakehouse_cdc.lake.catalog_folder import SESSION_CATALOG
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.object_store import ObjectStore, Slot
from lakehouse_cdc.lake.readers.choice import ReaderOnDemand
from lakehouse_cdc.lake.refused_writes import writable
from lakehouse_cdc.lake.sessions import is_remote
from lakehouse_cdc.lake.spark_errors import DYING_SECONDS, jvm_has_ended
from lakehouse_cdc.model.own_columns import OwnColumns
from lakehouse_cdc.model.place import Kind, Storage, as_folder, as_hadoop, is_url, kind_of
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session, connect
from lakehouse_cdc.mysql.uncaptured import Uncaptured, uncaptured
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.config.source_options import connection_options, source_options
from lakehouse_cdc.pipeline.run.exclusive import exclusive
from lakehouse_cdc.pipeline.run.failures import translate
from lakehouse_cdc.pipeline.run.lease import fence, leased
from lakehouse_cdc.runtime.cache import cache_directory
from lakehouse_cdc.runtime.databricks import brought_session, on_databricks
from lakehouse_cdc.runtime.extras import installing
from lakehouse_cdc.runtime.object_store import keep_checkpoints, reach, session_jars, session_settings
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.source.options import STORAGE, as_option
from lakehouse_cdc.source.requests.requests import Signals
from lakehouse_cdc.telemetry.outputs import outputs
from lakehouse_cdc.telemetry.port import Telemetry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_cdc.lake.readers.port import TableReader


@dataclass(frozen=True)
class Folders:
    """Where a pipeline keeps what is no table: the checkpoints of its streams, and the source's files.

    Folders, or URLs of a store.
    """

    bronze: str
    silver: str
    schemas: str
    sinks: tuple[str, ...] = ()


class PipelineContext:
    """What the parts of one pipeline share. `spark` is the session to use; without it Databricks' own, or a new one.

    Relative paths start at `home`, the working directory by default. `log` and `conf` are for a session that is made
    here: the file of Spark's own log, by default in `state`, and further settings of Spark.

    `given` is the configuration as it is given, and `config` the same with the tables that signals add or leave out.
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
        self.given = self.config = config
        self._spark = spark
        self._made_session = self._connected = False
        self._log, self._conf = log, conf
        self._home = home or Path.cwd()
        if self._kind == "abfs" and find_spec("obstore") is None:
            raise codes.PACKAGE_MISSING.error(
                "a path in this store needs obstore, the extra stores", hint=installing("stores")
            )
        if is_url(self.checkpoints):
            file_systems.reach(self.checkpoints, self.storage())
        self._take_signals()

    def _take_signals(self) -> None:
        """Have `config` select what signals have added or left out by now."""
        source = self.given.source
        patterns = tuple(dict.fromkeys((*source.tables, *Signals(self.schemas).patterns)))
        self.config = replace(self.given, source=replace(source, tables=patterns))

    @property
    def _signals_taken(self) -> bool:
        """Whether `config` selects what signals say now."""
        return set(self.config.source.tables) == {*self.given.source.tables, *Signals(self.schemas).patterns}

    @property
    def layout(self) -> Layout:
        """The names of all tables."""
        target = self.config.target
        return Layout(
            pipeline=self.config.name,
            bronze=target.bronze,
            silver=target.silver,
            path=self._root,
            catalog=target.catalog,
            silver_name=target.silver_name,
            own=OwnColumns(target.metadata_prefix),
            silver_names=tuple(
                (pattern, t.silver_name)
                for pattern, t in self.config.tables_that_set("silver_name").items()
                if t.silver_name is not None
            ),
            into=tuple(
                (pattern, t.into) for pattern, t in self.config.tables_that_set("into").items() if t.into is not None
            ),
        )

    @property
    def _root(self) -> str | None:
        """Where the tables are, as Spark is given it; None where a catalog decides."""
        path = self.config.target.path
        if path is None:
            return None
        return as_hadoop(path) if is_url(path) else str(self._absolute(path))

    @property
    def _kind(self) -> Kind | None:
        """Of which kind the store of the tables is; None where they are in none."""
        path = self.config.target.path
        return kind_of(path) if path is not None and is_url(path) else None

    @property
    def checkpoints(self) -> str:
        """The place of checkpoints and schemas, a folder or a URL. They belong together: keep or delete them as one."""
        target = self.given.target
        root = target.checkpoints or f"{(target.path or '').rstrip('/')}/_checkpoints"
        return f"{as_hadoop(root) if is_url(root) else self._absolute(root)}/{self.given.name}"

    @property
    def state(self) -> Path:
        """The folder on this machine: that of the checkpoints, or, where they are in a bucket, one in the cache.

        In the latter is what only matters here, such as the log of Spark's own.
        """
        if not is_url(self.checkpoints):
            return Path(self.checkpoints)
        digest = sha256(self.checkpoints.encode()).hexdigest()[:16]
        return cache_directory() / "pipelines" / f"{self.given.name}-{digest}"

    def _local_folders(self) -> list[Path]:
        """What a run writes to on this machine's disks, and Spark beside it."""
        tables = [] if self._root is None or is_url(self._root) else [Path(self._root)]
        return [*tables, self.state, Path(tempfile.gettempdir())]

    @property
    def log(self) -> Path:
        """Where Spark's own log goes, in a session that this pipeline makes; a file of this machine."""
        return self._log or self.state / "spark.log"

    @property
    def log_of_session(self) -> Path | None:
        """The same, where the session's Spark is in this process and was started by it."""
        return self.log if self._made_session and self._spark is not None and not is_remote(self._spark) else None

    def _prepared_log(self) -> Path:
        with writable(self.log.parent):
            self.log.parent.mkdir(parents=True, exist_ok=True)
            self.log.touch()
        return self.log

    def checkpoint(self, layer: str) -> str:
        """The checkpoint of a stream: of a layer, bronze or silver, or of a sink (see `sink_folders`)."""
        return f"{self.checkpoints}/{layer}"

    @property
    def schemas(self) -> str:
        """The place of what the source's offsets name."""
        return f"{self.checkpoints}/schemas"

    @property
    def folders(self) -> Folders:
        """All of them."""
        sinks = tuple(map(self.checkpoint, self.sink_folders))
        return Folders(self.checkpoint("bronze"), self.checkpoint("silver"), self.schemas, sinks)

    @property
    def sink_folders(self) -> list[str]:
        """Of each sink besides silver the name of its checkpoint: of `target.sinks` first, then of `sinks`."""
        return [
            *(f"sink-{name}" for name in self.config.target.sinks),
            *(f"kafka-{name}" for name in self.config.sinks),
        ]

    def _absolute(self, path: str) -> Path:
        return (self._home / as_folder(path)).resolve()

    def source_options(self) -> dict[str, str]:
        """The options of the `mysql_cdc` source, the password among them."""
        options = source_options(self.config, self._home, self.schemas)
        in_store = is_url(self.schemas) or is_url(self._root)
        return {**options, STORAGE: as_option(self.storage())} if in_store else options

    def _connection(self) -> ConnectionOptions:
        return connection_options(self.config, self._home)

    def _session(self) -> Session:
        """One of the source: of the server whose log bronze is at, where that answers."""
        place = Checkpoint(self.checkpoint("bronze"))
        last = place.last_offset()
        return connect(
            self._connection(), server="" if last is None else str(place.offset(last).get("server_uuid", ""))
        )

    def source_session(self) -> Session:
        """A session of the source, for the caller to close."""
        return self._session()

    def telemetry(self) -> Telemetry:
        """The outputs that the configuration asks for, of one run."""
        target = self.config.target
        file = None if target.metrics_file is None else self._absolute(target.metrics_file)
        port, host, otel = target.metrics_port, target.metrics_host, target.metrics_otel
        return Telemetry([*outputs(self.config.name, port=port, host=host, file=file, otel=otel)])

    @property
    def spark(self) -> SparkSession:
        """The session, with the source registered."""
        if self._spark is None:
            self._spark = brought_session() or self._remote_session()
        if self._spark is None:
            from lakehouse_cdc.runtime.session import is_running, local_session
            from lakehouse_cdc.workers.launcher import programs_for

            self._made_session = not is_running()
            jars: Sequence[Path] = ()
            conf = {**self.config.spark.settings(self._home), **(self._conf or {})}
            python = programs_for(conf)
            if (kind := self._kind) is not None:
                jars, conf = session_jars(kind), {**session_settings(kind), **conf}
            self._spark = local_session(self.config.name, conf=conf, log=self._prepared_log(), python=python, jars=jars)
        if is_url(self.config.target.path) and not self._connected:
            place, storage = str(self._root), self.storage()
            reach(self._spark, place, storage)
            file_systems.reach(place, storage, ObjectStore(self._spark).put_new)
            if is_url(self.checkpoints):
                reach(self._spark, self.checkpoints, storage)
                keep_checkpoints(self._spark)
            self._connected = True
        self._require_shared_folder(self._spark)
        from lakehouse_cdc.source.spark.stream import MySqlCdcSource

        self._spark.dataSource.register(MySqlCdcSource)
        return self._spark

    def _remote_session(self) -> SparkSession | None:
        """The session of the server of Spark Connect that is named, None where none is."""
        remote = self.config.spark.remote or os.environ.get("SPARK_REMOTE")
        if remote is None or not remote.startswith("sc://"):  # the variable may ask for a server of PySpark's own
            return None
        from pyspark.sql import SparkSession

        self._made_session = True
        return SparkSession.builder.remote(remote).getOrCreate()

    def _require_shared_folder(self, spark: SparkSession) -> None:
        """Refuse a folder that a remote server does not see: what tasks write there would be nowhere."""
        if self._root is None or is_url(self._root):
            return
        from lakehouse_cdc.lake.shared_folder import look

        if not look(spark, self._root):
            raise codes.FOLDER_NOT_SHARED.error(
                "a file that was put into the folder of the tables is not there for Spark's server", where=self._root
            )

    def storage(self) -> Storage:
        """How the object store of the tables is reached. Raises ConfigError for a secret that cannot be read."""
        section = self.config.target.storage
        return Storage() if section is None else section.resolved()

    @property
    def home(self) -> Path:
        """Where relative paths start."""
        return self._home

    def reader(self) -> TableReader:
        """What looks at the tables, as they are from now on; a session is made only where Spark has to."""
        if is_url(self._root):
            file_systems.reach(str(self._root), self.storage())
        return ReaderOnDemand(lambda: self.spark)

    def _session_there(self) -> SparkSession | None:
        """The session to use, if this process has one already."""
        if self._spark is None and "pyspark" not in sys.modules and not on_databricks():
            return None
        from lakehouse_cdc.runtime.session import is_running

        return self.spark if self._spark is not None or on_databricks() or is_running() else None

    def _refuse_first(self, look: Callable[[TableReader], object]) -> None:
        """Have `look` raise what it can before a session is made, which takes much longer; not where there is one."""
        if self._spark is None:
            look(self.reader())

    def uncaptured(self) -> Uncaptured:
        """What matches `source.tables` now and is not captured, with the reasons; nothing of topics."""
        if self.config.source.kafka is not None:
            return Uncaptured()
        with self._session() as session:
            return uncaptured(session, Selection(self.config.source.tables))

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Whatever goes wrong inside is one of our errors outside, but for a library that is not installed."""
        try:
            yield
        except (CdcError, ModuleNotFoundError):
            raise
        except Exception as error:
            raise translate(error, self.log_of_session) from error

    def writing(self, hint: str) -> AbstractContextManager[None]:
        """While this process writes to the pipeline's tables; `hint` is for an error, where another one does."""
        if self._root is None:
            return self._catalog_held(hint)
        return self._leased(self._root, hint) if is_url(self._root) else exclusive(self.state, hint)

    def _catalog_held(self, hint: str) -> AbstractContextManager[None]:
        """The session's catalog may keep tables in a folder, where commits of two processes are not in turn."""
        in_folder = self.config.target.catalog == SESSION_CATALOG and not on_databricks()
        return nullcontext() if is_url(self.checkpoints) or not in_folder else exclusive(self.state, hint)

    @contextmanager
    def _leased(self, root: str, hint: str) -> Iterator[None]:
        with self._checkpoints_held(hint):
            slot = Slot(ObjectStore(self.spark), f"{root}/_lakehouse_cdc/{self.config.name}.lease")
            with leased(slot, slot.url, hint) as lease:
                fence(self.spark, self.layout, lease)
                yield

    def _checkpoints_held(self, hint: str) -> AbstractContextManager[object]:
        """Two pipelines may differ in their path alone, and would share what is beside the checkpoints."""
        if not is_url(self.checkpoints):
            return exclusive(self.state, hint)
        slot = Slot(ObjectStore(self.spark), f"{self.checkpoints}/writing.lease")
        return leased(slot, slot.url, hint)

    def close(self) -> None:
        """Stop the session, if this pipeline has made it."""
        if self._made_session and self._spark is not None:
            try:
                self._spark.stop()
            except Exception:
                if not jvm_has_ended(within=DYING_SECONDS):  # and the session with it
                    raise
            self._spark, self._made_session, self._connected = None, False, False
