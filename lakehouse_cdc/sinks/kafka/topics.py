"""The names of topics, and how those that are missing are made.

A topic has letters of ASCII, digits, `.`, `_` and `-`, 249 at most (Kafka's class `Topic`). Any other character of a
name, and each dot in one, is written as `_x0020_`, its number in hex, and an underscore that would be read as the
beginning of such a word as `_x005f_`: so two names never have the same text. Two tables may still share a topic where
the pattern lets them; that is refused, since their keys would take each other's place in a compacted topic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.failpoints import Door, commit_to
from lakehouse_cdc.model.table_name import split
from lakehouse_cdc.sinks.kafka.client import Reason, calling
from lakehouse_cdc.sinks.kafka.options import KafkaConfig

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_TO_ESCAPE = re.compile(r"_(?=x[0-9a-f]{4,6}_)|[^A-Za-z0-9_-]")
_USABLE = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_BROKERS = -1  # as the brokers are configured


def topic_name(pattern: str, table: str) -> str:
    """The topic of `database.table`. Raises DefiniteError for a name that no topic can have."""
    parts = {"database": split(table)[0], "table": split(table)[1]}
    escaped = {name: _TO_ESCAPE.sub(lambda found: f"_x{ord(found[0]):04x}_", part) for name, part in parts.items()}
    topic = pattern.replace("{database}", escaped["database"]).replace("{table}", escaped["table"])
    if _USABLE.fullmatch(topic) is None:
        raise codes.KAFKA_TOPIC_UNUSABLE.error(
            f"the topic of {table} would be {topic}, which no topic can be called",
            where=table,
            hint="choose another topic for the sink: at most 249 letters, digits, dots, _ and -",
        )
    return topic


class TopicNames:
    """The topic of each table. `tables` are those that there are."""

    def __init__(self, pattern: str, tables: set[str]) -> None:
        self._pattern = pattern
        self._names: dict[str, str] = {}
        self._tables: dict[str, str] = {}
        for table in sorted(tables):
            self.of(table)

    def of(self, table: str) -> str:
        """Raises DefiniteError where another table has that topic."""
        if table not in self._names:
            topic = topic_name(self._pattern, table)
            other = self._tables.setdefault(topic, table)
            if other != table:
                raise codes.KAFKA_TOPIC_UNUSABLE.error(
                    f"{other} and {table} would share the topic {topic}",
                    where=topic,
                    hint="put {database} and {table} into the sink's topic, with a dot between",
                )
            self._names[table] = topic
        return self._names[table]


class Topics:
    """The topics that there are. One that is missing is made, where the configuration allows it."""

    def __init__(self, admin: AdminClient, config: KafkaConfig, seconds: float, reason: Reason) -> None:
        self._admin, self._config, self._seconds, self._reason = admin, config, seconds, reason
        with calling("list the topics", reason):
            self._known = set(admin.list_topics(timeout=seconds).topics)

    def require_rows(self, topic: str, *, keyed: bool) -> None:
        """The topic of a table; one without keys cannot be compacted."""
        settings: dict[str, str] = {"cleanup.policy": self._config.cleanup_policy if keyed else "delete"}
        settings |= {name: _text(value) for name, value in self._config.topic_settings.items()}
        self._require(topic, self._config.partitions or _BROKERS, settings)

    def require_ddl(self, topic: str) -> None:
        """The topic of schema changes, which are in one order."""
        self._require(topic, 1, {"cleanup.policy": "delete"})

    def require_ledger(self, topic: str) -> None:
        """Of the ledger the last record alone counts."""
        self._require(topic, 1, {"cleanup.policy": "compact", "segment.ms": "3600000"})

    def _require(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        if topic in self._known:
            return
        if not self._config.create_topics:
            raise codes.KAFKA_TOPIC_UNUSABLE.error(
                f"there is no topic {topic}", where=topic, hint="create it, or set create_topics: true of the sink"
            )
        self._create(topic, partitions, settings)
        self._known.add(topic)

    def _create(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.cimpl import NewTopic

        config = dict(settings)
        if self._config.min_insync_replicas is not None:
            config["min.insync.replicas"] = str(self._config.min_insync_replicas)
        new = NewTopic(topic, partitions, self._config.replication or _BROKERS, config=config)
        with calling(f"create the topic {topic}", self._reason), commit_to(Door.TOPIC, topic):
            [made] = self._admin.create_topics([new], operation_timeout=self._seconds).values()
            try:
                made.result(self._seconds)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise


def _text(value: bool | int | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
