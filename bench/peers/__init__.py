"""What the package is compared with, as command lines; those in Java are built by Maven when they are first needed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from bench.logs import Log
from bench.tables import Workload

_FOLDER = Path(__file__).parent
_NAMES = {"flink.cdc": "Flink CDC", "flink": "Flink", "debezium": "Debezium"}
_MEMORY = "-Xmx2g"  # what a local session of Spark has
# a batch that is full is handed on only after this time, which is 500 ms by default
_TUNED = ("poll.interval.ms=10",)
_LARGE_BATCHES = ("max.batch.size=16384", "max.queue.size=65536")  # where each is acknowledged before the next one
_OPENED = (  # what Kafka Connect and Flink reach into
    "--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED",
)  # fmt: skip


def python(module: str, *arguments: object) -> list[str]:
    """A module of this folder's, run by this Python."""
    return [sys.executable, "-m", f"bench.{module}", *map(str, arguments)]


def flink_snapshot(port: int, workload: Workload, rows: int, cores: int, *, tuned: bool) -> list[str]:
    """Flink CDC, a table's rows into nothing."""
    return _flink(port, workload, rows, cores, "snapshot", tuned)


def flink_log(port: int, log: Log, cores: int, *, tuned: bool) -> list[str]:
    """Flink CDC, the changes of a log into nothing."""
    return _flink(port, log.workload, log.images, cores, log.start, tuned)


def _flink(port: int, workload: Workload, rows: int, cores: int, start: str, tuned: bool) -> list[str]:
    settings = _TUNED if tuned else ()
    return _java("flink", "FlinkPeer", port, workload.name, workload.flink_row, rows, cores, start, *settings)


def binlog_connector(port: int, log: Log) -> list[str]:
    """mysql-binlog-connector-java, the client that Flink CDC and Debezium read the binlog with: decoding alone."""
    return _java("flink", "BinlogPeer", port, log.start, log.changes)


def debezium(port: int, workload: Workload, rows: int) -> list[str]:
    """Debezium's embedded engine, a table's rows into nothing."""
    return _java("debezium", "DebeziumPeer", port, workload.name, rows, *_TUNED)


def debezium_into_topic(port: int, table: str, rows: int, brokers: str, prefix: str, *settings: str) -> list[str]:
    """Debezium's embedded engine, a table's rows into the topic `<prefix>.<database>.<table>`, which is there."""
    return _java("debezium", "TopicPeer", port, table, rows, brokers, prefix, *_TUNED, *_LARGE_BATCHES, *settings)


def versions() -> dict[str, str]:
    """What is compared with, as the builds say."""
    found: dict[str, str] = {}
    for peer, names in {"flink": ("flink.cdc", "flink"), "debezium": ("debezium",)}.items():
        pom = (_FOLDER / peer / "pom.xml").read_text(encoding="utf-8")
        found |= {name: re.findall(f"<{name}.version>(.+)</", pom)[0] for name in names}
    return {_NAMES[name]: version for name, version in found.items()}


def mysql_jdbc_jar() -> str:
    """The path of MySQL's JDBC driver."""
    [path] = [p for p in _built("flink").split(":") if "mysql-connector-j" in Path(p).name]
    return path


def _java(peer: str, main: str, *arguments: object) -> list[str]:
    path = f"{_FOLDER / peer / 'target' / 'classes'}:{_built(peer)}"
    return ["java", _MEMORY, *_OPENED, "-cp", path, f"bench.{main}", *map(str, arguments)]


def _built(peer: str) -> str:
    """The class path of a peer's libraries. Raises CalledProcessError where Maven cannot build it."""
    folder = _FOLDER / peer
    found = folder / "target" / "classpath"
    sources = [folder / "pom.xml", *folder.rglob("*.java")]
    if not found.exists() or any(one.stat().st_mtime > found.stat().st_mtime for one in sources):
        subprocess.run(["mvn", "-q", "-B", "-f", str(folder / "pom.xml"), "package"], check=True, stdout=sys.stderr)
    return found.read_text(encoding="utf-8")
