"""A pipeline whose source is topics of Kafka: what takes the place of all that asks a server.

Bronze, silver, and whatever reads these, are the same. How the checkpoint and bronze belong together is decided as for
a server (`model.belonging`), but for two cases, which need nothing done: a planned batch is repeated as it is, whatever
the configuration says by now, for its rows depend on that; and a new checkpoint over a change table reads the topics
from their beginning, where what bronze has is repeats (or, by arrival, comes once more, in a new epoch).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.sessions import is_remote
from lakehouse_cdc.model.bronze_row import PARTITION
from lakehouse_cdc.mysql.preflight.settings import Finding
from lakehouse_cdc.ops.status import Status, TableStatus
from lakehouse_cdc.options.kafka import Topics
from lakehouse_cdc.pipeline.config.source_options import declarations
from lakehouse_cdc.pipeline.context import PipelineContext
from lakehouse_cdc.topics import brokers

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from lakehouse_cdc.bronze.sink import BronzeBatch, Ready
    from lakehouse_cdc.lake.readers.port import TableReader
    from lakehouse_cdc.topics.letters import Letter, Selection
    from lakehouse_cdc.topics.retry import Retried

_OTHER_RUN = "let the run end, or end it (Ctrl-C)"
_NO_LETTERS = "letters are of a pipeline whose source is topics"


def of_server(config: Topics | None, what: str) -> None:
    """Raise ConfigError for something that only a server can do, where the source is topics."""
    if config is not None:
        raise codes.NOT_OF_TOPICS.error(f"{what} asks the source's server, and the source is topics")


class FromTopics:
    """The part of a pipeline that is about its topics."""

    def __init__(self, context: PipelineContext, config: Topics) -> None:
        self._context, self._topics = context, config

    def doctor(self) -> list[Finding]:
        """Whether the brokers answer, and each topic is there. Raises only if they do not answer."""
        declarations(self._context.config)
        findings = [Finding("brokers", "ok", f"{self._topics.bootstrap_servers} answer")]
        for topic, partitions in brokers.partitions_of(self._topics).items():
            if partitions:
                findings.append(Finding(topic, "ok", f"partitions: {partitions}"))
            else:
                hint = "correct source.kafka.topics, or create it"
                findings.append(Finding(topic, "error", "there is no such topic", hint, codes.TOPIC_MISSING))
        return findings

    def require_topics(self) -> list[str]:
        """Raise what keeps the topics from being read; no notices."""
        declarations(self._context.config)
        brokers.require_topics(self._topics)
        if read := self._read:
            brokers.require_records(self._topics, read)
        return []

    @property
    def _read(self) -> dict[str, dict[str, int]]:
        """By topic and partition the next offset to be read, as far as bronze has batches."""
        place = Checkpoint(self._context.checkpoint("bronze"))
        batch = place.last_commit()
        return {} if batch is None else place.offset(batch)

    def settle(self) -> list[str]:
        """Do the checkpoint, bronze and silver belong together? What was done, in words. Raises DefiniteError."""
        from lakehouse_cdc.pipeline.start.settling import settle_topics

        if is_remote(self._context.spark):
            raise codes.REMOTE_SESSION_UNSUPPORTED.error(
                "a stream from topics has Spark in this process, and a session of Spark Connect has not",
                where="source.kafka",
            )
        return settle_topics(self._context.spark, self._context.layout, self._context.folders)

    def stream(
        self, every_seconds: float | None, ready: Ready, on_batch: Callable[[BronzeBatch], None]
    ) -> StreamingQuery:
        """Start the stream into bronze."""
        from lakehouse_cdc.topics import stream

        context = self._context
        return stream.start(
            context.spark, self._topics, declarations(context.config), context.layout, context.checkpoint("bronze"),
            home=context.home, every_seconds=every_seconds, ready=ready, on_batch=on_batch,
        )  # fmt: skip

    def point(self) -> dict[str, Any] | None:
        """Where bronze is, as a run's report has it; None before its first batch."""
        status = self._bronze(self._context.reader())
        at = status.bronze
        return None if at is None else {"server_uuid": at.server_uuid, "file": at.file, "pos": at.pos, "gtid": at.gtid}

    def _bronze(self, reader: TableReader) -> Status:
        layout = self._context.layout
        status = Status(layout.pipeline, of_topics=True)
        if reader.exists(layout.changes):
            for commit in reader.commits(layout.changes):
                if commit.note is not None:
                    return replace(status, bronze=commit.note.source_point)
        return status

    def status(self) -> Status:
        """Where bronze and silver are, what they hold, how far the topics are ahead, and what was set aside."""
        from lakehouse_cdc.ops.status import with_silver
        from lakehouse_cdc.silver.tables.progress import applied

        context, reader = self._context, self._context.reader()
        layout, status = context.layout, self._bronze(reader)
        if status.bronze is None:
            return replace(status, unread=self._unread())
        counts = reader.counts(layout.changes, PARTITION)
        schemas = [row[PARTITION] for row in reader.rows(layout.schemas, [PARTITION])]
        tables = {name: TableStatus("done", [], n - schemas.count(name), None) for name, n in sorted(counts.items())}
        if layout.silver is not None:
            tables = with_silver(reader, layout, tables, context.config.policy)
            silver = applied(reader, layout, context.checkpoint("silver"))
            status = replace(status, silver=None if silver is None else silver.source_point)
        return replace(status, tables=tables, unread=self._unread(), dead_letters=self._counts(reader))

    def _counts(self, reader: TableReader) -> dict[str, int]:
        table = self._context.layout.dead_letters
        return dict(sorted(reader.counts(table, "reason").items())) if reader.exists(table) else {}

    def _unread(self) -> dict[str, int] | None:
        """Messages of each topic that bronze has not got, about; None where the brokers do not answer."""
        try:
            return brokers.unread(self._topics, self._read)
        except CdcError:
            return None


@dataclass(frozen=True)
class DeadLetters:
    """The letters of a pipeline, to be looked at, tried once more, or dropped."""

    context: PipelineContext

    def _topics(self) -> Topics:
        config = self.context.config.source.kafka
        if config is None:
            raise codes.NOT_OF_TOPICS.error(_NO_LETTERS, hint="source.kafka says which topics are read")
        return config

    def counts(self, selection: Selection) -> dict[str, int]:
        """How many there are, by reason."""
        from lakehouse_cdc.topics import letters

        self._topics()
        with self.context.failures():
            return letters.counts(self.context.spark, self.context.layout, selection)

    def listed(self, selection: Selection, most: int) -> list[Letter]:
        """The first ones."""
        from lakehouse_cdc.topics import letters

        self._topics()
        with self.context.failures():
            return letters.listed(self.context.spark, self.context.layout, selection, most)

    def retry(self, selection: Selection, *, accepted: bool = False) -> Retried:
        """Try them once more. Raises DefiniteError while another process writes to local tables."""
        from lakehouse_cdc.lake.tables import exists
        from lakehouse_cdc.topics.retry import Retried, retry
        from lakehouse_cdc.topics.stream import parsing_of

        config, context = self._topics(), self.context
        with context.failures(), context.writing(_OTHER_RUN):
            spark, layout = context.spark, context.layout
            if not exists(spark, layout.dead_letters):
                return Retried(0, 0)
            parsing = parsing_of(config, declarations(context.config))
            return retry(spark, layout, parsing, selection, accepted=accepted)

    def drop(self, selection: Selection) -> int:
        """Delete them; how many there were."""
        from lakehouse_cdc.topics import letters

        self._topics()
        context = self.context
        with context.failures(), context.writing(_OTHER_RUN):
            n = sum(letters.counts(context.spark, context.layout, selection).values())
            if n:
                letters.drop(context.spark, context.layout, selection.sql)
        return n
