"""What `sinks.<name>.kafka` says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from lakehouse_cdc.messages.formats import FormatName
from lakehouse_cdc.options.declaration import NEVER, NEXT_RUN, Keys, Section, option
from lakehouse_cdc.options.kafka import WithRegistry
from lakehouse_cdc.options.kinds import Choice, Flag, Integer, PropertyValue, Text
from lakehouse_cdc.options.measures import Duration
from lakehouse_cdc.options.nested import MapOf

Delivery = Literal["exactly_once", "at_least_once"]
CleanupPolicy = Literal["delete", "compact", "compact,delete"]
# what the sink's exactness, or the secrecy of its secrets, is made of
_OWN_PRODUCER = (
    "bootstrap.servers", "transactional.id", "transaction.timeout.ms", "enable.idempotence", "acks", "request.required",
    "partitioner", "max.in.flight", "retries", "message.send.max.retries", "sasl.", "ssl.", "security.", "group.",
    "isolation.level", "enable.",
)  # fmt: skip
_OWN_TOPIC = ("cleanup.policy", "min.insync.replicas")


@dataclass(frozen=True, kw_only=True)
class KafkaConfig(WithRegistry):
    """`sinks.<name>.kafka`: bronze's changes as messages."""

    topic: str = option(
        Text(r"[\s\S]*\{table\}[\s\S]*", "a name that contains {table}"),
        "topic of a table, made from `{database}` and `{table}`; two tables cannot share one. A character that a topic"
        " cannot have is written as `_x0020_`",
        default="{database}.{table}", changes=NEVER,
    )  # fmt: skip
    ddl_topic: str | None = option(
        Text(), "topic of schema changes and truncations, of one partition",
        default=None, otherwise="`<pipeline>.<name>.ddl`", changes=NEXT_RUN,
    )  # fmt: skip
    format: FormatName = option(
        Choice[FormatName](get_args(FormatName)), "how a change is written", default="debezium-json", changes=NEXT_RUN
    )
    schemas: bool = option(
        Flag(), "with `debezium-json`: key and value have their schemas", default=False, changes=NEXT_RUN
    )
    exact: bool = option(
        Flag(),
        "no value is lost or read as another one: see [Messages](../guides/send-to-kafka.md#values)",
        default=False, changes=NEXT_RUN,
    )  # fmt: skip
    tombstones: bool = option(
        Flag(), "a deletion is followed by a message without a value, which compaction needs",
        default=True, changes=NEXT_RUN,
    )  # fmt: skip
    delivery: Delivery = option(
        Choice[Delivery](get_args(Delivery)),
        "`exactly_once`: by transactions, for consumers with `read_committed`; `at_least_once`: a crash repeats"
        " messages, which the header `seq` shows",
        default="exactly_once", changes=NEXT_RUN,
    )  # fmt: skip
    transaction_rows: int = option(
        Integer("rows"),
        "rows of a Kafka transaction, about: one ends where one of the source does",
        default=100_000, changes=NEXT_RUN,
    )  # fmt: skip
    transaction_timeout: str = option(
        Duration(),
        "after this the brokers abort a transaction that is still open; at most their `transaction.max.timeout.ms`."
        " It is how long consumers wait for a sink that has died and does not come back",
        default="5m", changes=NEXT_RUN,
    )  # fmt: skip
    create_topics: bool = option(Flag(), "topics that are missing are created", default=True, changes=NEXT_RUN)
    partitions: int | None = option(
        Integer("partitions"), "partitions of a topic that is created",
        default=None, otherwise="the brokers' `num.partitions`", changes=NEXT_RUN,
    )  # fmt: skip
    replication: int | None = option(
        Integer("replicas"), "replication factor of a topic that is created, the ledger among them",
        default=None, otherwise="the brokers' `default.replication.factor`", changes=NEXT_RUN,
    )  # fmt: skip
    min_insync_replicas: int | None = option(
        Integer("replicas"), "`min.insync.replicas` of a topic that is created",
        default=None, otherwise="the brokers'", changes=NEXT_RUN,
    )  # fmt: skip
    cleanup_policy: CleanupPolicy = option(
        Choice[CleanupPolicy](get_args(CleanupPolicy)),
        "`cleanup.policy` of a topic that is created; of a table without a key it is always `delete`",
        default="delete", changes=NEXT_RUN,
    )  # fmt: skip
    topic_settings: dict[str, bool | int | str] = option(
        MapOf(PropertyValue(), names="setting", reserved=_OWN_TOPIC),
        "other settings of a topic that is created, such as `retention.ms`", default={}, changes=NEXT_RUN,
    )  # fmt: skip
    producer: dict[str, bool | int | str] = option(
        MapOf(PropertyValue(), names="setting", reserved=_OWN_PRODUCER),
        "other settings of the producer, by librdkafka's names, such as `compression.type`",
        default={}, changes=NEXT_RUN,
    )  # fmt: skip

    def contradiction(self) -> str:
        return self.lacks_registry(self.format)


@dataclass(frozen=True, kw_only=True)
class SinkConfig(Keys):
    """`sinks.<name>`: one sink."""

    kafka: KafkaConfig = option(Section(KafkaConfig), "topics of Kafka", changes=NEXT_RUN)
