"""The stream from topics into bronze: Spark's own source of Kafka, each micro-batch one call of `batch.BatchWriter`.

Offsets are in Spark's checkpoint and nowhere else. Records that the brokers have deleted before they were read stop the
stream; nothing is passed over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakehouse_cdc.bronze.sink import BronzeBatch, Ready
from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.spark_errors import crossing_batch
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.options.kafka import Topics
from lakehouse_cdc.runtime.kafka_connector import with_connector
from lakehouse_cdc.sinks.kafka.registry import Registry
from lakehouse_cdc.topics.batch import BatchWriter
from lakehouse_cdc.topics.declared import Declarations
from lakehouse_cdc.topics.order import Progress
from lakehouse_cdc.topics.parsing import Parsing


def client_options(config: Topics, home: Path) -> dict[str, str]:
    """How Spark's clients reach the brokers, with secrets as they are: not to be shown. Files are relative to `home`.

    Raises ConfigError for a file that cannot be read.
    """
    options = {"bootstrap.servers": config.bootstrap_servers, "security.protocol": config.security.upper()}
    if config.mechanism is not None:
        options["sasl.mechanism"] = config.mechanism
        options["sasl.jaas.config"] = _login(config)
    if config.ca is not None:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _read(home, config.ca)}
    if config.certificate is not None and config.key is not None:
        options |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _read(home, config.certificate),
            "ssl.keystore.key": _read(home, config.key),
        }
        if config.key_password:
            options["ssl.key.password"] = config.key_password.reveal()
    return {f"kafka.{name}": value for name, value in options.items()}


def _login(config: Topics) -> str:
    scram = (config.mechanism or "").upper().startswith("SCRAM")
    module = "scram.ScramLoginModule" if scram else "plain.PlainLoginModule"
    user, password = (_quoted(one) for one in (config.username or "", config.password.reveal()))
    return f"org.apache.kafka.common.security.{module} required username={user} password={password};"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _read(home: Path, file: str) -> str:
    try:
        return (home / file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise codes.KAFKA_SETTING_REFUSED.error(f"cannot read {file}: {error}", where="source.kafka") from error


def parsing_of(config: Topics, declarations: Declarations) -> Parsing:
    """How the messages are read, but for what each batch adds."""
    return Parsing(
        config.format, declarations, config.ordered_by, config.max_message_bytes, epoch=1, batch=0, progress=Progress(),
        registry=Registry.of(config),
    )  # fmt: skip


def start(
    spark: SparkSession,
    config: Topics,
    declarations: Declarations,
    layout: Layout,
    checkpoint: str,
    *,
    home: Path,
    every_seconds: float | None = None,
    ready: Ready = lambda _: None,
    on_batch: Callable[[BronzeBatch], None] | None = None,
) -> StreamingQuery:
    """Start the stream into `<bronze>.changes`; see `bronze.sink.start` for what is common to both."""
    place, writer = Checkpoint(checkpoint), BatchWriter(layout, ready)
    common = parsing_of(config, declarations)
    with_connector(spark)
    reader = spark.readStream.format("kafka").options(**client_options(config, home))
    reader = reader.option("subscribe", ",".join(config.topics)).option("startingOffsets", config.starting)
    reader = reader.option("kafka.isolation.level", "read_committed")
    if config.max_messages_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", config.max_messages_per_batch)

    @crossing_batch()
    def write(records: DataFrame, batch: int) -> None:
        began = time.monotonic()
        partitions = [len(of_topic) for of_topic in place.offset(batch).values()]
        parsing = replace(common, batch=batch, truncations=partitions == [1] * len(partitions))
        done = writer.write(records, parsing, place.query_id())
        if on_batch is not None:
            on_batch(replace(done, seconds=time.monotonic() - began))

    stream = reader.load().writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    stream = stream.queryName(f"{layout.pipeline}: bronze")
    timed: dict[str, Any] = {"availableNow": True}
    if every_seconds is not None:
        timed = {"processingTime": f"{round(every_seconds * 1000)} milliseconds"}
    return stream.trigger(**timed).start()
