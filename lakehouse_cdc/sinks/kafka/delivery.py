"""Records to Kafka, in transactions that each end with a record of the ledger. It knows nothing of bronze's rows.

`open` ends and fences what came before, and reads the ledger; `send` and `commit` continue from there. The argument is
in `lakehouse_cdc.sinks.kafka`. With `at_least_once` there are no transactions: the ledger's record is sent when all
before it are acknowledged, so it never says too much, and what it does not say yet is sent again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.lake.failpoints import Door, commit_to
from lakehouse_cdc.messages.change import Message
from lakehouse_cdc.options.measures import seconds
from lakehouse_cdc.sinks.kafka.client import Reasons, as_cdc_error, calling, producer_settings, require_package
from lakehouse_cdc.sinks.kafka.options import KafkaConfig
from lakehouse_cdc.sinks.kafka.progress import Progress
from lakehouse_cdc.sinks.kafka.topics import Topics

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

# topic, key, value, headers as the producer takes them
Record: TypeAlias = "tuple[str, bytes | None, bytes | None, list[tuple[str, str | bytes | None]]]"
_KEY = b"progress"
_BY_KEY = -1  # the partitioner decides: RD_KAFKA_PARTITION_UA
_QUEUE_SECONDS = 0.5  # to wait for room in the producer's queue
_BETWEEN_POLLS = 500  # records


class Delivery:
    """One sink's records. `sink` names it: it is its transactional id, and its own topics begin with it."""

    def __init__(self, sink: str, config: KafkaConfig) -> None:
        require_package()
        self.sink, self._config = sink, config
        self._seconds = seconds(config.timeout)
        self._transactional = config.delivery == "exactly_once"
        self._producer: Producer | None = None
        self._in_transaction = False
        self._failed: tuple[str, KafkaError] | None = None  # topic and error of the first record that was refused

    @property
    def ledger(self) -> str:
        """The ledger's topic."""
        return f"{self.sink}.ledger"

    @property
    def exactly_once(self) -> bool:
        """Whether each record counts once."""
        return self._transactional

    def open(self) -> tuple[Topics, Progress | None]:
        """The topics that there are, and how far the sink has got."""
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        self.close()
        reasons = Reasons(self._config)
        with _settings():
            admin = AdminClient(reasons.settings())
            more = {name: _plain(value) for name, value in producer_settings(self._config, self.sink).items()}
            # nobody asks for the reports of records that were delivered
            producer = Producer({**reasons.settings(), **more, "delivery.report.only.error": True})

        def reason(client: Any = admin) -> KafkaError | None:
            client.poll(0)
            return reasons.last()

        topics = Topics(admin, self._config, self._seconds, reason)
        topics.require_ledger(self.ledger)
        if self._transactional:
            self._until_done("begin the sink's transactions", lambda: producer.init_transactions(self._seconds))
        progress = self._read_ledger(reasons)
        self._producer, self._failed = producer, None
        return topics, progress

    def _read_ledger(self, reasons: Reasons) -> Progress | None:
        """The last record that is committed; after `init_transactions` no other of ours is open."""
        from confluent_kafka import Consumer, TopicPartition

        settings = {
            **reasons.settings(), "group.id": f"{self.sink}.ledger", "enable.auto.commit": False,
            "isolation.level": "read_committed", "enable.partition.eof": True, "auto.offset.reset": "earliest",
        }  # fmt: skip
        consumer, last = Consumer(settings), None
        until = time.monotonic() + self._seconds
        try:
            with calling("read the ledger", reasons.last):
                consumer.assign([TopicPartition(self.ledger, 0, 0)])
                while (message := consumer.poll(0.2)) is None or not _is_end(message):
                    error = None if message is None else message.error()
                    if message is not None and error is None:
                        last = message.value()
                    elif time.monotonic() > until:  # until then a new topic may not be known to all brokers
                        raise _unread(self.ledger, error, reasons.last())
        finally:
            consumer.close()
        return None if last is None else self._progress(last)

    def _progress(self, value: bytes) -> Progress:
        try:
            return Progress.from_json(value)
        except (ValueError, TypeError) as error:
            raise codes.KAFKA_LEDGER_LOST.error(
                f"the ledger has a record that no sink of this kind writes: {error}", where=self.ledger
            ) from error

    def send(self, topic: str, message: Message, *, partition: int | None = None) -> None:
        """Hand a record to the producer; it begins a transaction where none is open.

        Without a key the record goes to the given partition, or the first: what has no key is in one order, too.
        """
        self.send_all([(topic, message.key, message.value, [*message.headers])], partition=partition)

    def send_all(self, records: Iterable[Record], *, partition: int | None = None) -> None:
        """The same for many records, in order."""
        from confluent_kafka import KafkaException

        if self._transactional and not self._in_transaction:
            with calling("begin a transaction"):
                self._opened.begin_transaction()
            self._in_transaction = True
        produce, delivered = self._opened.produce, self._delivered
        by_key, without = (_BY_KEY, 0) if partition is None else (partition, partition)
        for number, record in enumerate(records, 1):
            topic, key, value, headers = record
            place = without if key is None else by_key
            try:
                produce(topic, value=value, key=key, headers=headers, partition=place, on_delivery=delivered)
            except (BufferError, KafkaException):
                self._send_patiently(record, place)
            if not number % _BETWEEN_POLLS:
                self._serve()
        self._serve()

    def _serve(self) -> None:
        with calling("send records"):
            self._opened.poll(0)

    def _send_patiently(self, record: Record, place: int) -> None:
        """Hand over a record that the producer did not take at once. Raises what keeps it from taking it."""
        topic, key, value, _ = record
        with calling(f"send a record of {len(key or b'') + len(value or b'')} bytes to {topic}"):
            while True:
                try:
                    self._produce(record, place)
                    break
                except BufferError:  # its queue is full
                    self._opened.poll(_QUEUE_SECONDS)
                    self._require_delivered()

    def _produce(self, record: Record, place: int) -> None:
        from confluent_kafka import KafkaException

        topic, key, value, headers = record
        try:
            self._opened.produce(
                topic, value=value, key=key, headers=headers, partition=place, on_delivery=self._delivered
            )
        except KafkaException as error:
            if error.args[0].name() == "_FATAL":
                self._opened.poll(0)  # raises what it was, as that another producer has taken its place
            raise

    def commit(self, progress: Progress) -> None:
        """Make what was sent, and how far that is, durable. Raises what keeps it from being so."""
        if not self._transactional:
            self._flush()
        self.send(self.ledger, Message(_KEY, progress.to_json()), partition=0)
        with commit_to(Door.RECORDS, self.sink):
            if not self._transactional:
                self._flush()
                return
            self._until_done("commit a transaction", lambda: self._opened.commit_transaction(self._seconds))
            self._in_transaction = False

    def close(self) -> None:
        """Give the producer up; an open transaction is aborted, as far as the brokers can be reached."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        with suppress(Exception):  # whatever it is, `open` makes up for it
            producer.purge()
            if self._in_transaction:
                producer.abort_transaction(min(self._seconds, 10))
        self._in_transaction = False

    @property
    def _opened(self) -> Producer:
        assert self._producer is not None, "open it first"
        return self._producer

    def _flush(self) -> None:
        left = self._opened.flush(self._seconds)
        self._require_delivered()
        if left:
            raise codes.KAFKA_UNAVAILABLE.error(
                f"{left} records were not acknowledged within {self._config.timeout}", where=self.sink
            )

    def _until_done(self, doing: str, call: Callable[[], None]) -> None:
        """The call, again while its error says that this may help, for as long as the brokers may take."""
        until = time.monotonic() + self._seconds
        while (error := _attempt(call)) is not None:
            self._require_delivered()
            if not error.retriable() or time.monotonic() > until:
                raise as_cdc_error(error, doing)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        from confluent_kafka import KafkaError as Errors

        if error is not None and self._failed is None and error.code() != Errors._PURGE_QUEUE:
            self._failed = (message.topic(), error)

    def _require_delivered(self) -> None:
        if self._failed is not None:
            topic, error = self._failed
            raise as_cdc_error(error, f"send a record to {topic}")


def _attempt(call: Callable[[], None]) -> KafkaError | None:
    """What the call fails for; None where it does not."""
    from confluent_kafka import KafkaException

    try:
        call()
    except KafkaException as error:
        failure: KafkaError = error.args[0]
        return failure
    return None


def _is_end(message: Any) -> bool:
    from confluent_kafka import KafkaError as Errors

    error = message.error()
    return error is not None and bool(error.code() == Errors._PARTITION_EOF)


def _unread(ledger: str, error: KafkaError | None, reason: KafkaError | None) -> CdcError:
    """Why the ledger has not been read to its end in time."""
    if (known := error or reason) is not None:
        return as_cdc_error(known, f"read the ledger {ledger}")
    return codes.KAFKA_UNAVAILABLE.error("cannot read the ledger: no answer", where=ledger)


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


@contextmanager
def _settings() -> Iterator[None]:
    """Around the making of clients: a setting that librdkafka refuses is the configuration's fault."""
    with calling("make the client"):
        try:
            yield
        except (ValueError, TypeError) as error:
            raise codes.KAFKA_SETTING_REFUSED.error(f"cannot make the client: {error}") from error
