"""One table of the source as text, exactly as it was at W: what the server prints, and nothing that the loader reads.

It is the as-of read (see `model.as_of_rule`, `source.reading.snapshot_read`), with a SELECT whose rows come as text
through PyMySQL. What it shares with the loader, and why that is sound:

- *which* rows are read: W, the floor, the key ranges, and the keys that the binlog names in (F, H]. The floor is W
  here, once W is settled (see `settling`), so these are the keys that were written after W. If the decoder got such a
  key wrong, the row under the right key would be compared as it is now, and the one under the wrong key would be one
  too much: both are reported as differences, neither is hidden.
- *the values of rows that were written after W*: the server no longer has them, so the image before the first such
  write is the only source, and the decoder of the binlog reads it. These rows are marked (`by_image`), and counted
  where results are shown; verify again while the table rests to have them compared by the server's text.

All other rows are the server's own words. Tables without a key are read so, too, as multisets (see `model.multiset`).
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pymysql

from lakehouse_cdc.errors import codes
from lakehouse_cdc.images.program import key_metadata, row_metadata
from lakehouse_cdc.model.as_of_rule import Event, truths
from lakehouse_cdc.model.multiset import rollback
from lakehouse_cdc.model.own_columns import longer_than_any
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.mysql.connection.client_errors import translated
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.key_range import KeySpace
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.source.identity import connect_to
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.reading.snapshot_read import keys_in_range, looked_at
from lakehouse_cdc.source.reading.views_of_rows import Part, parts_of
from lakehouse_cdc.source.splits import SnapshotSplit
from lakehouse_cdc.verify.columns import form, is_json, of_image, of_server, selected

BY_IMAGE = longer_than_any("by_image")
_FIRST_ROWS, _MOST_ROWS = 16, 20_000  # in a record batch
_BYTES = 16 << 20  # of a record batch, about
_SPARK = {pa.string(): "string", pa.binary(): "binary", pa.float64(): "double", pa.bool_(): "boolean"}


def unheld(i: int) -> str:
    """The flag of the i-th column. Frames have it beside columns by the source's names (see `silver`), as BY_IMAGE."""
    return longer_than_any(f"unheld_{i}")


class Texts:
    """The rows of one table in canonical form: `c0`, `c1`, ... are its captured columns in order (see `columns`).

    `unheld(3)`: the JSON document in `c3` is not what a VARIANT can hold; `BY_IMAGE`: the row was written since W.
    `exact_json`: documents are their texts, and there is no such column; `raw_json`: `t3` is the text besides.
    """

    def __init__(self, schema: TableSchema, salt: str, *, exact_json: bool, raw_json: bool = False) -> None:
        self.schema = schema
        self._salt, self._exact = salt, exact_json
        columns = schema.captured
        self.key_at = [[c.name for c in columns].index(name) for name in schema.range_key]
        self._documents = [] if exact_json else [i for i, c in enumerate(columns) if is_json(c)]
        fields = [(f"c{i}", form(c)) for i, c in enumerate(columns)]
        fields += [(unheld(i), pa.bool_()) for i in self._documents]
        self._raw = self._documents if raw_json else []
        fields += [(f"t{i}", pa.string()) for i in self._raw]
        self.arrow = pa.schema([*fields, (BY_IMAGE, pa.bool_())])

    @property
    def ddl(self) -> str:
        """The columns as Spark has them."""
        return ", ".join(f"{field.name} {_SPARK.get(field.type, 'array<float>')}" for field in self.arrow)

    @property
    def select_list(self) -> str:
        """What the server is asked for."""
        return ", ".join(map(selected, self.schema.captured))

    def of_rows(self, rows: Sequence[tuple[bytes | None, ...]]) -> pa.RecordBatch:
        """Rows as the server printed them."""
        columns = [*zip(*rows, strict=True)]
        arrays = [
            of_server(column, values, self._salt, exact_json=self._exact)
            for column, values in zip(self.schema.captured, columns, strict=True)
        ]
        raw = [pa.array(columns[i], pa.binary()).cast(pa.string()) for i in self._raw]
        return self._batch(arrays, raw, len(rows), by_image=False)

    def of_images(self, images: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        """Rows as decoded images."""
        columns = [self._of_image(column, images) for column in self.schema.captured]
        names = [self.schema.captured[i].name for i in self._raw]
        raw = [pa.array([image[name] for image in images], pa.string()) for name in names]
        return self._batch(columns, raw, len(images), by_image=True)

    def keys(self, keys: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
        """Decoded keys in canonical form, in the key's order."""
        columns = [self._of_image(column, keys)[0].to_pylist() for column in self.schema.key_columns]
        return [*zip(*columns, strict=True)]

    def keys_of(self, rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
        """The keys of rows in canonical form."""
        return [*zip(*(rows.column(i).to_pylist() for i in self.key_at), strict=True)]

    def _of_image(self, column: Column, images: Sequence[Mapping[str, Any]]) -> tuple[Any, Any]:
        return of_image(column, [image[column.name] for image in images], exact_json=self._exact)

    def _batch(
        self, columns: Sequence[tuple[Any, Any]], raw: Sequence[Any], n: int, *, by_image: bool
    ) -> pa.RecordBatch:
        arrays = [one for one, _ in columns] + [columns[i][1] for i in self._documents] + [*raw]
        return pa.RecordBatch.from_arrays([*arrays, pa.repeat(by_image, n)], schema=self.arrow)


def read_texts(split: SnapshotSplit, options: SourceOptions, server_id: int, texts: Texts) -> Iterator[pa.RecordBatch]:
    """The rows of the split at W. Raises DefiniteError where the table has changed since, or is gone."""
    with connect_to(options, split.identity) as session:
        rows: Iterable[pa.RecordBatch] | None
        if split.schema.range_key:
            looked = looked_at(split, options, server_id, session, lambda: _select(split, options, texts))
            rows = None if looked is None else _at_w(split, session, texts, *looked)
        else:
            rows = _whole_at_w(split, session, options, server_id, texts)
    if rows is None:
        raise codes.ROWS_MISSING.error(
            f"a statement after {split.stamp.position} changes the table, whose rows there are gone",
            where=split.schema.name, hint="run, then verify again",
        )  # fmt: skip
    yield from rows


def _select(split: SnapshotSplit, options: SourceOptions, texts: Texts) -> list[pa.RecordBatch]:
    space = KeySpace(split.schema)
    where = space.where(split.lo, split.hi)
    sql = f"SELECT {texts.select_list} FROM {space.table}" + (f" WHERE {where}" if where else "")
    with connect_to(options, split.identity) as data:
        return [*_printed(data, sql, texts)]


def _printed(
    data: Session, sql: str, texts: Texts, opened: Callable[[], None] = lambda: None
) -> Iterator[pa.RecordBatch]:
    """The rows of a statement as the server prints them; `opened` is called when it has begun to answer."""
    inside: Any = data.connection
    inside.use_unicode, inside.decoders = False, {}  # PyMySQL hands on the bytes
    with translated(texts.schema.name, data.account), inside.cursor(pymysql.cursors.SSCursor) as cursor:
        cursor.execute(sql)
        opened()
        n = _FIRST_ROWS
        while rows := cursor.fetchmany(n):
            yield (piece := texts.of_rows(rows))
            n = min(_MOST_ROWS, 16 * n, max(1, _BYTES * piece.num_rows // max(piece.nbytes, 1)))


def _at_w(
    split: SnapshotSplit, session: Session, texts: Texts, selected_rows: list[pa.RecordBatch], events: list[Event]
) -> list[pa.RecordBatch]:
    """The rows at W: those that were selected, but for the keys that were written since."""
    known = truths(events)
    if not known:
        return selected_rows
    metadata = key_metadata(split.schema)
    stored = dict(zip(texts.keys([decode(key, metadata) for key in known]), known, strict=True))
    kept, seen = [], set[bytes]()
    for rows in selected_rows:
        image_of = [stored.get(key) for key in texts.keys_of(rows)]
        seen.update(key for key in image_of if key is not None)
        kept.append(rows.filter(pa.array([key is None for key in image_of])))
    inside = keys_in_range(split, session, known, seen)
    images = [image for key, image in known.items() if image is not None and key in inside]
    if images:
        metadata = row_metadata(split.schema)
        kept.append(texts.of_images([decode(image, metadata) for image in images]))
    return kept


def _whole_at_w(
    split: SnapshotSplit, session: Session, options: SourceOptions, server_id: int, texts: Texts
) -> Iterator[pa.RecordBatch] | None:
    """The same of a table without a key: those of views, without what came after W, and with what went there."""
    metadata = row_metadata(split.schema)

    def printed(image: bytes) -> pa.RecordBatch:
        return texts.of_images([decode(image, metadata)])

    def kind(image: bytes) -> tuple[Any, ...]:
        return _row(printed(image))[0]

    def select(data: Session, rows: str, opened: Callable[[], None]) -> Any:
        spool: Any = tempfile.TemporaryFile()  # noqa: SIM115
        with pa.ipc.new_stream(pa.PythonFile(spool, "w"), texts.arrow) as writer:
            for piece in _printed(data, f"SELECT {texts.select_list} FROM {rows}", texts, opened):
                writer.write_batch(piece)
        inside: Any = data.connection
        inside.use_unicode = True
        spool.seek(0)
        return spool

    parts = parts_of(split, session, options, server_id, select, kind)
    return None if parts is None else (rows for part in parts for rows in _rolled_back(part, printed))


def _rolled_back(part: Part[Any], printed: Callable[[bytes], pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    counts = rollback(part.events)
    images = {image: printed(image) for image in counts}
    came = Counter[tuple[Any, ...]]()
    for image, n in counts.items():
        if n < 0:
            came[_row(images[image])[0]] += -n
    with part.selected as spool, pa.ipc.open_stream(pa.PythonFile(spool, "r")) as pieces:
        for rows in pieces:
            yield rows if not came and part.counts_all else _without(rows, came, part)
    for image, n in counts.items():
        for _ in range(n):
            yield images[image]


def _without(rows: pa.RecordBatch, came: Counter[tuple[Any, ...]], part: Part[Any]) -> pa.RecordBatch:
    """The rows that count, without those of `came` that are among them, which are taken out of it.

    One that is not among them stays in `came`: the row that the server printed for it stays, and is a difference.
    """
    keep = []
    for row in _row(rows):
        mine = came[row] > 0
        came[row] -= mine
        keep.append(not mine and part.counts(row))
    return rows.filter(pa.array(keep, pa.bool_()))


def _row(rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """Rows that compare and hash, without the mark of how they were read."""
    columns = [rows.column(i).to_pylist() for i in range(rows.num_columns - 1)]
    return [tuple(tuple(v) if isinstance(v, list) else v for v in row) for row in zip(*columns, strict=True)]
