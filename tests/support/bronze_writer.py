"""A lakehouse on disk whose bronze is written change by change, as the source would write it."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from lakehouse_cdc.bronze.sink import BronzeBatch, write_batch
from lakehouse_cdc.bronze.tables import create_bronze
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.direct.change_files import written
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.bronze_arrow import LINE
from lakehouse_cdc.model.bronze_row import FILES
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.commit_note import CommitNote, SourcePoint
from lakehouse_cdc.model.history import History, Version
from lakehouse_cdc.model.own_columns import DEFAULT
from lakehouse_cdc.model.seq import unpack
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.model.variant import encode, metadata
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.definition.form import form_of_columns
from lakehouse_cdc.silver.tables.known_schemas import schemas_in_force
from lakehouse_cdc.silver.time_travel import rows_at
from tests.support.row_images import image as row_image

_BY_ROWS = 3  # every so manieth batch goes through Spark's writer, the others are written as files
UUID = "6f0b0f2e-0000-4000-8000-000000000001"
_VARIANT = [
    pa.field("value", pa.binary(), nullable=False),
    pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
]


def variant_column(values: Sequence[Any], schemas: Sequence[TableSchema] | None = None) -> pa.Array:
    """VARIANTs of plain values; None is NULL. Rows of `schemas`, where these are given, are as the source writes them.

    A value that no row of the schema can have is written as what it is.
    """
    pairs = [encode(v) if v is not None else (b"\x00", b"") for v in values]
    for i, (value, schema) in enumerate(zip(values, schemas or (), strict=False)):
        if isinstance(value, dict) and value.keys() == {c.name for c in schema.captured}:
            with suppress(OverflowError, ValueError, TypeError, ArithmeticError, AttributeError, struct.error):
                pairs[i] = row_image(schema, value), metadata([column.name for column in schema.captured])
    parts = [pa.array([p[i] for p in pairs], pa.binary()) for i in (0, 1)]
    return pa.StructArray.from_arrays(parts, fields=_VARIANT, mask=pa.array([v is None for v in values], pa.bool_()))


def bronze_rows(changes: Iterable[Change], schema_at: Callable[[str, int], TableSchema]) -> pa.Table:
    """Changes as rows of bronze. A change's key is the tuple of the key's values.

    The `after` of a table's first s is a TableSchema; a later one has images, as bronze does. `schema_at` tells a
    table's schema just after a seq.
    """
    rows = list(changes)
    keys, befores, afters, positions = [], [], [], []
    ids, of_rows, of_keys = [], [], []
    for c in rows:
        schema = c.after if isinstance(c.after, TableSchema) else schema_at(c.table, c.seq)
        ids.append(schema.id)
        of_rows.append(schema)
        of_keys.append(replace(schema, columns=tuple(schema.key_columns)))
        keys.append(None if c.key is None else dict(zip(schema.key, c.key, strict=True)))  # type: ignore[call-overload]
        befores.append(c.before)
        image = Decimal(c.after) if c.op is Op.END else c.after
        afters.append({**schema.to_dict(), "statement": None} if isinstance(c.after, TableSchema) else image)
        seq = unpack(c.seq)
        where = {"server_uuid": UUID, "file": f"binlog.{seq.file:06d}", "pos": seq.pos, "gtid": None}
        positions.append(where)
    position = pa.struct(
        [("server_uuid", pa.string()), ("file", pa.string()), ("pos", pa.int64()), ("gtid", pa.string())]
    )
    return pa.table(
        {
            "seq": pa.array([Decimal(c.seq) for c in rows], pa.decimal128(38, 0)),
            "op": pa.array([c.op.value for c in rows], pa.string()),
            "source_table": pa.array([c.table for c in rows], pa.string()),
            "key": variant_column(keys, of_keys),
            "before": variant_column(befores, of_rows),
            "after": variant_column(afters, of_rows),
            "commit_ts": pa.array([commit_time(c.seq) for c in rows], pa.timestamp("us", tz="UTC")),
            "position": pa.array(positions, position),
            "schema_id": pa.array(ids, pa.string()),
        }
    )


def in_spark(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """The rows as a frame."""
    found: DataFrame = spark.createDataFrame(rows)
    return found


def as_files(spark: SparkSession, rows: pa.Table, folder: str) -> DataFrame:
    """The rows as the source's tasks hand them on that write files: a line for each."""
    lines = pa.Table.from_batches(list(written(rows.to_batches(), folder)), LINE)
    return in_spark(spark, lines) if lines.num_rows else spark.createDataFrame([], FILES)


def commit_time(seq: int) -> datetime:
    """The commit time that the change of that seq carries here."""
    return datetime.fromtimestamp(1_700_000_000 + unpack(seq).pos, timezone.utc)


@dataclass
class Lake:
    """A pipeline's tables in a folder, or at `root`, with a checkpoint that is written by hand: no stream is needed."""

    spark: SparkSession
    folder: Path
    schemas: dict[str, TableSchema]
    batches: int = 0
    written: list[Change] = field(default_factory=list)
    altered: list[tuple[int, str, TableSchema]] = field(default_factory=list)  # (seq, table, schema since then)
    ends: dict[int, int] = field(default_factory=dict)  # bronze version -> position at which it ends
    seen: Callable[[TableSchema], TableSchema] = lambda schema: schema  # what silver makes of a schema
    root: str = ""

    def __post_init__(self) -> None:
        self.layout = Layout("tests", bronze="b", silver="s", path=self.root or str(self.folder / "lake"))
        self.checkpoint = Checkpoint(str(self.folder / "checkpoint"))
        create_bronze(self.spark, self.layout)
        (self.folder / "checkpoint" / "offsets").mkdir(parents=True)
        (self.folder / "checkpoint" / "metadata").write_text(json.dumps({"id": "the-bronze-query"}))

    def commit(
        self,
        changes: Sequence[Change],
        reading: Mapping[str, int] | None = None,
        bounds: tuple[int, int] | None = None,
    ) -> BronzeBatch:
        """Write one micro-batch into bronze; `reading` are the tables that are being read at its end."""
        batch, pos = self.batches, max((unpack(c.seq).pos for c in changes), default=0)
        offset: dict[str, Any] = {"epoch": 1, "server_uuid": UUID, "file": "binlog.000001", "pos": pos, "gtid": ""}
        offset |= {"commit_ts": 7} if bounds is None else {"commit_ts": 7, "bounds": list(bounds)}
        path = self.folder / "checkpoint" / "offsets" / str(batch)
        path.write_text("v1\n{}\n" + json.dumps(offset))
        for c in changes:
            if c.op is Op.SCHEMA and not isinstance(c.after, TableSchema) and not c.leaves:
                self.altered.append((c.seq, c.table, TableSchema.from_dict(c.after)))
        found = bronze_rows(changes, self.schema_at)
        by_files = batch % _BY_ROWS and self.layout.changes.path
        rows = as_files(self.spark, found, by_files) if by_files else in_spark(self.spark, found)
        tell = None if reading is None else lambda _: reading
        done = write_batch(self.spark, rows, batch, self.layout, self.checkpoint, tell)
        self.batches += 1
        self.ends[done.version] = pos
        self.written += changes
        return done

    def note(self, versions: Versions, query: str = "the-silver-query", batch: int | None = None) -> CommitNote:
        """What silver's commits of those bronze commits say; the batch is numbered as its last commit."""
        standing = SourcePoint(1, UUID, "binlog.000001", self.ends[versions.last])
        return CommitNote("tests", query, versions.last if batch is None else batch, standing, versions.last)

    def schema_at(self, table: str, seq: int) -> TableSchema:
        """The schema of a table just after that seq."""
        found = [(at, schema) for at, name, schema in self.altered if name == table and at <= seq]
        return max(found, key=lambda f: f[0])[1] if found else self.schemas[table]

    def rows(self, table: str) -> list[tuple[int, dict[str, Any]]]:
        """The rows of the silver table as they are now, as (seq, image) under the newest schema."""
        frame, own = read(self.spark, self.layout.silver_table(table)), self.layout.own
        current = form_of_columns(frame.columns, own).is_current(own)
        return images(frame.where(current), self.seen(self.schema_at(table, 10**38)))

    def rows_at(self, table: str, seq: int) -> list[tuple[int, dict[str, Any]]]:
        """The same as of `seq`."""
        schemas = schemas_in_force(SparkReader(self.spark), self.layout, [table])[table]
        return images(rows_at(self.spark, self.layout, table, seq, schemas), self.seen(self.schema_at(table, seq)))

    def history(self, table: str) -> History:
        """The silver table of type 2 in the form of `histories`."""
        schema = self.seen(self.schema_at(table, 10**38))
        found: History = {}
        for row in read(self.spark, self.layout.silver_table(table)).orderBy("__START_AT.seq").collect():
            start, end, seq = row["__START_AT"], row["__END_AT"], int(row["_seq"])
            for at, moment in ((seq, row["_commit_ts"]), *((int(m.seq), m.commit_ts) for m in (start, end) if m)):
                assert moment.astimezone(timezone.utc) == commit_time(at)
            image = {c.name: _plain(row[c.name]) for c in schema.captured}
            version = Version(int(start.seq), None if end is None else int(end.seq), seq, image)
            found.setdefault((table, tuple(image[k] for k in schema.key)), []).append(version)
        return found

    def kept(self, table: str) -> dict[tuple[str, Any], tuple[datetime | None, int, Any]]:
        """The silver table with soft deletes, gone or not, as since when it is gone, seq and image."""
        schema, frame = self.seen(self.schema_at(table, 10**38)), read(self.spark, self.layout.silver_table(table))
        found: dict[tuple[str, Any], tuple[datetime | None, int, Any]] = {}
        for row in frame.collect():
            image = {c.name: _plain(row[c.name]) for c in schema.captured}
            name = (table, tuple(image[k] for k in schema.key))
            assert name not in found, f"{name} is there twice"
            assert row["_commit_ts"].astimezone(timezone.utc) == commit_time(int(row["_seq"]))
            found[name] = (gone_at(row), int(row["_seq"]), image)
        return found

    def silver(self, table: str) -> dict[tuple[str, Any], tuple[int, Any]]:
        """The silver table in the form of `fold`."""
        key = self.seen(self.schema_at(table, 10**38)).key
        found: dict[tuple[str, Any], tuple[int, Any]] = {}
        for seq, image in self.rows(table):
            name = (table, tuple(image[k] for k in key))
            assert name not in found, f"{name} is there twice"
            found[name] = (seq, image)
        return found


def gone_at(row: Row) -> datetime | None:
    """Since when a row of a table with soft deletes is gone."""
    moment: datetime | None = row[DEFAULT.deleted_at]
    return None if moment is None else moment.astimezone(timezone.utc)


def images(frame: DataFrame, schema: TableSchema) -> list[tuple[int, dict[str, Any]]]:
    """Rows of silver as (seq, image)."""
    found = []
    for row in frame.collect():
        assert row["_commit_ts"].astimezone(timezone.utc) == commit_time(int(row["_seq"]))
        found.append((int(row["_seq"]), {c.name: _plain(row[c.name]) for c in schema.captured}))
    return found


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value
