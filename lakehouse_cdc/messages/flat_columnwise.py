"""The flat form, and Flink's changelog-json, a column at a time (see `flat` and `changelog`)."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_cdc.messages import changelog
from lakehouse_cdc.messages.change import Settings
from lakehouse_cdc.messages.columnwise import WHOLE, ColumnWriter, Pieces, Stretch, Written, joined, written
from lakehouse_cdc.messages.flat import piece_of, require_names
from lakehouse_cdc.messages.texts import Moments, Piece, quoted
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.schema.table import TableSchema

_EPOCH = datetime(1970, 1, 1)
_FIRST_US, _LAST_US = ((at - _EPOCH) // timedelta(microseconds=1) for at in (datetime.min, datetime.max))
_COMMITTED = Moments(6, "T", "Z")


def _pieces(schema: TableSchema, of: dict[str, Piece]) -> tuple[Pieces, Pieces]:
    """Of a row, and of a key."""
    return Pieces(of, WHOLE), Pieces({name: of[name] for name in schema.key}, WHOLE)


def flat(schema: TableSchema, settings: Settings) -> ColumnWriter:
    """The messages of a table. Raises TableError for one with a column that has a name of the form's own."""
    require_names(schema)
    of = {column.name: piece_of(column, schema.name, exact=settings.exact) for column in schema.captured}
    pieces, key_pieces = _pieces(schema, of)
    end = "," if of else ""

    def messages(rows: Stretch, _: int) -> Written:
        us = rows.commit_us
        if len(us) and not _FIRST_US <= us.min() <= us.max() <= _LAST_US:
            raise ValueError("a time that no calendar has")
        images = pc.coalesce(rows.objects(pieces, rows.after, end), rows.objects(pieces, rows.before, end))
        [at] = Pieces({"": _COMMITTED}, WHOLE).members([pa.array(us).cast(pa.timestamp("us"))])[1:]
        values = joined(
            [images, '"__op":"', rows.ops, f'","__table":{quoted(schema.name)},"__commit_ts":', at, ',"__seq":"',
             rows.seqs, '"}'],
            len(rows),
        )  # fmt: skip
        return written(rows, rows.keys(key_pieces), values, settings)

    return messages


def changes(schema: TableSchema, settings: Settings) -> ColumnWriter:
    """Flink's changelog-json of a table: of an update its row before, then its row after."""
    pieces, key_pieces = _pieces(schema, {c.name: changelog.piece_of(c, schema.name) for c in schema.captured})

    def messages(rows: Stretch, _: int) -> Written:
        n = len(rows)
        gone = pc.equal(rows.ops, Op.DELETE.value).to_numpy(zero_copy_only=False)
        before = rows.objects(pieces, rows.before)
        first = pc.equal(rows.ops, Op.UPDATE.value).to_numpy(zero_copy_only=False)
        first &= before.is_valid().to_numpy(zero_copy_only=False)
        kinds = np.where(gone, "-D", np.where(first, "+U", "+I"))
        last = joined(
            ['{"data":', pc.coalesce(rows.objects(pieces, rows.after), before), ',"op":"', pa.array(kinds), '"}'], n
        )
        made = written(rows, rows.keys(key_pieces), last, settings)
        if not first.any():
            return made
        updates = np.flatnonzero(first)
        keys, earlier = made.keys, joined(['{"data":', before.take(pa.array(updates)), ',"op":"-U"}'], len(updates))
        of = np.concatenate([updates, made.of])
        order = pa.array(np.argsort(of, kind="stable"))
        row_of = np.searchsorted(made.of, updates)
        keys = pa.concat_arrays([keys.take(pa.array(row_of)), keys])
        values = pa.concat_arrays([earlier.cast(pa.binary()), made.values])
        return Written(np.sort(of), keys.take(order), values.take(order))

    return messages
