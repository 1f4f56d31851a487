"""Rows into a topic of Kafka: bronze's, each once, and beside it Debezium's engine, into the same broker.

    uv run python -m bench.topics_out [--quick] [--json] [--rows 1000000] [--runs 3] [--write bench]

Both write Debezium's JSON without schemas, with `acks=all` and an idempotent producer, into a topic of as many
partitions. The sink of this project writes in transactions, with its ledger; Debezium's engine delivers at least once.
It reads the source, where the sink reads bronze: what the rows take into bronze is shown, too. It needs Maven, and a
compiler of Java.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka.cimpl import NewTopic

from bench.machine import machine
from bench.peers import debezium_into_topic, python, versions
from bench.process import run
from bench.report import results, write
from bench.tables import CUSTOMER, WARM, Workload
from lakehouse_cdc.testing import MySqlServer
from tests.support.kafka_broker import Broker, running

_PARTITIONS, _WARM_ROWS = 3, 2_000
_PREFIX = "debezium"  # of the peer's topics


@dataclass(frozen=True)
class Sent:
    """`rows` rows in `seconds`; `bronze_seconds` is what they took into bronze, where that was first."""

    who: str
    rows: int
    seconds: float
    peak_mb: int
    bronze_seconds: float | None = None


def measure(
    server: MySqlServer, broker: Broker, folder: Path, workload: Workload, rows: int, number: int
) -> list[Sent]:
    """One run of each. Raises RuntimeError where one fails."""
    ours = run(python("sent", server.port, workload.name, folder / str(number), broker.address, _PARTITIONS))
    topic = f"{_PREFIX}{number}.{workload.name}"
    admin = broker.admin()
    [made] = admin.create_topics([NewTopic(topic, _PARTITIONS, 1)], operation_timeout=30).values()
    made.result(60)
    peer = run(debezium_into_topic(server.port, workload.name, rows, broker.address, f"{_PREFIX}{number}"))
    found = {record.key for record in broker.records(topic)}
    assert len(found) == rows, f"{topic} has {len(found)} keys of {rows}"
    return [
        Sent("lakehouse-cdc", ours.rows, ours.seconds, ours.peak_mb, float(ours.said["bronze_seconds"])),
        Sent("Debezium", peer.rows, peer.seconds, peer.peak_mb),
    ]


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.topics_out", description="Rows into a topic of Kafka, beside Debezium's engine."
    )
    parser.add_argument("--quick", action="store_true", help="a small table, to see that it works")
    parser.add_argument("--json", action="store_true", help="one line of JSON on stdout")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table")
    parser.add_argument("--runs", type=int, default=3, help="how often, each in new processes (3)")
    parser.add_argument("--write", type=Path, help="a folder for RESULTS.md and topics_out.json")
    asked = parser.parse_args()
    rows, runs = (5_000, 1) if asked.quick else (asked.rows, asked.runs)
    load, found = os.getloadavg()[0], []
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        MySqlServer.start(version="mysql-8.0") as server,
        running() as broker,
    ):
        WARM.create(server, _WARM_ROWS)
        CUSTOMER.create(server, rows)
        for number in range(runs):
            found += measure(server, broker, Path(folder), CUSTOMER, rows, number)
            print(*found[-2:], sep="\n", file=sys.stderr, flush=True)
    data = {
        "machine": machine(), "busy": round(load, 1), "versions": versions(), "partitions": _PARTITIONS,
        "runs": [asdict(one) for one in found],
    }  # fmt: skip
    if asked.write is not None:
        write(asked.write, "topics_out", data)
    print(json.dumps(data) if asked.json else results("topics_out", data), flush=True)


if __name__ == "__main__":
    main()
