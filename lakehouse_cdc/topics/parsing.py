"""Messages to rows of bronze, in Spark's tasks: what each message says, or why it is set aside.

A task reads the records of one partition in the order of their offsets, so it sees by itself whether a row is older
than one before it there. Whether such a row is a repeat is said by bronze, which has it or not: it is marked as `late`
(or as `again`, where its seq is that of the partition's mark, as all rows of a snapshot are), and the batch decides.

What comes of a batch of records is a batch of lines of three kinds: rows of bronze, dead letters, and each schema once
a task. A line is a function of the record and of what came before it in the partition: a repeated batch has the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.errors.codec import crossing
from lakehouse_cdc.messages.formats import READERS, ReadFormat
from lakehouse_cdc.messages.reading import ReadChange, Reader, Reason, Unreadable
from lakehouse_cdc.model.bronze_arrow import ARROW
from lakehouse_cdc.model.bronze_row import SCHEMA
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.variant import encode
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.sinks.kafka.registry import Registry
from lakehouse_cdc.topics.avro_decoder import AvroDecoder
from lakehouse_cdc.topics.declared import Declarations
from lakehouse_cdc.topics.order import (
    Mark,
    Order,
    Partition,
    Progress,
    batch_file,
    seq_of_arrival,
    seq_of_place,
)

RECORD = ("topic", "partition", "offset", "timestamp", "key", "value")  # of a record of Kafka
NEW, AGAIN, LATE = 0, 1, 2  # of a row: how it is to what came before it
ROW, LETTER, TABLE = "row", "letter", "schema"  # kinds of lines
_LAST_US = 253_402_300_799_999_999  # of the year 9999
_OWN = (
    ("kind", pa.string(), "string"), ("topic", pa.string(), "string"), ("partition", pa.int32(), "int"),
    ("offset", pa.int64(), "bigint"), ("timestamp", pa.timestamp("us", tz="UTC"), "timestamp"),
    ("state", pa.int32(), "int"), ("server", pa.int64(), "bigint"), ("reason", pa.string(), "string"),
    ("text", pa.string(), "string"), ("record_key", pa.binary(), "binary"), ("record_value", pa.binary(), "binary"),
)  # fmt: skip
LINE = pa.schema([*((name, kind) for name, kind, _ in _OWN), *ARROW])
LINE_DDL = ", ".join([*(f"{name} {sql}" for name, _, sql in _OWN), SCHEMA])
_VARIANTS = ("key", "before", "after")


@dataclass(frozen=True)
class Parsing:
    """How records are read: plain data, which is sent to tasks.

    `schemas` are those that tables have by now. `truncations`: whether one that says no place can be put in order, as
    in topics of one partition. `again`: the records are letters that are tried once more, so none of them is late for
    what came after it. `registry` has the schemas of messages in Avro.
    """

    format: ReadFormat
    declarations: Declarations
    order: Order
    max_message_bytes: int
    epoch: int
    batch: int
    progress: Progress
    schemas: Mapping[str, TableSchema] = field(default_factory=dict)
    truncations: bool = True
    again: bool = False
    registry: Registry | None = None

    def lines(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The lines of records (`RECORD`, in that order) of a task."""
        task = _Task(self)
        for batch in batches:
            with crossing():
                yield task.lines(batch)


@dataclass
class _Seen:
    """How far a partition has come: its mark, and the rows at just that seq in this batch."""

    mark: Mark
    old: int  # the mark's seq when the batch began
    rows: set[Any] = field(default_factory=set)


@dataclass(frozen=True)
class _Record:
    topic: str
    partition: int
    offset: int
    timestamp: Any
    key: bytes | None
    value: bytes | None


class _Task:
    def __init__(self, parsing: Parsing) -> None:
        self._parsing = parsing
        declared = parsing.declarations.made(parsing.schemas.get)
        if parsing.registry is not None:
            declared = replace(declared, decoder=AvroDecoder(parsing.registry).decode)
        self._read: Reader = READERS[parsing.format](declared)
        self._seen: dict[Partition, _Seen] = {}
        self._known: dict[str, str] = {}  # schemas that have a line, by id
        self._lines: list[dict[str, Any]] = []

    def lines(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self._lines = []
        columns = [batch.column(name).to_pylist() for name in RECORD]
        for record in map(_Record, *columns):
            self._record(record)
        return _arrow(self._lines)

    def _record(self, record: _Record) -> None:
        """Add the record's lines."""
        try:
            self._read_record(record)
        except Unreadable as error:
            self._lines.append(_letter(record, error))

    def _read_record(self, record: _Record) -> None:
        size = len(record.key or b"") + len(record.value or b"")
        if size > self._parsing.max_message_bytes:
            raise Unreadable(Reason.TOO_LARGE, f"{size} bytes, of {self._parsing.max_message_bytes} at most")
        changes = self._read(record.key, record.value)
        if not changes:
            return
        seen = self._seen_of(record)
        placed = [(change, *self._place(change, record, index)) for index, change in enumerate(changes)]
        rows = [_row(*one) for one in placed]  # whatever cannot be written is known before anything is remembered
        schema = changes[0].schema
        if schema.id not in self._known:
            self._lines.append({"kind": TABLE, "schema_id": schema.id, "text": _schema_text(changes[0])})
            self._known[schema.id] = schema.name
        for (change, seq, _, _, server), row in zip(placed, rows, strict=True):
            state = self._state(change, seq, server, seen, row)
            self._lines.append(
                {"kind": ROW, "topic": record.topic, "partition": record.partition, "offset": record.offset,
                 "timestamp": record.timestamp, "state": state, "server": server, **row}
            )  # fmt: skip

    def _seen_of(self, record: _Record) -> _Seen:
        place = (record.topic, record.partition)
        if place not in self._seen:
            mark = self._parsing.progress.marks.get(place, Mark(0))
            self._seen[place] = _Seen(mark, mark.seq)
        return self._seen[place]

    def _place(self, change: ReadChange, record: _Record, index: int) -> tuple[int, str, int, int]:
        """The row's seq, its file and position, and the id of the server whose log it is from."""
        parsing = self._parsing
        if parsing.order == "arrival":
            if change.op is Op.TRUNCATE and not parsing.truncations:
                what = "a truncation without a place, in a topic of several partitions, has no order among their rows"
                raise Unreadable(Reason.NO_POSITION, what)
            seq = seq_of_arrival(parsing.epoch, parsing.batch, record.partition, record.offset, index)
            return seq, batch_file(parsing.batch), record.offset, 0
        if change.place is None:
            raise Unreadable(Reason.NO_POSITION, "the message does not say where in the source's log it is from")
        mark = self._seen_of(record).mark
        if change.place.server and mark.server and change.place.server != mark.server:
            what = f"the log is that of the server {change.place.server}, and was that of {mark.server}"
            raise Unreadable(Reason.OTHER_LOG, what)
        place = change.place
        return seq_of_place(place, change.op), place.file, place.pos, place.server

    def _state(self, change: ReadChange, seq: int, server: int, seen: _Seen, row: dict[str, Any]) -> int:
        if self._parsing.again:
            return AGAIN if seq > self._parsing.progress.floors.get(change.schema.name, 0) else LATE
        if seq < seen.mark.seq or seq <= self._parsing.progress.floors.get(change.schema.name, 0):
            return LATE
        if seq > seen.mark.seq:
            seen.mark, seen.rows = Mark(seq, server or seen.mark.server), set()
        one = (change.schema.name, change.op, row["key"])
        if one in seen.rows:
            return LATE  # it is there twice
        seen.rows.add(one)
        return AGAIN if seq == seen.old else NEW


def _schema_text(change: ReadChange) -> str:
    return json.dumps({"schema": change.schema.to_dict(), "filled": dict(change.filled)}, ensure_ascii=False)


def _letter(record: _Record, error: Unreadable) -> dict[str, Any]:
    return {
        "kind": LETTER, "topic": record.topic, "partition": record.partition, "offset": record.offset,
        "timestamp": record.timestamp, "reason": error.reason.value, "text": _whole(error.detail),
        "record_key": record.key, "record_value": record.value,
    }  # fmt: skip


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _row(change: ReadChange, seq: int, file: str, pos: int, server: int) -> dict[str, Any]:
    """The columns of bronze. Raises Unreadable for what they cannot hold."""
    schema = change.schema
    if not -_LAST_US < change.commit_us <= _LAST_US:
        raise Unreadable(Reason.NOT_THE_FORMAT, "the time of the commit is none")
    try:
        identity = schema.id
        (change.gtid or "").encode()
        images = {name: None if (image := getattr(change, name)) is None else encode(dict(image)) for name in _VARIANTS}
    except (CdcError, ValueError, OverflowError) as error:
        raise Unreadable(Reason.BAD_VALUE, f"bronze cannot hold the row: {error}") from error
    position = {"server_uuid": str(server) if server else None, "file": file, "pos": pos, "gtid": change.gtid}
    return {
        "seq": Decimal(seq), "op": change.op.value, "source_table": schema.name, **images,
        "commit_ts": change.commit_us, "position": position, "schema_id": identity,
    }  # fmt: skip


def _arrow(lines: list[dict[str, Any]]) -> pa.RecordBatch:
    columns = []
    for one in LINE:
        values = [line.get(one.name) for line in lines]
        columns.append(variants(values) if one.name in _VARIANTS else pa.array(values, one.type))
    return pa.RecordBatch.from_arrays(columns, schema=LINE)


def variants(values: list[tuple[bytes, bytes] | None]) -> pa.Array:
    """A column of VARIANT of pairs as `encode` gives them."""
    kind = ARROW.field("key").type
    missing = [value is None for value in values]
    value = pa.array([b"\x00" if one is None else one[0] for one in values], pa.binary())
    names = pa.array([b"\x01\x00\x00" if one is None else one[1] for one in values], pa.binary())
    return pa.StructArray.from_arrays([value, names], fields=list(kind), mask=pa.array(missing, pa.bool_()))
