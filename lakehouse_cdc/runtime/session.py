"""A local Spark session with Delta that needs nothing prepared, and leaves nothing in the user's folder.

PySpark brings Spark; Java is found (see `java`); Delta's jars are fetched once by pinned checksum (see `jars`) and
given as `spark.jars`. So the first start needs a network and later ones do not, and no package resolver talks on the
user's console. The dependencies that Delta's jars declare (Jackson, Parquet, Hadoop, RoaringBitmap, ...) are all among
the jars of Spark, whose class loader is asked first, so they are not fetched again.

The environment is changed only while Spark starts: its JVM, and the Python workers below it, keep their copy.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.runtime.cache import cache_directory
from lakehouse_cdc.runtime.extras import installing
from lakehouse_cdc.runtime.home import spark_home
from lakehouse_cdc.runtime.jars import Jar, fetch
from lakehouse_cdc.runtime.java import java_home
from lakehouse_cdc.runtime.java_store import FOLDER_LOG_STORE, JAR

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA = (
    Jar(
        "io.delta",
        "delta-spark_4.2_2.13",
        "4.4.0",
        "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    ),
    Jar("io.delta", "delta-storage", "4.4.0", "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc"),
    Jar("io.delta", "delta-kernel-api", "4.4.0", "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11"),
    Jar(
        "io.delta", "delta-kernel-defaults", "4.4.0", "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b"
    ),
    Jar(
        "io.delta",
        "delta-kernel-unitycatalog",
        "4.4.0",
        "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
    ),
    Jar(
        "io.unitycatalog",
        "unitycatalog-client",
        "0.6.0",
        "48257499a86b801a3e2372cec55ac226ca1c1c7eabe5c118e7302f29a1fdbc19",
    ),
    Jar(
        "io.unitycatalog",
        "unitycatalog-hadoop",
        "0.6.0",
        "c47b63c961c87102b9e1d63809a0915ba4c86b7652f57c8d39ca3a05b441a150",
    ),
)

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_PORT = "PYSPARK_GATEWAY_PORT"  # by which a process reaches the JVM of the `spark-submit` that has started it
# settings that say where something is on this machine, and those that hold wherever tasks run
_HERE = (
    "spark.driver.host", "spark.driver.bindAddress", "spark.executor.extraJavaOptions", "spark.sql.warehouse.dir",
    "spark.executorEnv.NUMBA_CACHE_DIR", "spark.sql.shuffle.partitions",
)  # fmt: skip
_WHEREVER = ("spark.sql.", "spark.databricks.", "spark.delta.", "spark.python.daemon.")
_PAST = ("spark.ui.retainedJobs", "spark.ui.retainedStages", "spark.sql.ui.retainedExecutions")
# Spark's code is compiled by the JVM's second compiler once it has run ten times as often as by default: of the seconds
# that a batch takes, that compiler took a third of both cores. Its collector for throughput suits few of them
_JAVA = (
    "-XX:+UseParallelGC -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
# settings of a session that lives for minutes: the JVM's second compiler would cost more than it gains (78 s of CPU
# against 34 s for six MERGEs); without it the JVM would reserve 48 MB for all the code that Spark generates, and stop
# when they are full
BRIEF = {"spark.driver.defaultJavaOptions": "-XX:+UseParallelGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m"}


@dataclass(frozen=True)
class PythonPrograms:
    """How Spark starts its Python processes: the program that it runs, and the module that forks its workers."""

    executable: str = sys.executable
    daemon_module: str = "pyspark.daemon"


@cache
def scratch_folder() -> str:
    """A folder of this process, deleted when the process ends."""
    folder = tempfile.mkdtemp(prefix="lakehouse-cdc-spark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def local_session(
    name: str = "lakehouse-cdc",
    *,
    cores: int | None = None,
    conf: Mapping[str, str] | None = None,
    log: Path | None = None,
    python: PythonPrograms | None = None,
    jars: Sequence[Path] = (),
) -> SparkSession:
    """A Spark session on this machine with Delta, in UTC, bound to 127.0.0.1; the running one, where it has Delta.

    `cores` are the tasks that run at once (all of the machine's by default); a task is tried four times. `conf` wins
    over every setting here; `spark.master` may be a cluster's: then what is of this machine alone is not set, and with
    `spark.archives` (PATH#NAME) tasks have the Python that is in the first of them. Of a process that `spark-submit`
    has started, that decides where tasks run, and with which jars. Spark's own log goes to the file `log`, from
    warnings up, and so does whatever its processes print; without one, errors alone go to the console. `python` says
    how Spark starts its Python processes (see `workers.launcher` for programs that start faster).

    Spark's processes are in a session of their own, so a Ctrl-C reaches this process alone, which stops them in order;
    and the signal raises KeyboardInterrupt as ever, with no job cancelled before (PySpark would).

    Raises DefiniteError without PySpark or Java, or where a session without Delta runs in this process; TransientError
    where Delta's jars cannot be fetched.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise codes.PYSPARK_MISSING.error("PySpark is not installed", hint=installing("local"))
    from pyspark.sql import SparkSession

    if is_running():
        running = SparkSession.builder.getOrCreate()
        if EXTENSION not in str(running.conf.get("spark.sql.extensions", "")):
            raise codes.SPARK_WITHOUT_DELTA.error("a Spark session without Delta runs in this process")
        return running
    kernel_cache()
    python = python or PythonPrograms()
    settings = {**_settings(cores or os.cpu_count() or 1, log, python, jars), **(conf or {})}
    submitted = _PORT in os.environ
    if submitted or not is_on_this_machine(settings):
        settings = {name: value for name, value in settings.items() if name not in _HERE or name in (conf or {})}
    if submitted:
        settings = {name: value for name, value in settings.items() if name.startswith(_WHEREVER)}
    builder = SparkSession.builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with nullcontext() if submitted else _environment(python, settings), _interrupt_kept():
        _launch(settings, log)
        if not _has_delta():
            raise codes.SPARK_WITHOUT_DELTA.error("Spark was started in this process without Delta's jars")
        return builder.getOrCreate()


def _launch(settings: Mapping[str, str], log: Path | None) -> None:
    """Start Spark's JVM, unless this process has one from an earlier session."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with ExitStack() as stack:
        how: dict[str, Any] = {"start_new_session": True}
        if archives := settings.get("spark.archives"):
            how["cwd"] = _unpacked_here(archives)
        if log is not None:
            how["stdout"] = how["stderr"] = stack.enter_context(open(log, "ab"))
        SparkContext._ensure_initialized(gateway=launch_gateway(conf, popen_kwargs=how))  # type: ignore[no-untyped-call]


def is_on_this_machine(conf: Mapping[str, str]) -> bool:
    """Whether all processes of a session with those settings run here."""
    return conf.get("spark.master", "local").startswith("local")


def _unpacked_here(archives: str) -> str:
    """A folder for the driver's JVM, which starts Pythons, too: this one is where it is in the first archive."""
    folder = Path(scratch_folder()) / "driver"
    folder.mkdir(exist_ok=True)
    name = archives.partition(",")[0].rpartition("#")[2]
    with suppress(FileExistsError):
        (folder / name).symlink_to(sys.prefix)
    return str(folder)


def _has_delta() -> bool:
    """Whether Spark's JVM has Delta: it gets its jars when it starts, and outlives the session."""
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    return bool(jvm.org.apache.spark.util.Utils.classIsLoadable(EXTENSION))


@contextmanager
def _interrupt_kept() -> Iterator[None]:
    """Put the handler of SIGINT back that PySpark replaces."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def kernel_cache() -> str:
    """The folder of compiled kernels, for this process and those that it starts; `NUMBA_CACHE_DIR` may name another."""
    return os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_directory() / "numba"))


def is_running() -> bool:
    """Whether this process has a Spark session, which `local_session` would return."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def _settings(cores: int, log: Path | None, python: PythonPrograms, jars: Sequence[Path]) -> dict[str, str]:
    scratch = scratch_folder()
    numba = kernel_cache()
    return {
        "spark.master": f"local[{cores},4]",
        "spark.jars": ",".join(
            dict.fromkeys(map(str, [*fetch(DELTA, f"the {len(DELTA)} jars of Delta (13 MB)"), JAR, *jars]))
        ),
        "spark.sql.extensions": EXTENSION,
        "spark.sql.catalog.spark_catalog": CATALOG,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.sql.shuffle.partitions": str(max(2, cores)),
        # 100 by default, which a batch of bronze and silver exceeds: all code would be compiled again for each batch
        "spark.sql.codegen.cache.maxEntries": "2000",
        "spark.python.daemon.module": python.daemon_module,
        # 50 by default; the code that each such task writes for itself costs more than its work on one machine's tables
        "spark.databricks.delta.snapshotPartitions": "1",
        # the other manager asks for the target of every link, by a process each: 8 of them a file on a local disk
        "spark.sql.streaming.checkpointFileManagerClass": _FILES,
        # so does the store of Delta's log that is the default, for each commit. Neither keeps two processes from
        # writing the same version; that is what `pipeline.run.exclusive` is for
        "spark.delta.logStore.file.impl": FOLDER_LOG_STORE,
        # a list of a small table's files in each checksum, for which a new table, which has none, is queried
        "spark.databricks.delta.allFilesInCrc.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.driver.defaultJavaOptions": _JAVA,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": _log_options(log),
        "spark.executor.extraJavaOptions": _log_options(None),
        "spark.executorEnv.NUMBA_CACHE_DIR": numba,
        "spark.ui.enabled": "false",
        # without its pages, nobody looks at what was done before; plans of a thousand queries fill half of the heap
        **dict.fromkeys(_PAST, "20"),
        "spark.ui.showConsoleProgress": "false",
    }


def _log_options(log: Path | None) -> str:
    kind = "console" if log is None else "file"
    options = f"-Dlog4j2.configurationFile={Path(__file__).with_name(f'log-{kind}.properties').as_uri()}"
    return options if log is None else f'{options} "-Dlakehouse_cdc.log={log.absolute()}"'


@contextmanager
def _environment(python: PythonPrograms, settings: Mapping[str, str]) -> Iterator[None]:
    """What Spark's scripts and PySpark read from the environment as they start; restored afterwards."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    ours = {
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(spark_home(Path(spec.origin).parent)),  # PySpark's own, not another Spark that the user has
        "PYSPARK_PYTHON": python.executable,
        **({"SPARK_LOCAL_IP": "127.0.0.1"} if is_on_this_machine(settings) else {}),
    }
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
