"""Plays Spark's part in this process: asks for offsets, plans partitions, reads them, keeps what bronze would hold.

Everything that Spark persists goes through JSON here too, and every partition through pickle, as it does in a cluster.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.source.spark.limited_reader import LimitedReader
from lakehouse_cdc.source.spark.stream import MySqlCdcSource

COLUMNS = StructType()  # the readers go by their options alone, and only Spark can parse bronze's DDL into a type


def hashable(value: Any) -> Any:
    """Images as values that compare and hash."""
    if isinstance(value, dict):
        return tuple(sorted((k, hashable(v)) for k, v in value.items()))
    if isinstance(value, list):
        return tuple(hashable(v) for v in value)
    return value


def image(cell: dict[str, bytes] | None) -> Any:
    """A VARIANT as a value that compares and hashes."""
    return None if cell is None else _image(cell["value"], cell["metadata"])


@lru_cache(1 << 16)  # the same rows are read many times
def _image(value: bytes, metadata: bytes) -> Any:
    return hashable(decode(value, metadata))


def changes(batches: Iterable[pa.RecordBatch]) -> list[Change]:
    """Bronze rows as the fold knows them."""
    out = []
    for batch in batches:
        for row in batch.to_pylist():
            images = {name: image(row[name]) for name in ("key", "before", "after")}
            out.append(Change(int(row["seq"]), Op(row["op"]), row["source_table"], **images))
    return out


def exact_bytes(batches: Iterable[pa.RecordBatch]) -> list[str]:
    """Every row, every byte, in an order of its own: two attempts of a batch must give equal lists."""
    return sorted(repr(row) for batch in batches for row in batch.to_pylist())


def without_reads(batches: Iterable[pa.RecordBatch], tables: set[str]) -> list[pa.RecordBatch]:
    """The rows but for those that were read from one of `tables`, or looked for in vain."""
    found = []
    for batch in batches:
        mine = pc.is_in(batch.column("source_table"), value_set=pa.array(sorted(tables), pa.string()))
        missed = pc.and_(pc.equal(batch.column("op"), "d"), pc.is_null(batch.column("before")))
        read = pc.or_(pc.equal(batch.column("op"), "r"), missed)
        found.append(batch.filter(pc.invert(pc.and_(mine, read))))
    return found


@dataclass
class Driver:
    """One stream. `offset` is what Spark would find in its checkpoint."""

    options: dict[str, str]
    limit: Any = field(default_factory=ReadAllAvailable)
    offset: dict[str, Any] = field(default_factory=dict)
    log: list[Change] = field(default_factory=list)
    planned: tuple[dict[str, Any], dict[str, Any]] | None = None
    available_now: bool = False

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """A new process: nothing but the offsets survives."""
        reader = MySqlCdcSource(dict(self.options)).streamReader(COLUMNS)
        assert isinstance(reader, LimitedReader)
        self.reader = reader
        if self.available_now:
            self.reader.prepareForTriggerAvailableNow()

    def plan(self) -> bool:
        """Ask for the next offset. False if there is nothing new."""
        end = json.loads(json.dumps(self.reader.latestOffset(dict(self.offset), self.limit)))
        if end == self.offset:
            return False
        self.planned = (self.offset, end)
        return True

    def read(self) -> list[pa.RecordBatch]:
        """Read the planned batch once, as fresh tasks would."""
        assert self.planned is not None
        start, end = self.planned
        parts = self.reader.partitions(dict(start), dict(end))
        out: list[pa.RecordBatch] = []
        for part in parts:
            source = MySqlCdcSource(dict(self.options))
            worker = pickle.loads(pickle.dumps(source.streamReader(COLUMNS)))
            out.extend(worker.read(pickle.loads(pickle.dumps(part))))
        return out

    def batch(self, between: Callable[[], None] | None = None, altered: Callable[[], Iterable[str]] = tuple) -> bool:
        """One micro-batch; with `between`, executed twice with that in between, and both must be the same bytes.

        `altered` says which tables were altered behind the batch by now: some of their snapshot rows may be missing.
        """
        if not self.plan():
            return False
        first = self.read()
        if between is not None:
            between()
            self.restart()
            again, lacking = self.read(), set(altered())
            kept = [without_reads(batches, lacking) for batches in (first, again)]
            assert exact_bytes(kept[0]) == exact_bytes(kept[1]), "a replayed batch differs"
            first = again
        self.log.extend(changes(first))
        assert self.planned is not None
        self.offset = self.planned[1]
        self.reader.commit(dict(self.offset))
        return True

    def batches(self, n: int) -> None:
        """That many micro-batches, some of which may find nothing new."""
        for _ in range(n):
            self.batch()

    def stop(self) -> None:
        self.reader.stop()
