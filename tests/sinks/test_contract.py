"""The contract of `sinks.port.Sink`, one test that every sink passes: silver, Kafka, and a sink that counts rows."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import ConfigError
from lakehouse_cdc.lake.commits import newest_first
from lakehouse_cdc.model.changelog import Op, fold
from lakehouse_cdc.options.declaration import Section
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.apply.stream import SilverSink
from lakehouse_cdc.sinks.kafka.options import KafkaConfig
from lakehouse_cdc.sinks.kafka.sink import KafkaSink
from lakehouse_cdc.sinks.port import CommittedBatch, Sink
from lakehouse_cdc.sinks.registry import SINKS
from lakehouse_cdc.sinks.stream import start
from tests.support.bronze_writer import Lake
from tests.support.counting_sink import CountingSink
from tests.support.kafka_broker import Broker
from tests.support.silver.changes import begin, delete, insert, table

ONE = table("one")


@dataclass
class SinkCase:
    """How a sink is made anew, as after a crash, what its effect is, and what that has to be."""

    made: Callable[[Lake], Sink[Any]]
    effect: Callable[[Lake], object]
    wanted: Callable[[Lake], object]


def counted(lake: Lake) -> dict[str, int]:
    found: dict[str, int] = {}
    for change in lake.written:
        found[change.op.value] = found.get(change.op.value, 0) + 1
    return found


SINKS_TESTED = {
    "silver": SinkCase(
        lambda lake: SilverSink(lake.spark, lake.layout, Applier(lake.spark, lake.layout)),
        lambda lake: lake.silver(ONE.name),
        lambda lake: fold(lake.written),
    ),
    "counting": SinkCase(
        lambda lake: CountingSink(lake.spark, lake.layout),
        lambda lake: CountingSink(lake.spark, lake.layout).counts(),
        counted,
    ),
}


def in_kafka(broker: Broker) -> SinkCase:
    """Its effect are the changes that a consumer sees, each by its seq."""
    name = f"c{uuid.uuid4().hex[:8]}"
    config = Section(KafkaConfig).check(
        {"bootstrap_servers": broker.address, "topic": f"{name}.{{database}}.{{table}}", "transaction_rows": 1}
    )
    return SinkCase(
        lambda lake: KafkaSink(lake.spark, lake.layout, name, config),
        lambda lake: sorted(
            int(record.headers["seq"]) for record in broker.records(f"{name}.{ONE.name}") if record.value is not None
        ),
        lambda lake: sorted(change.seq for change in lake.written if change.op is not Op.SCHEMA),
    )


class Dying:
    """A sink whose process ends after its effect, or before it, in a batch of a given number."""

    def __init__(self, sink: Sink[Any], batch: int, *, after: bool) -> None:
        self._sink, self._batch, self._after = sink, batch, after
        self.seen: list[tuple[tuple[str, int], int]] = []

    def apply(self, batch: CommittedBatch) -> Any:
        self.seen.append((batch.identity, batch.versions.last))
        if batch.note.batch == self._batch and not self._after:
            raise RuntimeError("died before its effect")
        done = self._sink.apply(batch)
        if batch.note.batch == self._batch:
            raise RuntimeError("died after its effect")
        return done


@pytest.fixture(params=[pytest.param("silver", marks=[pytest.mark.long]), "counting", "kafka"])
def tested(request: pytest.FixtureRequest) -> SinkCase:
    if request.param == "kafka":
        return in_kafka(request.getfixturevalue("broker"))
    return SINKS_TESTED[request.param]


def test_a_sink_keeps_the_contract(spark: SparkSession, tmp_path: Path, tested: SinkCase) -> None:
    lake = Lake(spark, tmp_path, {ONE.name: ONE})
    checkpoint = str(tmp_path / "sink checkpoint")
    seen: list[tuple[tuple[str, int], int]] = []

    def run(batch: int = -1, *, after: bool = False) -> None:
        sink = Dying(tested.made(lake), batch, after=after)
        try:
            start(spark, lake.layout, checkpoint, sink, name="tested").awaitTermination()
        finally:
            seen.extend(sink.seen)

    def require() -> None:
        assert tested.effect(lake) == tested.wanted(lake)

    lake.commit([begin(ONE), insert(ONE, 2, 1), insert(ONE, 3, 2)])
    run()
    require()
    lake.commit([insert(ONE, 4, 3), delete(ONE, 5, 1)])
    for after in (False, True):  # promises 2 and 5: the batch is repeated, and counts once
        with pytest.raises(StreamingQueryException, match="died"):
            run(1, after=after)
    bronze = [commit.version for commit in newest_first(spark, lake.layout.changes)]
    run()
    require()
    assert bronze == [commit.version for commit in newest_first(spark, lake.layout.changes)]  # promise 7
    lake.commit([])  # promise 6: a commit without rows
    lake.commit([insert(ONE, 6, 4)])
    run()
    require()
    assert len({last for identity, last in seen if identity[1] == 1}) == 1  # promise 2
    assert len({identity for identity, _ in seen}) == 3
    assert [last for _, last in seen] == sorted(last for _, last in seen)  # promise 1


@pytest.fixture
def registered() -> Iterator[str]:
    SINKS["counting"] = CountingSink
    yield "counting"
    del SINKS["counting"]


def test_a_registered_sink_can_be_configured(registered: str) -> None:
    data = {
        "name": "p",
        "source": {"url": "mysql://u@h:1", "tables": ["shop.*"]},
        "target": {"path": "/lake", "bronze": "b", "sinks": [registered]},
    }
    assert PipelineConfig.parse(data).target.sinks == ("counting",)
    for odd in (["kafka"], [registered, registered]):
        with pytest.raises(ConfigError, match=r"no sink kafka|named once"):
            PipelineConfig.parse({**data, "target": {"path": "/lake", "bronze": "b", "sinks": odd}})
