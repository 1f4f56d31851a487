"""A real broker: Apache Kafka in KRaft mode, one process, on 127.0.0.1, from jars of pinned checksums.

It has what a test can wait for: a log cleaner that looks every 200 ms, and no delay before a group's first assignment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from lakehouse_cdc.runtime.jars import Jar, fetch
from lakehouse_cdc.runtime.java import find_java
from lakehouse_cdc.testing import guard
from lakehouse_cdc.testing.place import free_port

_JARS = Path(__file__).with_name("kafka_jars.txt")
_START_SECONDS = 240.0
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}{more_listeners}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}{more_advertised}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURED:SASL_PLAINTEXT
listener.name.secured.sasl.enabled.mechanisms=PLAIN
listener.name.secured.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_cdc="{password}";
log.dirs={folder}/logs
num.partitions=3
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=200
log.cleaner.dedupe.buffer.size=2097152
num.network.threads=2
num.io.threads=2
"""
PASSWORD = "of-the-tests"


def _jars() -> list[Path]:
    """Spark has Scala's library, which its resolver gives to nobody."""
    lines = [line.replace(":", " ").split() for line in _JARS.read_text().splitlines() if not line.startswith("#")]
    [scala] = (Path(pyspark.__file__).parent / "jars").glob("scala-library-2.13.*.jar")
    return [*fetch([Jar(group, name, version, digest) for group, name, version, digest in lines]), scala]


class Broker:
    """One that runs. `secured` is the address at which it asks for the user `cdc` and `PASSWORD` (SASL PLAIN)."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lakehouse-cdc-kafka-"))
        self._port, self._controller, self._secured = free_port(), free_port(), free_port()
        self._classpath = os.pathsep.join(map(str, _jars()))
        self._guard: subprocess.Popen[bytes] | None = None
        self._file = self.folder / "server.properties"
        secured = f",SECURED://127.0.0.1:{self._secured}"
        self._file.write_text(
            _SETTINGS.format(
                port=self._port, controller=self._controller, folder=self.folder, more_listeners=secured,
                more_advertised=secured, password=PASSWORD,
            )
        )  # fmt: skip
        identity = self._tool("random-uuid").split()[-1]
        self._tool("format", "-t", identity, "-c", str(self._file))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def secured(self) -> str:
        return f"127.0.0.1:{self._secured}"

    def _java(self, *arguments: str) -> list[str]:
        options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
        return [str(find_java()), *options, "-cp", self._classpath, *arguments]

    def _tool(self, *arguments: str) -> str:
        command = self._java("kafka.tools.StorageTool", *arguments)
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout

    def start(self) -> None:
        """Start it, also again, with what it has; returns when it answers."""
        with open(self.folder / "broker.log", "ab") as log:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__, str(self.folder),
                 *self._java("kafka.Kafka", str(self._file))],
                stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=self.folder, start_new_session=True,
            )  # fmt: skip
        until = time.monotonic() + _START_SECONDS
        admin = self.admin()
        while True:
            with suppress(Exception):
                if admin.list_topics(timeout=2).brokers:
                    return
            assert self._guard.poll() is None, (self.folder / "broker.log").read_text()[-2000:]
            assert time.monotonic() < until, "the broker does not answer"

    def stop(self, *, at_once: bool = False) -> None:
        """End it; `at_once` is SIGKILL."""
        if self._guard is not None:
            with suppress(BrokenPipeError):
                self._guard.communicate(guard.KILL if at_once else guard.STOP, timeout=guard.PATIENCE + 30)
            self._guard = None

    def discard(self) -> None:
        self.stop(at_once=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def topics(self, *names: str) -> dict[str, int]:
        """How many partitions each of these topics has, which the broker may have just made."""
        admin, until = self.admin(), time.monotonic() + 60
        while True:
            listed = admin.list_topics(timeout=30).topics
            if listed.keys() >= {*names}:
                return {name: len(listed[name].partitions) for name in names}
            assert time.monotonic() < until, f"of {names} there are {[*listed]}"
            time.sleep(0.1)

    def records(self, *topics: str, committed: bool = True) -> list[Record]:
        """All records of topics, by partition and offset: those that are committed, or all."""
        return [*read(self.address, topics, committed=committed)]


class Record:
    """One record, as a consumer has it."""

    def __init__(self, message: Any) -> None:
        self.topic, self.partition, self.offset = message.topic(), message.partition(), message.offset()
        self.key: bytes | None = message.key()
        self.value: bytes | None = message.value()
        self.headers: dict[str, bytes] = dict(message.headers() or [])
        kind, self.timestamp = message.timestamp()
        assert kind == TIMESTAMP_CREATE_TIME


def read(address: str, topics: tuple[str, ...], *, committed: bool) -> Iterator[Record]:
    """Each partition from its beginning to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": address, "group.id": f"reader-{uuid.uuid4()}", "enable.auto.commit": False,
            "isolation.level": "read_committed" if committed else "read_uncommitted", "enable.partition.eof": True,
            "auto.offset.reset": "earliest", "log_level": 0,
        }
    )  # fmt: skip
    try:
        listed = consumer.list_topics(timeout=30).topics
        places = [TopicPartition(t, p, 0) for t in topics for p in (listed[t].partitions if t in listed else ())]
        consumer.assign(places)
        open_ones = {(place.topic, place.partition) for place in places}
        until = time.monotonic() + 120
        while open_ones:
            assert time.monotonic() < until, f"{open_ones} have no end"
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is None:
                yield Record(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                open_ones.discard((message.topic(), message.partition()))
    finally:
        consumer.close()


@contextmanager
def running() -> Iterator[Broker]:
    """A broker that is gone at the end."""
    broker = Broker()
    try:
        broker.start()
        yield broker
    finally:
        broker.discard()
