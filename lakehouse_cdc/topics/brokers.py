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
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

_EVENTS_SECONDS = 1.0


@contextmanager
def _admin(config: Topics, doing: str) -> Iterator[AdminClient]:
    """A client, within whose block its errors are ours."""
    require_package("a source of topics")
    from confluent_kafka.admin import AdminClient

    reasons = Reasons(config)
    try:
        admin = AdminClient(reasons.settings())
    except (ValueError, TypeError) as error:
        raise codes.KAFKA_SETTING_REFUSED.error(f"cannot make the client: {error}") from error

    def last() -> KafkaError | None:
        admin.poll(_EVENTS_SECONDS)  # which hands over what its connections have said
        return reasons.last()

    with calling(doing, last):
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


def unread(config: Topics, read: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """How many offsets of each topic come after those that were read: by topic and partition the next one to read.

    Raises as `partitions_of` does.
    """
    left = dict.fromkeys(config.topics, 0)
    for (topic, partition), (begin, end) in _extents(config).items():
        left[topic] += end - max(read.get(topic, {}).get(str(partition), 0), begin)
    return left


def require_records(config: Topics, read: Mapping[str, Mapping[str, int]]) -> None:
    """Raise as `partitions_of` does, and DefiniteError where messages that come after those that were read are gone.

    Spark finds that, too, in a task, from which its reason does not reach the driver. `read` is as of `unread`.
    """
    for (topic, partition), (begin, end) in _extents(config).items():
        following = read.get(topic, {}).get(str(partition), begin)
        if not begin <= following <= end:
            raise codes.TOPIC_RECORDS_LOST.error(
                f"offset {following:,} follows what was read, and the brokers have {begin:,} up to {end:,}",
                where=f"{topic}, partition {partition}",
            )


def _extents(config: Topics) -> dict[tuple[str, int], tuple[int, int]]:
    """The first offset of each partition, and the one after its last."""
    from confluent_kafka import TopicPartition, admin

    spec: Any = admin  # its package says no types
    from_topics = partitions_of(config).items()
    places = [TopicPartition(topic, n) for topic, partitions in from_topics for n in range(partitions)]
    with _admin(config, "ask the brokers for the ends of topics") as client:
        ends = _offsets(client.list_offsets({place: spec.OffsetSpec.latest() for place in places}), config)
        begins = _offsets(client.list_offsets({place: spec.OffsetSpec.earliest() for place in places}), config)
    return {place: (begins[place], end) for place, end in ends.items()}


def _offsets(asked: Mapping[Any, Any], config: Topics) -> dict[tuple[str, int], int]:
    patience = seconds(config.timeout)
    return {(one.topic, one.partition): answer.result(patience).offset for one, answer in asked.items()}
