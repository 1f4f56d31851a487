"""The sink: batches of bronze as messages, each change once (see `lakehouse_cdc.sinks.kafka`)."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from importlib.metadata import version
from typing import Any

from pyspark.sql import SparkSession

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.engines.choice import engine_of
from lakehouse_cdc.lake.tables import table_id
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.messages.change import Message, RowChange, Settings, Writer
from lakehouse_cdc.messages.formats import FORMATS, NOTHING, around
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.model.table_name import split
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.sinks.kafka.avro_encoder import Encoders
from lakehouse_cdc.sinks.kafka.bronze_rows import Records, Row, rows_by_files, rows_by_keys
from lakehouse_cdc.sinks.kafka.delivery import Delivery, Record
from lakehouse_cdc.sinks.kafka.options import KafkaConfig
from lakehouse_cdc.sinks.kafka.progress import Part, Progress, is_lost, parts
from lakehouse_cdc.sinks.kafka.registry import Registry
from lakehouse_cdc.sinks.kafka.task_records import Plan
from lakehouse_cdc.sinks.kafka.topics import TopicNames, Topics
from lakehouse_cdc.sinks.kafka.transactions import Transactions
from lakehouse_cdc.sinks.port import CommittedBatch
from lakehouse_cdc.sinks.schema_cache import Schemas

_REPEAT = "run once with delivery: at_least_once, which may repeat the last batch"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Table:
    """A table under one schema: its topic, how its changes are written, and what goes around what tasks write."""

    topic: str
    schema: TableSchema
    settings: Settings
    writer: Writer
    around_key: bytes = NOTHING
    around_value: bytes = NOTHING


@dataclass
class _Open:
    """What a sink knows while its producer is the only one."""

    topics: Topics
    names: TopicNames
    progress: Progress | None


class KafkaSink:
    """`sinks.<name>.kafka`. One process at a time is its writer; another one that begins ends it."""

    def __init__(self, spark: SparkSession, layout: Layout, name: str, config: KafkaConfig) -> None:
        self._spark, self._layout, self._config = spark, layout, config
        self._delivery = Delivery(f"{layout.pipeline}.{name}", config)
        self._schemas = Schemas(layout)
        registry = Registry.of(config) if config.format == "debezium-avro" else None
        self._encoders = None if registry is None else Encoders(registry)
        self._tables: dict[str, _Table] = {}
        self._open: _Open | None = None

    def apply(self, batch: CommittedBatch) -> int:
        """Send what the ledger does not have yet; the number of rows of bronze that were sent."""
        try:
            bronze = table_id(self._spark, self._layout.changes)
            opened = self._opened()
            self._require_ledger(opened.progress, bronze, batch.versions)
            return sum(self._send(opened, part, bronze) for part in parts(opened.progress, bronze, batch.versions))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give up the producer. What has been sent and is not committed is aborted."""
        self._open = None
        self._delivery.close()

    def _opened(self) -> _Open:
        if self._open is None:
            topics, progress = self._delivery.open()
            schemas = self._layout.schemas
            tables = {row["source_table"] for row in engine_of(self._spark, schemas).read(schemas, ("source_table",))}
            self._open = _Open(topics, TopicNames(self._config.topic, tables), progress)
        return self._open

    def _require_ledger(self, progress: Progress | None, bronze: str, versions: Versions) -> None:
        if not is_lost(progress, bronze, versions):
            return
        if self._delivery.exactly_once:
            raise codes.KAFKA_LEDGER_LOST.error(
                "the ledger does not say how far this sink has got, which has sent batches before",
                where=self._delivery.ledger,
                hint=f"restore the topic; or {_REPEAT}",
            )
        _log.warning("%s does not say how far the sink has got: a batch may be repeated", self._delivery.ledger)

    def _send(self, opened: _Open, part: Part, bronze: str) -> int:
        """One part of a batch, in as many transactions as its rows need."""
        versions = part.versions
        skip, by_files, pieces = self._rows(opened, part)

        def commit(rows: int, *, done: bool) -> None:
            progress = Progress(bronze, versions.after, versions.last, rows, done, by_files)
            self._delivery.commit(progress)
            opened.progress = progress

        cut = Transactions(skip, self._config.transaction_rows, lambda rows: commit(rows, done=False))
        for piece in pieces:
            if isinstance(piece, Row):
                if cut.take_row(piece.seq):
                    for topic, message in self._messages(opened, piece, versions):
                        self._delivery.send(topic, message)
            else:
                for records in cut.take(piece):
                    self._delivery.send_all(self._framed(records))
        commit(cut.rows, done=True)
        return cut.rows - skip

    def _rows(self, opened: _Open, part: Part) -> tuple[int, bool, Iterator[Row | Records]]:
        """How many of the part's rows are left out; whether they are in the order by files; and all of them."""
        where = self._spark, self._layout, part.versions, partial(self._plan, opened, part.versions)
        if part.by_files is not False and (rows := rows_by_files(*where, begun=bool(part.by_files))) is not None:
            return part.skip, True, rows
        if not part.by_files:
            return part.skip, False, rows_by_keys(*where)
        if self._delivery.exactly_once:
            raise codes.KAFKA_LEDGER_LOST.error(
                f"a batch was sent as far as row {part.skip} in the order of bronze's files, which cannot be had again",
                where=self._delivery.ledger,
                hint=_REPEAT,
            )
        _log.warning("bronze no longer lists the files of a batch that was begun: it is repeated")
        return 0, False, rows_by_keys(*where)

    def _plan(self, opened: _Open, versions: Versions, changes: Iterable[tuple[str, str]]) -> Plan:
        """What tasks are to write: all that needs nothing of this process. Topics of these tables are there then."""
        if self._encoders is not None:
            return Plan(self._config.format, {})
        known = {schema_id: self._table(opened, table, schema_id, versions) for table, schema_id in sorted(changes)}
        return Plan(self._config.format, {one: (table.schema, table.settings) for one, table in known.items()})

    def _framed(self, records: Records) -> Iterator[Record]:
        """The records of messages that tasks have made."""
        previous, headers = b"", list[tuple[str, str | bytes | None]]()
        for schema_id, key, value, seq in zip(
            records.schema_ids, records.keys, records.values, records.seqs, strict=True
        ):
            if seq != previous:
                previous, headers = seq, [("seq", seq)]
            table = self._tables[schema_id]
            if table.around_value is not NOTHING:
                key = None if key is None else table.around_key % key
                value = None if value is None else table.around_value % value
            yield table.topic, key, value, headers

    def _messages(self, opened: _Open, row: Row, versions: Versions) -> Iterator[tuple[str, Message]]:
        if row.op is Op.END:
            return
        if row.op in (Op.SCHEMA, Op.TRUNCATE):
            topic = self._config.ddl_topic or f"{self._delivery.sink}.ddl"
            opened.topics.require_ddl(topic)
            yield topic, ddl_message(row)
            return
        table = self._table(opened, row.table, row.schema_id, versions)
        change = RowChange(row.seq, row.op, row.key, row.before, row.after, row.commit_us, row.file, row.pos, row.gtid)
        for message in table.writer(change, time.time_ns() // 1000):
            yield table.topic, message

    def _table(self, opened: _Open, name: str, schema_id: str, versions: Versions) -> _Table:
        """A table whose topic is there, and how its changes are written under that schema."""
        if schema_id not in self._tables:
            self._schemas.learn(self._spark, [schema_id], lambda: versions.rows(self._spark, self._layout.changes))
            schema, topic, config = self._schemas[schema_id], opened.names.of(name), self._config
            opened.topics.require_rows(topic, keyed=bool(schema.key))
            encoder = None if self._encoders is None else self._encoders.of(topic)
            settings = Settings(
                self._layout.pipeline, topic, config.exact, config.schemas, config.tombstones, version("lakehouse-cdc"),
                encoder,
            )  # fmt: skip
            frame = around(config.format, schema, settings)
            writer = FORMATS[config.format](schema, settings)
            self._tables[schema_id] = _Table(topic, schema, settings, writer, *frame)
        return self._tables[schema_id]


def ddl_message(row: Row) -> Message:
    """A schema change or a truncation: an own form, whatever the format of rows is.

    `schema` and `before` are as the s row has them (see `model.bronze_row`): `before` is null of a table's first, and
    `schema` has no columns where the table is left off.
    """
    database, table = split(row.table)
    value: dict[str, Any] = {
        "type": "truncate" if row.op is Op.TRUNCATE else "schema", "database": database, "table": table,
        "schema": row.after, "before": row.before, "schema_id": row.schema_id, "seq": str(row.seq),
        "ts_us": row.commit_us, "file": row.file, "pos": row.pos, "gtid": row.gtid,
    }  # fmt: skip
    key = json.dumps({"database": database, "table": table}, ensure_ascii=False, separators=(",", ":"))
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_json)
    return Message(key.encode(), text.encode(), (("seq", str(row.seq).encode()),))


def _json(value: Any) -> str:
    assert isinstance(value, Decimal), type(value)
    return format(value, "f")
