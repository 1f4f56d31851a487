"""How brokers of Kafka are reached, and, as a source, what is read from them: `kafka` below `source`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from lakehouse_cdc.messages.formats import ReadFormat
from lakehouse_cdc.options.declaration import NEVER, NEXT_RUN, Keys, option
from lakehouse_cdc.options.kinds import Choice, Integer, JsonSchema, SecretReference, Text
from lakehouse_cdc.options.measures import Bytes, Duration
from lakehouse_cdc.options.nested import ListOf
from lakehouse_cdc.options.secrets import Secret

Protocol = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
TopicsOrder = Literal["position", "arrival"]
TopicsStart = Literal["earliest", "latest"]
_AVRO = "debezium-avro"


@dataclass(frozen=True, kw_only=True)
class Brokers(Keys):
    """Where brokers are, and how they and we are trusted."""

    bootstrap_servers: str = option(Text(r"[^\s]+", "HOST:PORT, with commas between"), "the brokers", changes=NEXT_RUN)
    timeout: str = option(
        Duration(), "how long the brokers may take to answer before it is an error", default="1m", changes=NEXT_RUN
    )
    security: Protocol = option(
        Choice[Protocol](get_args(Protocol)), "`security.protocol`", default="plaintext", changes=NEXT_RUN
    )
    mechanism: str | None = option(
        Text(), "SASL mechanism, such as `SCRAM-SHA-512`", default=None, otherwise="none", changes=NEXT_RUN
    )
    username: str | None = option(Text(), "user of SASL", default=None, otherwise="none", changes=NEXT_RUN)
    password: Secret = option(
        SecretReference(), "its password, by reference", default=Secret(), otherwise="none", changes=NEXT_RUN
    )
    ca: str | None = option(
        Text(), "file of the authorities that TLS trusts", default=None, otherwise="the system's", changes=NEXT_RUN
    )
    certificate: str | None = option(
        Text(), "file of the client's certificate", default=None, otherwise="none", changes=NEXT_RUN
    )
    key: str | None = option(Text(), "file of its private key", default=None, otherwise="none", changes=NEXT_RUN)
    key_password: Secret = option(
        SecretReference(), "the key's password, by reference", default=Secret(), otherwise="none", changes=NEXT_RUN
    )


@dataclass(frozen=True, kw_only=True)
class WithRegistry(Brokers):
    """Brokers, and for messages in Avro a registry of their schemas."""

    registry: str | None = option(
        Text(r"https?://[^\s@,]+", "http(s)://HOST:PORT"),
        "with `debezium-avro`: the schema registry, one that answers as Confluent's does",
        default=None, otherwise="none", changes=NEXT_RUN,
    )  # fmt: skip
    registry_username: str | None = option(
        Text(), "user of the registry", default=None, otherwise="none", changes=NEXT_RUN
    )
    registry_password: Secret = option(
        SecretReference(), "its password, by reference", default=Secret(), otherwise="none", changes=NEXT_RUN
    )
    registry_ca: str | None = option(
        Text(), "file of the authorities that the registry's certificate is checked by",
        default=None, otherwise="the system's", changes=NEXT_RUN,
    )  # fmt: skip

    json_rules: ClassVar[tuple[JsonSchema, ...]] = (
        {
            "anyOf": [
                {"properties": {"format": {"not": {"const": _AVRO}}}},
                {"properties": {"registry": {"type": "string"}}, "required": ["registry"]},
            ]
        },
    )

    def lacks_registry(self, format: str) -> str:
        """What is wrong where messages are of that format; "" if nothing is."""
        return "the format debezium-avro needs a registry" if format == _AVRO and self.registry is None else ""


@dataclass(frozen=True, kw_only=True)
class Topics(WithRegistry):
    """`kafka` below `source`: topics that other programs write the changes of MySQL's tables to."""

    topics: tuple[str, ...] = option(
        ListOf(Text(r"[A-Za-z0-9._-]{1,249}", "the name of a topic"), least=1, distinct=True),
        "the topics, by their names", changes=NEXT_RUN,
    )  # fmt: skip
    format: ReadFormat = option(
        Choice[ReadFormat](get_args(ReadFormat)), "how their messages are written", changes=NEXT_RUN
    )
    order: TopicsOrder | None = option(
        Choice[TopicsOrder](get_args(TopicsOrder)),
        "what orders the changes of a key: `position`, the place in the source's log that each message says, by which"
        " repeats are recognised; or `arrival`, the offsets of its partition",
        default=None, otherwise="`position`; `arrival` with `canal-json`, which says no place", changes=NEVER,
    )  # fmt: skip
    starting: TopicsStart = option(
        Choice[TopicsStart](get_args(TopicsStart)),
        "where a new checkpoint begins in a topic: with the first message that the brokers have, or with the next one",
        default="earliest", changes=NEVER,
    )  # fmt: skip
    max_message_bytes: int = option(
        Bytes(), "a message that is larger, key and value together, is set aside",
        default=16 << 20, changes=NEXT_RUN,
    )  # fmt: skip
    max_messages_per_batch: int | None = option(
        Integer("messages"),
        "messages in one micro-batch, about, over all partitions. Where a schema changes, a limit sets more aside: see"
        " [Read from Kafka](../guides/read-from-kafka.md#schema-changes)",
        default=None, otherwise="no limit", changes=NEXT_RUN,
    )  # fmt: skip

    json_rules: ClassVar[tuple[JsonSchema, ...]] = (
        *WithRegistry.json_rules,
        {
            "anyOf": [
                {"properties": {"order": {"not": {"const": "position"}}}},
                {"properties": {"format": {"not": {"const": "canal-json"}}}},
            ]
        },
    )

    def contradiction(self) -> str:
        if self.order == "position" and self.format == "canal-json":
            return "canal-json says no place in the log, so order cannot be position"
        return self.lacks_registry(self.format)

    @property
    def ordered_by(self) -> TopicsOrder:
        """The order, where nothing is given, too."""
        return self.order or ("arrival" if self.format == "canal-json" else "position")
