"""Rows of bronze's files in the order of `file_order`, read in Spark's tasks without Spark.

Spark would turn each row into one of its own, write and read it once more to bring rows into order, and turn it into
Arrow's again. The files have them as Arrow does, nearly in order, and what rows share once.
Guard: tests/sinks/kafka/test_file_rows.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse_cdc.images.typed.columns import NotOurs
from lakehouse_cdc.lake.direct.file_listing import Listed
from lakehouse_cdc.lake.parquet import parquet_file
from lakehouse_cdc.model.bronze_row import PARTITION
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.sinks.kafka.file_order import File, Piece
from lakehouse_cdc.sinks.kafka.task_records import ROW, Plan

_IMAGES = ("key", "before", "after")
_REPEATED = [f"{name}.metadata" for name in _IMAGES]
_POSITION = ("file", "pos", "gtid")
_READ = ["seq", "op", *_IMAGES, "commit_ts", *(f"position.{name}" for name in _POSITION), "schema_id"]
_SEQ, _TIMES = pa.decimal128(38, 0), (pa.timestamp("us"), pa.timestamp("us", "UTC"))
CHANGES = {op.value for op in (Op.READ, Op.INSERT, Op.UPDATE, Op.DELETE)}
RESETS = {Op.TRUNCATE.value, Op.END.value}  # they take rows away that they do not name
_BATCH_ROWS = 65_536

Line = tuple[int, "bytes | None", "bytes | None"]  # rows, records, others: see `task_records`


def looked_at(folder: str, listed: Iterable[Listed]) -> tuple[list[File], set[tuple[str, str]]]:
    """The files, and the table and schema id of all row changes in them.

    Raises NotOurs where a file is not as our own writers leave it, or has a row that takes others away (t, x);
    KeyError where it lacks a VARIANT column, and OSError or ArrowException where it cannot be read.
    """
    files: list[File] = []
    changes: set[tuple[str, str]] = set()
    for one in listed:
        table = one.partition[PARTITION]
        least, greatest = one.bounds("seq")
        if type(least) is not int or type(greatest) is not int:
            raise NotOurs(f"{one.path} has no bounds of seqs")
        with _opened(os.path.join(folder, one.path)) as file:
            _require_ours(file.schema_arrow, one.path)
            groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
            size = sum(group.total_byte_size for group in groups)
            kinds = _kinds(one) or _kinds_of(file.read(columns=["op", "schema_id"]))
        if any(op in RESETS for op, _ in kinds):
            raise NotOurs(f"{one.path} has rows that take others away")
        changes |= {(table, schema_id) for op, schema_id in kinds if op in CHANGES}
        files.append(File(one.path, table, one.rows, size, least, greatest))
    return files, changes


def _kinds(file: Listed) -> set[tuple[str, str]]:
    """The one op and schema id of a file's rows, if its statistics say that there is one."""
    op, schema_id = file.only("op"), file.only("schema_id")
    return set() if op is None or schema_id is None else {(op, schema_id)}


def _kinds_of(rows: pa.Table) -> set[tuple[str, str]]:
    kinds = rows.group_by(["op", "schema_id"]).aggregate([]).to_pylist()
    return {(kind["op"], kind["schema_id"]) for kind in kinds}


def lines(plan: Plan, folder: str, given: Iterable[Piece]) -> Iterator[Line]:
    """The lines of those pieces: what a task gives."""
    for piece in given:
        for batch in plan.lines(rows_of(folder, piece)):
            for line in batch.to_pylist():
                yield line["rows"], line["records"], line["others"]


def rows_of(folder: str, piece: Piece) -> Iterator[pa.RecordBatch]:
    """The rows of a piece in their order, in the columns `task_records.ROW`."""
    if len(piece.files) == 1 and piece.files[0].of_one_seq:
        yield from _stretch(folder, piece.files[0], piece.first, piece.end)
        return
    chosen = _order(folder, piece.files)[piece.first : piece.end]
    parts, places, begin = list[pa.Table](), list[npt.NDArray[np.int64]](), 0
    for file in piece.files:
        mine = np.flatnonzero((chosen >= begin) & (chosen < begin + file.rows))
        if len(mine):
            parts.append(_taken(folder, file, chosen[mine] - begin))
            places.append(mine)
        begin += file.rows
    rows = parts[0]
    if len(parts) > 1:
        rows = pa.concat_tables(parts).unify_dictionaries()
        rows = rows.take(pa.array(np.argsort(np.concatenate(places))))
    yield from rows.combine_chunks().to_batches()


def _order(folder: str, files: Sequence[File]) -> npt.NDArray[np.int64]:
    """The numbers of all rows of the files, counted through, in their order."""
    high, low = (np.concatenate(parts) for parts in zip(*(_seqs(folder, file) for file in files), strict=True))
    return np.lexsort((low, high))


def _seqs(folder: str, file: File) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """The upper and the lower half of each seq."""
    with _opened(os.path.join(folder, file.path)) as opened:
        seqs = pa.concat_arrays(opened.read(columns=["seq"]).column("seq").chunks)
    halves = np.frombuffer(seqs.buffers()[1], np.uint64)[2 * seqs.offset : 2 * (seqs.offset + len(seqs))]
    return halves[1::2].astype(np.int64), halves[0::2].copy()


def _stretch(folder: str, file: File, first: int, end: int) -> Iterator[pa.RecordBatch]:
    """The rows from `first` on up to `end`, as they lie."""
    with _opened(os.path.join(folder, file.path)) as opened:
        begin = 0
        for group, rows in enumerate(_rows_of_groups(opened)):
            if begin < end and begin + rows > first:
                for batch in _batches(opened, [group]):
                    at, until = max(0, first - begin), min(batch.num_rows, end - begin)
                    if at < until:
                        yield from _named(pa.Table.from_batches([batch.slice(at, until - at)]), file.table).to_batches()
                    begin += batch.num_rows
            else:
                begin += rows


def _taken(folder: str, file: File, wanted: npt.NDArray[np.int64]) -> pa.Table:
    """The rows of those numbers, in that order."""
    with _opened(os.path.join(folder, file.path)) as opened:
        counts = _rows_of_groups(opened)
        ends = np.cumsum(counts)
        groups = np.unique(np.searchsorted(ends, wanted, "right"))
        rows = pa.Table.from_batches(_batches(opened, groups.tolist())).unify_dictionaries()
    numbers = np.concatenate([np.arange(ends[group] - counts[group], ends[group]) for group in groups])
    at = np.searchsorted(numbers, wanted)
    if (np.diff(at) == 1).all():
        return _named(rows.slice(int(at[0]), len(at)), file.table)
    return _named(rows.take(pa.array(at)), file.table)


def _rows_of_groups(file: pq.ParquetFile) -> list[int]:
    return [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]


def _batches(file: pq.ParquetFile, groups: list[int]) -> Iterator[pa.RecordBatch]:
    """The rows of those row groups, which pyarrow cannot read at once: dictionaries in structs are by group."""
    for group in groups:
        yield from file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=_READ, use_threads=False)


def _named(rows: pa.Table, table: str) -> pa.Table:
    """The rows in the columns of `ROW`."""
    position = rows.column("position")
    columns = {
        **{name: rows.column(name) for name in ("op", *_IMAGES, "schema_id")},
        **{name: pc.struct_field(position, name) for name in _POSITION},
        "seq": rows.column("seq").cast(pa.string()),
        "commit_us": rows.column("commit_ts").cast(pa.int64()),
        "source_table": pa.repeat(table, rows.num_rows),
    }
    return pa.table({name: columns[name] for name in ROW})


def _opened(path: str) -> pq.ParquetFile:
    return parquet_file(path, read_dictionary=_REPEATED)


def _require_ours(schema: pa.Schema, path: str) -> None:
    """Raise NotOurs unless the columns lie as this module reads them."""
    try:
        images = [schema.field(name).type for name in _IMAGES]
        position = schema.field("position").type
        fits = (
            schema.field("seq").type == _SEQ
            and schema.field("commit_ts").type in _TIMES
            and all(schema.field(name).type == pa.string() for name in ("op", "schema_id"))
            and all(sorted(field.name for field in image) == ["metadata", "value"] for image in images)
            and all(image.field("value").type == pa.binary() for image in images)
            and [position.field(name).type for name in _POSITION] == [pa.string(), pa.int64(), pa.string()]
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NotOurs(f"{path} has other columns: {error}") from error
    if not fits:
        raise NotOurs(f"{path} has columns of other types")
