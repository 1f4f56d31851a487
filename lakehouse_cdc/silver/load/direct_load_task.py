"""Files of bronze to files of a silver table, in a task: row images become columns and are written, without Spark.

Only the plain case is converted: rows of one read, each image just as our own encoder writes it under the schema. At
the first thing that is anything else the task gives up, says why, and leaves no file; Spark then has the load, and the
say of what is wrong with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.images.program import row_metadata
from lakehouse_cdc.images.typed.columns import ImageColumns, NotOurs
from lakehouse_cdc.lake.direct.data_file import FileWriter, NewFile, delete
from lakehouse_cdc.lake.direct.statistics import Path
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.load.bronze_images import SEQ, commit_times, row_batches
from lakehouse_cdc.sinks.stored_images import image_parts, require_among

FILE_ROWS = 500_000  # in a file of silver, at most
_GROUP_BYTES = 128 << 20  # of Arrow's columns, in one row group
_READ = ["seq", "op", "after", "commit_ts", "schema_id"]
_CHANGES = ("c", "u", "d")


@dataclass(frozen=True)
class Conversion:
    """What a task is given: the folders of both tables; the rows' schema, the ids that it goes by, their one seq.

    `own` are the columns that the form adds, each with whether it is NULL; if not, it is (seq, commit time). `columns`
    are those of the silver table as its files have them: the source's, then the form's, seq and commit time.
    """

    bronze: str
    silver: str
    schema: TableSchema
    schema_ids: frozenset[str]
    seq: int
    own: tuple[tuple[str, bool], ...]
    columns: pa.Schema
    statistics: tuple[Path, ...]


def convert(conversion: Conversion, paths: Sequence[str]) -> list[NewFile] | str:
    """The files that hold the rows of those files of bronze; or why there are none."""
    writer = _Writer(conversion)
    try:
        images = ImageColumns(conversion.schema)
        for path in paths:
            for batch in row_batches(os.path.join(conversion.bronze, path), _READ):
                for columns in _converted(batch, images, conversion):
                    writer.take(pa.RecordBatch.from_arrays(columns, schema=conversion.columns))
        return writer.end()
    except Exception as error:  # whatever it is, Spark has the say
        writer.discard()
        return f"{type(error).__name__}: {error}"
    except BaseException:
        writer.discard()
        raise


def _converted(batch: pa.RecordBatch, images: ImageColumns, conversion: Conversion) -> Iterator[list[Any]]:
    """The rows of a batch in blocks of columns, as `Conversion.columns` has them. Raises NotOurs."""
    ops = batch.column("op")
    if pc.any(pc.is_in(ops, value_set=pa.array(_CHANGES))).as_py():
        raise NotOurs("a row is no part of the read")
    chosen = np.flatnonzero(pc.equal(ops, "r").to_numpy(zero_copy_only=False))
    if not len(chosen):
        return
    value, metadata = image_parts(batch.column("after"), chosen)
    require_among(metadata, [row_metadata(conversion.schema)], chosen, "an image has other fields")
    require_among(batch.column("schema_id"), sorted(conversion.schema_ids), chosen, "a row is of another schema")
    seqs, times = batch.column("seq").take(pa.array(chosen)), commit_times(batch, chosen)
    if seqs.type != SEQ or seqs.null_count or pc.min_max(seqs).as_py() != dict.fromkeys(("min", "max"), conversion.seq):
        raise NotOurs("a row is of another seq")
    at = 0
    for columns in images.read(value, chosen):
        n = len(columns[0])
        yield [*columns, *_own(conversion, times.slice(at, n))]
        at += n


def _own(conversion: Conversion, times: Any) -> list[Any]:
    """Silver's own columns of rows with those commit times."""
    n = len(times)
    seqs = pa.repeat(pa.scalar(Decimal(conversion.seq), SEQ), n)
    arrays: list[Any] = []
    own = list(conversion.columns)[len(conversion.schema.captured) : -2]
    for field, (_, is_null) in zip(own, conversion.own, strict=True):
        if is_null:
            arrays.append(pa.nulls(n, field.type))
        else:
            arrays.append(pa.StructArray.from_arrays([seqs, times], fields=list(field.type)))
    return [*arrays, seqs, times]


class _Writer:
    """The files of one task."""

    def __init__(self, conversion: Conversion) -> None:
        self._conversion = conversion
        self._file: FileWriter | None = None
        self._pieces: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0  # of the pieces
        self._done: list[NewFile] = []

    def take(self, rows: pa.RecordBatch) -> None:
        while rows.num_rows:
            if self._file is None:
                self._file = FileWriter(
                    self._conversion.silver, "", self._conversion.statistics, store_decimal_as_integer=True
                )
            piece = rows.slice(0, FILE_ROWS - self._file.rows - self._rows)
            rows = rows.slice(piece.num_rows)
            self._pieces.append(piece)
            self._rows += piece.num_rows
            self._bytes += piece.nbytes
            if self._file.rows + self._rows == FILE_ROWS:
                self._complete()
            elif self._bytes > _GROUP_BYTES:
                self._flush()

    def end(self) -> list[NewFile]:
        self._complete()
        return self._done

    def discard(self) -> None:
        if self._file is not None:
            self._file.discard()
        with suppress(OSError, CdcError):
            delete(self._conversion.silver, self._done)

    def _flush(self) -> None:
        if self._file is not None and self._pieces:
            pieces, self._pieces, self._rows, self._bytes = self._pieces, [], 0, 0
            self._file.write(pa.Table.from_batches(pieces))

    def _complete(self) -> None:
        self._flush()
        if self._file is not None:
            self._done.append(self._file.end())
            self._file = None
