"""One stretch of binlog between two transaction boundaries, as bronze rows.

Splits share nothing: ordinals count within a transaction and no transaction is cut, so a backlog that is decoded by
many tasks gives the rows that one task would give. Of a table whose snapshot is unfinished only the keys below the
start cursor pass; the others come with their chunk, which is read as of the end of this batch. Which keys are below is
asked of the server where its collation decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse_cdc.errors import codes
from lakehouse_cdc.images.program import key_metadata
from lakehouse_cdc.model.bronze_arrow import SHARED
from lakehouse_cdc.model.table_state import Cursor
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.key_range import KeySpace
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.source.bronze_rows import among, event_seqs, positions, variants
from lakehouse_cdc.source.identity import connect_to
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.reading.log_batch import LogPart
from lakehouse_cdc.source.reading.log_reader import LogReader
from lakehouse_cdc.source.splits import BinlogSplit

_SLICE_BYTES = 32 << 20
_OPS = ("c", "u", "d")
_OP_INDEX = np.zeros(256, np.int32)
_OP_INDEX[[ord(op) for op in _OPS]] = range(len(_OPS))


def read_binlog(split: BinlogSplit, options: SourceOptions, server_id: int) -> Iterator[pa.RecordBatch]:
    """The c, u and d rows of one split, in log order."""
    with connect_to(options, split.identity) as session:
        filters = {s.name: _Below(session, s, split.bounds[s.name]) for s in split.schemas if s.name in split.bounds}
        with LogReader(
            options, split.start, split.end, split.schemas, split.identity, server_id, prepared=split.prepared
        ) as log:
            for part in log:
                for statement in part.statements:
                    if split.ddl and statement.position == split.end:
                        continue
                    raise codes.STATEMENT_STOPS_STREAM.error(
                        f"the stream cannot pass a statement: {options.shown(statement.text)}",
                        where=str(statement.position),
                    )  # fmt: skip
                if part.changes.n:
                    yield from _batches(split, part, filters)


class _Below:
    """Which keys of one table lie below its cursor."""

    def __init__(self, session: Session, schema: TableSchema, bound: Cursor) -> None:
        self._session, self._bound = session, bound
        self._space = KeySpace(schema)
        self._metadata = key_metadata(schema)

    def __call__(self, keys: pa.Array) -> npt.NDArray[np.bool_]:
        distinct = keys.dictionary_encode()
        cursors = [self._space.cursor(decode(k, self._metadata)) for k in distinct.dictionary.to_pylist()]
        below = np.array(self._space.below(self._session, cursors, self._bound), dtype=np.bool_)
        mask: npt.NDArray[np.bool_] = below[distinct.indices.to_numpy()]
        return mask


def _batches(split: BinlogSplit, part: LogPart, filters: Mapping[str, _Below]) -> Iterator[pa.RecordBatch]:
    keys = part.changes.key.to_arrow()
    tables = part.tables()
    passes = np.ones(len(keys), dtype=np.bool_)
    for index, schema in enumerate(part.schemas):
        mine = np.flatnonzero(tables == index)
        if schema.name in filters and len(mine):
            passes[mine] = filters[schema.name](keys.take(pa.array(mine)))
    batch = _batch(split, part, keys, tables)
    if not passes.all():
        batch = batch.filter(pa.array(passes))
    pieces = -(-batch.nbytes // _SLICE_BYTES) or 1
    step = -(-batch.num_rows // pieces) or 1
    for at in range(0, batch.num_rows, step):
        yield batch.slice(at, step)


def _batch(split: BinlogSplit, part: LogPart, keys: pa.Array, tables: npt.NDArray[np.int32]) -> pa.RecordBatch:
    changes, schemas, end_pos = part.changes, part.schemas, part.end_positions()
    of_table = pa.array(tables)
    key_metadata, metadata = (among(of_table, of) for of in (part.programs.key_metadata, part.programs.metadata))
    op = pa.array(_OP_INDEX[changes.op])
    columns = [
        event_seqs(split.epoch, split.start.number, end_pos, changes.ordinal),
        among(op, _OPS),
        among(of_table, [s.name for s in schemas]),
        variants(keys, key_metadata),
        variants(changes.before.to_arrow(), metadata),
        variants(changes.after.to_arrow(), metadata),
        pa.array(part.commit_us()).cast(SHARED.field("commit_ts").type),
        positions(split.identity.server_uuid, split.start.file, end_pos, part.gtids()),
        among(of_table, [s.id for s in schemas]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SHARED)
