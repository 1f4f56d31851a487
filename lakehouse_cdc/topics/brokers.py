"""What the brokers say of the topics of a source, before Spark asks them, and how far they are ahead of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.options.kafka import Topics
from lakehouse_cdc.options.measures import seconds
from lakehouse_cdc.sinks.kafka.client import Reasons, calling, require_package

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


@contextmanager
def _admin(config: Topics, doing: str) -> Iterator[AdminClient]:
    """A client, within whose block its errors are ours."""
    require_package("a source of topics")
    from confluent_kafka.admin import AdminClient

    reasons = Reasons(config)
    with calling(doing, reasons.last):
        try:
            admin = AdminClient(reasons.settings())
        except (ValueError, TypeError) as error:
            raise codes.KAFKA_SETTING_REFUSED.error(f"cannot make the client: {error}") from error
        yield admin


def partitions_of(config: Topics) -> dict[str, int]:
    """How many partitions each topic has; 0 of one that is not there.

    Raises TransientError where the brokers do not answer, DefiniteError where they refuse the user.
    """
    with _admin(config, "ask the brokers for their topics") as admin:
        there = admin.list_topics(timeout=seconds(config.timeout)).topics
    return {topic: len(there[topic].partitions) if topic in there else 0 for topic in config.topics}


def require_topics(config: Topics) -> None:
    """Raise as `partitions_of` does, and DefiniteError for a topic that is not there."""
    missing = [topic for topic, partitions in partitions_of(config).items() if not partitions]
    if missing:
        raise codes.TOPIC_MISSING.error(f"there is no topic {', '.join(missing)}", where="source.kafka.topics")


def behind(config: Topics, read: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """How many offsets of each topic come after those that were read: by topic and partition the next one to read.

    Raises as `partitions_of` does.
    """
    from_topics = partitions_of(config)
    from confluent_kafka import TopicPartition, admin

    spec: Any = admin  # its package says no types
    places = [TopicPartition(topic, n) for topic, partitions in from_topics.items() for n in range(partitions)]
    with _admin(config, "ask the brokers for the ends of topics") as client:
        ends = _offsets(client.list_offsets({place: spec.OffsetSpec.latest() for place in places}), config)
        begins = _offsets(client.list_offsets({place: spec.OffsetSpec.earliest() for place in places}), config)
    left = dict.fromkeys(from_topics, 0)
    for (topic, partition), end in ends.items():
        left[topic] += end - max(read.get(topic, {}).get(str(partition), 0), begins[topic, partition])
    return left


def _offsets(asked: Mapping[Any, Any], config: Topics) -> dict[tuple[str, int], int]:
    patience = seconds(config.timeout)
    return {(one.topic, one.partition): answer.result(patience).offset for one, answer in asked.items()}
