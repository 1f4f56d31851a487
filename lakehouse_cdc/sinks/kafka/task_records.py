"""Rows of bronze as records of Kafka, made by Spark's tasks; the driver only takes them in order.

A task gets rows in their order, and gives a `Line` for each few thousand of them, in that order: the records of those
rows whose messages it has made, and all other rows as they are, which the driver writes one by one. It makes messages
of row changes under schemas that the driver has given it (`Plan`): by columns, where the format has a writer of columns
and the images are what our own encoder writes of that schema, which `images.typed` proves; one by one for the other
formats. Whatever it does not understand it leaves to the driver, whose writer has the say, and raises what is wrong.

So the records of a line, with the messages of its other rows in their places, are the messages that the plain writers
would give of all of its rows, but for the time of writing: there is one for all rows of a line. No row is in both.

Guard: tests/sinks/kafka/test_task_records.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.images.program import key_metadata, row_metadata
from lakehouse_cdc.images.typed.columns import ImageColumns, NotOurs, arrow_type
from lakehouse_cdc.messages.change import RowChange, Settings, Writer
from lakehouse_cdc.messages.columnwise import ColumnWriter, Images, Stretch, Written
from lakehouse_cdc.messages.formats import FORMATS, FormatName, by_columns
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import Kind
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.sinks.stored_images import image_parts, require_among, stored

LINE = "rows INT, records BINARY, others BINARY"  # as Spark reads it
ROW = ("seq", "op", "source_table", "key", "before", "after", "commit_us", "file", "pos", "gtid", "schema_id")
NUMBER = "_row"  # of a row in its line, from 0
_LINE = pa.schema([("rows", pa.int32()), ("records", pa.binary()), ("others", pa.binary())])
_CHANGES = pa.array([op.value for op in (Op.READ, Op.INSERT, Op.UPDATE, Op.DELETE)])
_MOST_ROWS, _MOST_BYTES = 8_192, 4 << 20  # of a line: rows, and bytes of their images
_FEW = 8  # rows of one schema in a line for which columns are not worth their cost
# what Python's dates and moments reach
_DAYS = (-719_162, 2_932_896)
_MICROS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)

_Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """What tasks are given: the format, and the tables whose rows they write, by the ids of their schemas."""

    format: FormatName
    tables: Mapping[str, tuple[TableSchema, Settings]]

    def lines(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A line for each few of those rows, whose columns are `ROW`."""
        tables = {one: _Table(schema, settings, self.format) for one, (schema, settings) in self.tables.items()}
        for batch in batches:
            for piece in _cut(batch):
                yield _line(piece, tables)


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Pieces of a batch, none of which has too many rows or bytes; one row may have more."""
    sizes = sum(
        pc.binary_length(stored(batch.column(name)).field("value")).fill_null(0).to_numpy(zero_copy_only=False)
        for name in ("before", "after")
    )
    ends, at = np.cumsum(np.asarray(sizes, np.int64)), 0
    while at < batch.num_rows:
        before = ends[at - 1] if at else 0
        until = int(np.searchsorted(ends, before + _MOST_BYTES, "right"))
        until = max(at + 1, min(at + _MOST_ROWS, until))
        yield batch.slice(at, until - at)
        at = until


def _line(rows: pa.RecordBatch, tables: Mapping[str, _Table]) -> pa.RecordBatch:
    n, ids = rows.num_rows, rows.column("schema_id")
    left, ready = np.ones(n, bool), list[tuple[str, _Places, Written]]()
    for schema_id in pc.unique(ids).to_pylist():
        table = tables.get(schema_id)
        if table is None:
            continue
        mine = pc.and_(pc.equal(ids, schema_id), pc.is_in(rows.column("op"), value_set=_CHANGES))
        chosen = np.flatnonzero(mine.to_numpy(zero_copy_only=False))
        if (written := table.written(rows, chosen)) is not None:
            places, made = written
            left[places] = False
            ready.append((schema_id, places[made.of], made))
    records = _records(rows.column("seq"), ready) if ready else None
    others = None
    if left.any():
        places = pa.array(np.flatnonzero(left))
        others = _packed(rows.take(places).append_column(NUMBER, places))
    return pa.RecordBatch.from_pylist([{"rows": n, "records": records, "others": others}], _LINE)


def _records(seqs: Any, ready: Sequence[tuple[str, _Places, Written]]) -> bytes:
    """The messages in the order of their rows: the row's number, its schema's number, key, value and seq."""
    of = np.concatenate([places for _, places, _ in ready])
    tables = np.repeat(np.arange(len(ready)), [len(places) for _, places, _ in ready])
    keys = pa.concat_arrays([made.keys for _, _, made in ready])
    values = pa.concat_arrays([made.values for _, _, made in ready])
    if len(ready) > 1:
        order = np.argsort(of, kind="stable")
        of, tables, keys, values = of[order], tables[order], keys.take(pa.array(order)), values.take(pa.array(order))
    columns = {"row": of, "table": tables, "key": keys, "value": values, "seq": seqs.take(pa.array(of))}
    schema_ids = {str(i): schema_id for i, (schema_id, _, _) in enumerate(ready)}
    return _packed(pa.RecordBatch.from_pydict(columns, metadata=schema_ids))


def _packed(batch: pa.RecordBatch) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    packed: bytes = out.getvalue().to_pybytes()
    return packed


def unpacked(packed: bytes) -> pa.RecordBatch:
    """What a line has in `records` or in `others`."""
    return pa.ipc.open_stream(packed).read_next_batch()


class _Table:
    """A table's rows under one schema."""

    def __init__(self, schema: TableSchema, settings: Settings, form: FormatName) -> None:
        self._schema, self._settings, self._format = schema, settings, form

    def written(self, rows: pa.RecordBatch, chosen: _Places) -> tuple[_Places, Written] | None:
        """The places of the chosen rows, or of some of them, and the messages of these."""
        try:
            if self._columns is None:
                return chosen, self._one_by_one(rows, chosen)
            if len(chosen) >= _FEW and len(fit := self._fit(rows, chosen)):
                return fit, self._columns(self._stretch(rows, fit), _now_us())
        except (NotOurs, ValueError, CdcError):
            pass  # the driver writes them, and says what is wrong
        return None

    @cached_property
    def _columns(self) -> ColumnWriter | None:
        made = by_columns(self._format)
        return None if made is None else made(self._schema, self._settings)

    @cached_property
    def _plain(self) -> Writer:
        return FORMATS[self._format](self._schema, self._settings)

    @cached_property
    def _images(self) -> _Reader:
        return _Reader(self._schema, row_metadata(self._schema))

    @cached_property
    def _keys(self) -> _Reader:
        of_key = replace(self._schema, columns=tuple(self._schema.key_columns))
        return _Reader(of_key, key_metadata(self._schema))

    def _fit(self, rows: pa.RecordBatch, chosen: _Places) -> _Places:
        """Those that have a key if the table has, and the image that their op wants."""
        gone = pc.equal(rows.column("op"), Op.DELETE.value).to_numpy(zero_copy_only=False)[chosen]
        key, before, after = (_there(rows.column(name))[chosen] for name in ("key", "before", "after"))
        fit: _Places = chosen[np.where(gone, before, after) & (key == bool(self._schema.key))]
        return fit

    def _stretch(self, rows: pa.RecordBatch, places: _Places) -> Stretch:
        at = pa.array(places)
        ops = rows.column("op").take(at)
        with_after = np.flatnonzero(pc.not_equal(ops, Op.DELETE.value).to_numpy(zero_copy_only=False))
        with_before = np.flatnonzero(_there(rows.column("before"))[places])
        before, after = (
            Images(self._images.read(rows.column(name), places[of]), of)
            for name, of in (("before", with_before), ("after", with_after))
        )
        key = None
        if self._schema.key:
            key = self._keys.read(rows.column("key"), places)
            if any(column.null_count for column in key):
                raise NotOurs("a column of a key is NULL")
        numbers = (rows.column(name).take(at).fill_null(0).to_numpy() for name in ("commit_us", "pos"))
        commit_us, pos = numbers
        return Stretch(
            rows.column("seq").take(at), ops, key, before, after, commit_us,
            rows.column("file").take(at).fill_null(""), pos, rows.column("gtid").take(at),
        )  # fmt: skip

    def _one_by_one(self, rows: pa.RecordBatch, places: _Places) -> Written:
        now_us, of, keys, values = _now_us(), [], [], []
        for i, row in enumerate(rows.take(pa.array(places)).to_pylist()):
            for message in self._plain(change_of(row), now_us):
                of.append(i)
                keys.append(message.key)
                values.append(message.value)
        return Written(np.array(of, np.int64), pa.array(keys, pa.binary()), pa.array(values, pa.binary()))


class _Reader:
    """Reads images of that schema, with JSON as the texts that images have."""

    def __init__(self, schema: TableSchema, metadata: bytes) -> None:
        schema = _without_json(schema)
        self._columns, self._metadata = ImageColumns(schema), metadata
        self._kinds = [arrow_type(require(column, schema.name)) for column in schema.captured]

    def read(self, column: Any, places: _Places) -> list[Any]:
        """The captured columns of the images at those places of a VARIANT column. Raises NotOurs."""
        if not len(places):
            return [pa.array([], kind) for kind in self._kinds]
        value, names = image_parts(column, places)
        require_among(names, [self._metadata], places, "an image has other fields")
        blocks = list(self._columns.read(value, places))
        columns = blocks[0] if len(blocks) == 1 else [pa.concat_arrays(pieces) for pieces in zip(*blocks, strict=True)]
        _require_python_s(columns)
        return columns


def change_of(row: Mapping[str, Any]) -> RowChange:
    """A row that has the columns `ROW`, decoded. Raises DefiniteError for an image that cannot be read."""
    key, before, after = (None if (one := row[name]) is None else _decoded(one) for name in ("key", "before", "after"))
    return RowChange(
        int(row["seq"]), Op(row["op"]), key, before, after, row["commit_us"] or 0, row["file"] or "", row["pos"] or 0,
        row["gtid"],
    )  # fmt: skip


def _decoded(image: Mapping[str, bytes]) -> Any:
    return decode(image["value"], image["metadata"])


def _there(images: Any) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = stored(images).is_valid().to_numpy(zero_copy_only=False)
    return valid


def _without_json(schema: TableSchema) -> TableSchema:
    """The schema with texts in place of JSON, which images have as texts."""

    def shown(column: Column) -> Column:
        if not column.captured or require(column, schema.name).kind is not Kind.JSON:
            return column
        return replace(column, type="longtext", charset="utf8mb4")

    return replace(schema, columns=tuple(map(shown, schema.columns)))


def _require_python_s(columns: Sequence[Any]) -> None:
    """Raise NotOurs for a date or time that has no object of Python's: the writer of single rows refuses it."""
    for column in columns:
        dates, moments = pa.types.is_date32(column.type), pa.types.is_timestamp(column.type)
        if (dates or moments) and column.null_count < len(column):
            first, last = _DAYS if dates else _MICROS
            ends = pc.min_max(column.cast(pa.int32() if dates else pa.int64()))
            if ends["min"].as_py() < first or ends["max"].as_py() > last:
                raise NotOurs("a date that Python does not have")


def _now_us() -> int:
    return time.time_ns() // 1000
