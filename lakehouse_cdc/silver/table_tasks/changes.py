"""The row changes that files of bronze hold of one table, and the last one of each key, in Arrow's columns.

Images are read by the kernels of `images.typed`, which take nothing but what our own encoder writes under the schema;
the keys of all rows, then the rows of those that are wanted. A key is an image too: of its columns alone, in its order.
Rows of a table without a key have none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_cdc.images.program import key_metadata, row_metadata
from lakehouse_cdc.images.typed.columns import ImageColumns, NotOurs, arrow_type
from lakehouse_cdc.lake.direct.rust_table import literal
from lakehouse_cdc.model.own_columns import OwnColumns
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.batch.seq_range import EVERYTHING, SeqRange
from lakehouse_cdc.silver.load.bronze_images import SEQ, TIME, commit_times, row_batches
from lakehouse_cdc.sinks.stored_images import image_parts, require_among, stored

MOST_BYTES = 256 << 20  # of a table's rows of bronze, as Arrow has them
_READ = ["seq", "op", "key", "after", "commit_ts", "schema_id"]
_RANGED = (pa.types.is_integer, pa.types.is_date)
_ROWS = pa.array(["r", "c", "u", "d"])


@dataclass(frozen=True)
class Changes:
    """Row changes, in no order: their keys, seqs, ops and commit times, and where each came from."""

    schema: TableSchema
    keys: pa.Table
    seqs: pa.Array
    ops: pa.Array
    times: pa.Array
    batches: tuple[pa.RecordBatch, ...]
    of_batch: npt.NDArray[np.int64]  # the number of each change's batch ...
    of_row: npt.NDArray[np.int64]  # ... and of its row in it

    @classmethod
    def read(
        cls,
        folder: str,
        paths: Sequence[str],
        schema: TableSchema,
        schema_ids: frozenset[str],
        *,
        among: SeqRange = EVERYTHING,
        befores: bool = False,
    ) -> Changes:
        """Those of the files in a range of seqs; `befores`: with the images of rows before them.

        Raises NotOurs for anything that is not just as our own writers leave it.
        """
        keys = ImageColumns(_key_schema(schema)) if schema.key else None
        names, read = list(schema.key), [*_READ, *["before"] * befores]
        batches: list[pa.RecordBatch] = []
        parts: list[tuple[list[Any], Any, Any, Any, Any, Any]] = []
        held = 0
        for path in paths:
            for batch in row_batches(os.path.join(folder, path), read):
                held += batch.nbytes
                if held > MOST_BYTES:
                    raise NotOurs("so many changes are merged by Spark")
                ops = batch.column("op")
                wanted = pc.is_in(ops, value_set=_ROWS)
                if not among.whole:
                    wanted = pc.and_(wanted, among.of(batch.column("seq")))
                chosen = np.flatnonzero(wanted.to_numpy(zero_copy_only=False))
                if len(chosen):
                    parts += _read_keys(batch, chosen, keys, schema, schema_ids, len(batches))
                    batches.append(batch)
        kinds = [arrow_type(require(column, schema.name)) for column in schema.key_columns]
        arrays = [_joined([part[0][c] for part in parts], kind) for c, kind in enumerate(kinds)]
        places = [np.concatenate([np.empty(0, np.int64), *(part[i] for part in parts)]) for i in (4, 5)]
        seqs, ops, times = (
            _joined([part[i] for part in parts], kind) for i, kind in ((1, SEQ), (2, pa.string()), (3, TIME))
        )
        return cls(schema, pa.table(arrays, names=names), seqs, ops, times, tuple(batches), *places)

    def __len__(self) -> int:
        return len(self.seqs)

    @property
    def deleted(self) -> pa.Array:
        """Whether each is a delete."""
        return pc.equal(self.ops, "d")

    def latest(self) -> pa.Array:
        """The last change of each key by seq: their numbers."""
        order = pc.sort_indices(self.seqs)
        ranked = self.keys.take(order).append_column(_AT, pa.array(np.arange(len(order), dtype=np.int64)))
        last = ranked.group_by(list(self.schema.key), use_threads=False).aggregate([(_AT, "max")])
        return order.take(last.column(f"{_AT}_max").combine_chunks())

    def rows(self, numbers: pa.Array, own: OwnColumns, deleted: str) -> pa.Table:
        """Those changes, in any order, as rows of silver: the columns of the schema, seq, commit time; and `deleted`.

        That column says whether the row was deleted. Then it has its key, and NULL in every other column of the schema.
        Raises NotOurs.
        """
        captured, name = self.schema.captured, self.schema.name
        wanted, went = numbers.to_numpy().astype(np.int64), self.deleted.take(numbers).to_numpy(zero_copy_only=False)
        images, there = self._images(wanted[~went], "after")
        gone = wanted[went]
        keys = self.keys.take(pa.array(gone)).combine_chunks()
        columns: dict[str, Any] = {}
        for column, pieces in zip(captured, images, strict=True):
            kind = arrow_type(require(column, name))
            lacking = keys.column(column.name).chunks if column.name in self.schema.key else [pa.nulls(len(gone), kind)]
            columns[column.name] = _joined([*pieces, *lacking], kind)
        order = pa.array(np.concatenate([there, gone]))
        columns |= {own.seq: self.seqs.take(order), own.commit_ts: self.times.take(order)}
        return pa.table({**columns, deleted: self.deleted.take(order)})

    def images(self, numbers: npt.NDArray[np.int64], column: str) -> tuple[pa.Table, npt.NDArray[np.int64]]:
        """The rows that those changes have in the image `column`, and the numbers in their order. Raises NotOurs."""
        pieces, order = self._images(numbers, column)
        kinds = {column.name: arrow_type(require(column, self.schema.name)) for column in self.schema.captured}
        arrays = [_joined(piece, kind) for piece, kind in zip(pieces, kinds.values(), strict=True)]
        return pa.table(arrays, names=list(kinds)), order

    def with_image(self, column: str) -> npt.NDArray[np.bool_]:
        """Whether each change has that image."""
        there = np.zeros(len(self), bool)
        for i, batch in enumerate(self.batches):
            mine = self.of_batch == i
            there[mine] = stored(batch.column(column)).is_valid().to_numpy(zero_copy_only=False)[self.of_row[mine]]
        return there

    def _images(self, numbers: npt.NDArray[np.int64], column: str) -> tuple[list[list[Any]], npt.NDArray[np.int64]]:
        """The columns of those changes' rows, in pieces, and the numbers in the order in which they come."""
        images = ImageColumns(self.schema)
        pieces: list[list[Any]] = [[] for _ in self.schema.captured]
        numbered: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
        for i, batch in enumerate(self.batches):
            mine = numbers[self.of_batch[numbers] == i]
            if not len(mine):
                continue
            chosen = self.of_row[mine]
            value, metadata = image_parts(batch.column(column), chosen)
            require_among(metadata, [row_metadata(self.schema)], chosen, "an image has other fields")
            for block in images.read(value, chosen):
                for piece, values in zip(pieces, block, strict=True):
                    piece.append(values)
            numbered.append(mine)
        return pieces, np.concatenate(numbered)


_AT = "_at" * 32  # longer than a name of MySQL's


def _key_schema(schema: TableSchema) -> TableSchema:
    """The key's columns as a row of their own."""
    return replace(schema, columns=tuple(schema.key_columns))


def _read_keys(
    batch: pa.RecordBatch,
    chosen: npt.NDArray[np.int64],
    keys: ImageColumns | None,
    schema: TableSchema,
    schema_ids: frozenset[str],
    number: int,
) -> Iterator[tuple[list[Any], Any, Any, Any, Any, Any]]:
    """(key columns, seqs, ops, commit times, number of the batch, of the row) of the chosen rows."""
    require_among(batch.column("schema_id"), sorted(schema_ids), chosen, "a row is of another schema")
    seqs, times = batch.column("seq").take(pa.array(chosen)), commit_times(batch, chosen)
    if seqs.type != SEQ or seqs.null_count:
        raise NotOurs(f"seqs are {seqs.type}")
    ops = batch.column("op").take(pa.array(chosen)).cast(pa.string())
    at = 0
    for columns, n in _blocks(batch, chosen, keys, schema):
        if any(column.null_count for column in columns):
            raise NotOurs("a column of a key is NULL")
        piece = slice(at, at + n)
        of = np.full(n, number, np.int64)
        yield columns, seqs[piece], ops[piece], times[piece], of, chosen[piece]
        at += n


def _blocks(
    batch: pa.RecordBatch, chosen: npt.NDArray[np.int64], keys: ImageColumns | None, schema: TableSchema
) -> Iterator[tuple[list[Any], int]]:
    """The columns of keys, of so many rows at a time."""
    if keys is None:
        yield [], len(chosen)
        return
    value, metadata = image_parts(batch.column("key"), chosen)
    require_among(metadata, [key_metadata(schema)], chosen, "a key has other fields")
    for columns in keys.read(value, chosen):
        yield columns, len(columns[0])


def _joined(arrays: Sequence[Any], kind: Any) -> Any:
    return pa.concat_arrays([pa.array([], kind), *arrays])


def same_keys(graves: pa.Table, schema: pa.Schema) -> pa.Table:
    """The keys of tombstones (column `key`, a struct) as those of `schema`."""
    column = graves.column("key")
    fields = [pc.struct_field(column, field.name).cast(field.type) for field in schema]
    return pa.Table.from_arrays(fields, schema=schema)


def rank_in(keys: pa.Table, others: pa.Table, seqs: Any) -> pa.Array:
    """For each of the keys, which are distinct, the greatest of the others' seqs that are of the same key, or NULL."""
    n, names = len(keys), keys.column_names
    mine = keys.append_column(_AT, pa.array(np.arange(n, dtype=np.int64))).append_column("seq_" + _AT, pa.nulls(n, SEQ))
    theirs = others.append_column(_AT, pa.nulls(len(others), pa.int64())).append_column("seq_" + _AT, seqs)
    both = pa.concat_tables([mine, theirs]).group_by(names, use_threads=False)
    met = both.aggregate([(_AT, "max"), ("seq_" + _AT, "max")])
    met = met.filter(pc.is_valid(met.column(f"{_AT}_max"))).sort_by(f"{_AT}_max")
    return met.column(f"seq_{_AT}_max").combine_chunks()


def range_of(rows: pa.Table, schema: TableSchema) -> tuple[str, Any, Any] | None:
    """The first key column of the rows, its least and greatest value, where it is one by which files are left out."""
    first = schema.key[0]
    if not len(rows) or not any(is_kind(rows.schema.field(first).type) for is_kind in _RANGED):
        return None
    ends = pc.min_max(rows.column(first))
    return first, ends["min"], ends["max"]


def within(rows: pa.Table, schema: TableSchema) -> tuple[str, str, str] | None:
    """The same as `Merge.within`."""
    ranged = range_of(rows, schema)
    if ranged is None:
        return None
    name, least, greatest = ranged
    return name, literal(least.as_py(), least.type), literal(greatest.as_py(), greatest.type)


def same_rows(tables: Sequence[pa.Table]) -> list[npt.NDArray[np.int64]]:
    """Numbers for the rows of tables with the same columns: the same for rows that are so to Spark's `<=>`."""
    ends = np.cumsum([len(table) for table in tables])[:-1]
    whole = pa.concat_tables(tables)
    numbers = np.zeros(len(whole), np.int64)
    for column in whole.columns:
        both = np.stack([numbers, _same_values(column.combine_chunks())], axis=1)
        numbers = np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)
    return [np.asarray(one) for one in np.split(numbers, ends)]


def _same_values(column: Any) -> npt.NDArray[np.int64]:
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays([pa.array([], column.type), *column.chunks])
    if pa.types.is_nested(column.type):
        met: dict[Any, int] = {}
        values = (None if value is None else tuple(value) for value in column.to_pylist())
        return np.fromiter((met.setdefault(value, len(met)) for value in values), np.int64, len(column))
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))  # 0.0 and -0.0 are one to Spark
    encoded = column.dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)


def whole_numbers(seqs: Any) -> list[int]:
    """Seqs as Python's integers."""
    return [int(seq) for seq in seqs.to_pylist()]
