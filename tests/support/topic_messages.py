"""Messages of topics for tests: good ones of a small table, and broken ones of each kind, with their reasons."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa

from lakehouse_cdc.messages.reading import Reason

TABLE = "shop.t"
_EPOCH = datetime(2026, 1, 1, tzinfo=timezone.utc)
_FIELDS = [
    {"type": "int32", "optional": False, "field": "id"}, {"type": "int32", "optional": True, "field": "v"},
]  # fmt: skip
Message = tuple[bytes | None, bytes | None]


def place(pos: int, row: int = 0, **more: Any) -> dict[str, Any]:
    """Debezium's `source` of a change at that position."""
    return {"db": "shop", "table": "t", "ts_ms": 1_700_000_000_000 + pos, "file": "bin.000001", "pos": pos, "row": row,
            "server_id": 1, **more}  # fmt: skip


def debezium(
    op: str, pos: int, id: int, v: Any = None, *, fields: Any = None, source: Any = None, **more: Any
) -> Message:
    """A message of Debezium's with its schema; `more` goes into the row."""
    row = {"id": id, "v": v, **more}
    payload = {
        "before": row if op == "d" else None, "after": None if op in "dt" else row,
        "source": place(pos) if source is None else source, "op": op, "ts_ms": 1,
    }  # fmt: skip
    columns = [*_FIELDS, *(fields or [])]
    schema = {"type": "struct", "fields": [{"type": "struct", "fields": columns, "optional": True, "field": "after"}]}
    key = None if op == "t" else json.dumps({"id": id}).encode()
    return key, json.dumps({"schema": schema, "payload": payload}).encode()


def _edited(change: Callable[[dict[str, Any]], Any]) -> Callable[[int], Message]:
    """A good message with something wrong in its payload, or its schema."""

    def broken(pos: int) -> Message:
        key, value = debezium("c", pos, pos, 1)
        held = json.loads(value or b"")
        change(held)
        return key, json.dumps(held).encode()

    return broken


def _field(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda held: held["schema"]["fields"][0]["fields"][1].update(changes)


# the kinds of broken messages, each with its reason; by the position at which it would be
BROKEN: list[tuple[Reason, Callable[[int], Message]]] = [
    (Reason.NOT_JSON, lambda pos: (b'{"id":1}', b'{"op":')),
    (Reason.NOT_JSON, lambda pos: (b"\xff", debezium("c", pos, 1)[1])),
    (Reason.NOT_THE_FORMAT, lambda pos: (None, b"[1, 2]")),
    (Reason.NOT_THE_FORMAT, _edited(lambda held: held["payload"].update(source=None))),
    (Reason.NOT_THE_FORMAT, _edited(lambda held: held["payload"].update(after=None))),
    (Reason.UNKNOWN_OP, _edited(lambda held: held["payload"].update(op="z"))),
    (Reason.UNKNOWN_TYPE, _edited(_field(type="map"))),
    (Reason.UNKNOWN_TABLE, lambda pos: (b'{"id":1}', json.dumps(
        json.loads(debezium("c", pos, 1)[1] or b"")["payload"]).encode())),
    (Reason.NO_KEY, lambda pos: (None, debezium("c", pos, 1)[1])),
    (Reason.NO_KEY, _edited(lambda held: held["payload"]["after"].update(id=None))),
    (Reason.NO_POSITION, _edited(lambda held: held["payload"]["source"].update(pos=None))),
    (Reason.OTHER_COLUMNS, _edited(lambda held: held["payload"]["after"].update(w=1))),
    (Reason.BAD_VALUE, _edited(lambda held: held["payload"]["after"].update(v="x"))),
    (Reason.BAD_VALUE, _edited(lambda held: held["payload"]["after"].update(v=2**31))),
    (Reason.TOO_LARGE, lambda pos: (b'{"id":1}', b" " * 5000)),
    (Reason.OTHER_LOG, lambda pos: debezium("c", pos, pos, source=place(pos, server_id=2))),
    (Reason.OUT_OF_ORDER, lambda pos: debezium("c", 5, pos)),
]  # fmt: skip
MAX_BYTES = 4000


def mixed(seed: int, broken_of_each: int) -> tuple[list[Message], list[Reason | None]]:
    """Broken messages among as many good ones, in a random order, each at a position of its own, and the reasons."""
    draw = random.Random(seed)
    kinds: list[tuple[Reason | None, Callable[[int], Message]]] = [*BROKEN] * broken_of_each
    kinds += [(None, lambda pos: debezium("c", pos, pos, 1))] * len(kinds)
    kinds = [kinds[-1], *draw.sample(kinds, len(kinds))]  # the first one is good
    made = [(reason, make(10 + at)) for at, (reason, make) in enumerate(kinds)]
    return [message for _, message in made], [reason for reason, _ in made]


def records(messages: list[Message], *, topic: str = "t", partition: int = 0, first: int = 0) -> pa.RecordBatch:
    """As Spark hands them to a task."""
    n = len(messages)
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array([topic] * n, pa.string()),
            "partition": pa.array([partition] * n, pa.int32()),
            "offset": pa.array(range(first, first + n), pa.int64()),
            "timestamp": pa.array([_EPOCH] * n, pa.timestamp("us", tz="UTC")),
            "key": pa.array([key for key, _ in messages], pa.binary()),
            "value": pa.array([value for _, value in messages], pa.binary()),
        }
    )
