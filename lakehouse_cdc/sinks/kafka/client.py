"""librdkafka's clients as the sink sets them, and their errors as ours: the one place that reads them.

A client reports why it cannot connect (a wrong password, a certificate) by an event, and the call that waits for it by
a time-out. So the reasons are kept, and the last of them decides what an error is (`Reasons`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.errors import CdcError, Code, codes
from lakehouse_cdc.options.kafka import Brokers
from lakehouse_cdc.options.measures import seconds
from lakehouse_cdc.runtime.extras import installing
from lakehouse_cdc.sinks.kafka.options import KafkaConfig

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

Reason = Callable[[], "KafkaError | None"]
_log = logging.getLogger(__name__)
_FENCED = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
_REFUSED = (
    "_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED", "TOPIC_AUTHORIZATION_FAILED", "UNSUPPORTED_SASL_MECHANISM",
    "CLUSTER_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED",
)  # fmt: skip
_TOO_LARGE = ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE")
_TOPIC = (
    "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "TOPIC_EXCEPTION", "INVALID_PARTITIONS",
    "INVALID_REPLICATION_FACTOR", "POLICY_VIOLATION", "INVALID_CONFIG", "INVALID_RECORD",
)  # fmt: skip
_SETTING = ("_INVALID_ARG", "INVALID_TRANSACTION_TIMEOUT", "_NOT_IMPLEMENTED", "_UNSUPPORTED_FEATURE")


def require_package(who: str = "a sink of Kafka") -> None:
    """Raises ConfigError where confluent-kafka is not installed, which `who` needs."""
    try:
        import confluent_kafka  # noqa: F401
    except ImportError as error:
        raise codes.PACKAGE_MISSING.error(f"{who} needs confluent-kafka", hint=installing("kafka")) from error


class Reasons:
    """What a client has said of its connections since it was asked last; and the clients' common settings."""

    def __init__(self, config: Brokers) -> None:
        self._config = config
        self._last: KafkaError | None = None

    def _note(self, error: KafkaError) -> None:
        if self._last is None or code_of(self._last) is not codes.KAFKA_ACCESS_REFUSED:
            self._last = error

    def last(self) -> KafkaError | None:
        """The one that says most."""
        return self._last

    def settings(self) -> dict[str, Any]:
        """Where the brokers are and how they are trusted, with secrets as they are: not to be shown."""
        config = self._config
        given = {
            "sasl.mechanism": config.mechanism,
            "sasl.username": config.username,
            "sasl.password": config.password.reveal(),
            "ssl.ca.location": config.ca,
            "ssl.certificate.location": config.certificate,
            "ssl.key.location": config.key,
            "ssl.key.password": config.key_password.reveal(),
        }
        return {
            "bootstrap.servers": config.bootstrap_servers,
            "security.protocol": config.security,
            "error_cb": self._note,
            "logger": _log,
            **{name: value for name, value in given.items() if value},
        }


def producer_settings(config: KafkaConfig, transactional_id: str) -> dict[str, Any]:
    """Those of the producer. Each of them is a part of the argument in `lakehouse_cdc.sinks.kafka`."""
    exactly_once = {
        "transactional.id": transactional_id,
        "transaction.timeout.ms": round(seconds(config.transaction_timeout) * 1000),
    }
    return {
        "linger.ms": 20,
        **config.producer,
        "acks": "all",
        "enable.idempotence": True,
        "partitioner": "murmur2_random",  # as the Java client's
        **(exactly_once if config.delivery == "exactly_once" else {}),
    }


def code_of(error: KafkaError) -> Code[CdcError]:
    """Which of ours it is."""
    name = error.name()
    if name in _FENCED:
        return codes.KAFKA_FENCED
    if name in _REFUSED:
        return codes.KAFKA_ACCESS_REFUSED
    if name in _TOO_LARGE:
        return codes.KAFKA_RECORD_TOO_LARGE
    if name in _TOPIC:
        return codes.KAFKA_TOPIC_UNUSABLE
    return codes.KAFKA_SETTING_REFUSED if name in _SETTING else codes.KAFKA_UNAVAILABLE


def as_cdc_error(error: KafkaError, doing: str, reason: KafkaError | None = None) -> CdcError:
    """The error of ours; `reason` is what the client said of its connections."""
    code, what = code_of(error), f"cannot {doing}: {error.str()}"
    if code is codes.KAFKA_UNAVAILABLE and reason is not None:
        code, what = code_of(reason), f"{what}; {reason.str()}"
    return code.error(what)


@contextmanager
def calling(doing: str, reason: Reason = lambda: None) -> Iterator[None]:
    """Whatever a client raises inside is an error of ours."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise as_cdc_error(error.args[0], doing, reason()) from error
