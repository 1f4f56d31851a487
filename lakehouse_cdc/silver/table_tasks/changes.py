"""The row changes that files of bronze hold of one table, and the last one of each key, in Arrow's columns.

Images are read by the kernels of `images.typed`, which take nothing but what our own encoder writes under the schema;
the keys of all rows, then the rows of those that are wanted. A key is an image too: of its columns alone, in its order.
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
from lakehouse_cdc.model.own_columns import OwnColumns
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.load.bronze_images import (
    SEQ,
    TIME,
    commit_times,
    image_parts,
    require_among,
    row_batches,
)

MOST_BYTES = 256 << 20  # of a table's rows of bronze, as Arrow has them
_READ = ["seq", "op", "key", "after", "commit_ts", "schema_id"]
_ROWS = pa.array(["r", "c", "u", "d"])


@dataclass(frozen=True)
class Changes:
    """Row changes, in no order: their keys, seqs, whether each is a delete, and where it came from."""

    schema: TableSchema
    keys: pa.Table
    seqs: pa.Array
    deleted: pa.Array
    times: pa.Array
    batches: tuple[pa.RecordBatch, ...]
    of_batch: npt.NDArray[np.int64]  # the number of each change's batch ...
    of_row: npt.NDArray[np.int64]  # ... and of its row in it

    @classmethod
    def read(cls, folder: str, paths: Sequence[str], schema: TableSchema, schema_ids: frozenset[str]) -> Changes:
        """Those of the files. Raises NotOurs for anything that is not just as our own writers leave it."""
        keys = ImageColumns(_key_schema(schema))
        names = list(schema.key)
        batches: list[pa.RecordBatch] = []
        parts: list[tuple[list[Any], Any, Any, Any, Any, Any]] = []
        held = 0
        for path in paths:
            for batch in row_batches(os.path.join(folder, path), _READ):
                held += batch.nbytes
                if held > MOST_BYTES:
                    raise NotOurs("so many changes are merged by Spark")
                ops = batch.column("op")
                chosen = np.flatnonzero(pc.is_in(ops, value_set=_ROWS).to_numpy(zero_copy_only=False))
                if len(chosen):
                    parts += _read_keys(batch, chosen, keys, schema, schema_ids, len(batches))
                    batches.append(batch)
        kinds = [arrow_type(require(column, schema.name)) for column in schema.key_columns]
        arrays = [_joined([part[0][c] for part in parts], kind) for c, kind in enumerate(kinds)]
        places = [np.concatenate([np.empty(0, np.int64), *(part[i] for part in parts)]) for i in (4, 5)]
        seqs, deleted, times = (
            _joined([part[i] for part in parts], kind) for i, kind in ((1, SEQ), (2, pa.bool_()), (3, TIME))
        )
        return cls(schema, pa.table(arrays, names=names), seqs, deleted, times, tuple(batches), *places)

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
        images, there = self._images(wanted[~went])
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

    def _images(self, numbers: npt.NDArray[np.int64]) -> tuple[list[list[Any]], npt.NDArray[np.int64]]:
        """The columns of those changes' rows, in pieces, and the numbers in the order in which they come."""
        images = ImageColumns(self.schema)
        pieces: list[list[Any]] = [[] for _ in self.schema.captured]
        numbered: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
        for i, batch in enumerate(self.batches):
            mine = numbers[self.of_batch[numbers] == i]
            if not len(mine):
                continue
            chosen = self.of_row[mine]
            value, metadata = image_parts(batch.column("after"), chosen)
            require_among(metadata, [row_metadata(self.schema)], chosen, "an image has other fields")
            for block in images.read(value, chosen):
                for piece, column in zip(pieces, block, strict=True):
                    piece.append(column)
            numbered.append(mine)
        return pieces, np.concatenate(numbered)


_AT = "_at" * 32  # longer than a name of MySQL's


def _key_schema(schema: TableSchema) -> TableSchema:
    """The key's columns as a row of their own."""
    return replace(schema, columns=tuple(schema.key_columns))


def _read_keys(
    batch: pa.RecordBatch,
    chosen: npt.NDArray[np.int64],
    keys: ImageColumns,
    schema: TableSchema,
    schema_ids: frozenset[str],
    number: int,
) -> Iterator[tuple[list[Any], Any, Any, Any, Any, Any]]:
    """(key columns, seqs, whether deleted, commit times, number of the batch, of the row) of the chosen rows."""
    value, metadata = image_parts(batch.column("key"), chosen)
    require_among(metadata, [key_metadata(schema)], chosen, "a key has other fields")
    require_among(batch.column("schema_id"), sorted(schema_ids), chosen, "a row is of another schema")
    seqs, times = batch.column("seq").take(pa.array(chosen)), commit_times(batch, chosen)
    if seqs.type != SEQ or seqs.null_count:
        raise NotOurs(f"seqs are {seqs.type}")
    deleted = pc.equal(batch.column("op").take(pa.array(chosen)), "d")
    at = 0
    for columns in keys.read(value, chosen):
        n = len(columns[0])
        if any(column.null_count for column in columns):
            raise NotOurs("a column of a key is NULL")
        piece = slice(at, at + n)
        of = np.full(n, number, np.int64)
        yield columns, seqs[piece], deleted[piece], times[piece], of, chosen[piece]
        at += n


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
