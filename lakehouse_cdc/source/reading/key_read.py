"""One as-of read of some keys: what each of them held at W, a row (`r`) or nothing (`d`), whenever it is executed.

It is the as-of read of `snapshot_read`, for a set of keys in place of a range. Of a key that the window speaks of, the
window says; of any other the SELECT does. Both are asked by the key's values as a reader of bronze has them, which
are equal just where the stored bytes are. The SELECT finds rows by the server's own comparison, so it may find more
(of 'a' also 'A', of 'a' also 'a '): what is not among the keys is passed over. It never finds less, for a value is
equal to itself under every collation, and is sent as it was received, with the column's own type.

A `d` says that the source holds no such row at W, and not when that began; it has no image, for nobody here has seen
one. All rows are at W with the rank of a read, after every event up to W.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from lakehouse_cdc.images.program import ProgramSet, key_metadata
from lakehouse_cdc.model.as_of_rule import Event, truths
from lakehouse_cdc.model.key_repair import Key
from lakehouse_cdc.model.seq import Rank
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.mysql.key_range import KeySpace
from lakehouse_cdc.mysql.wire.select import select_images
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.source.bronze_rows import Pair, at_one_position, no_variants, variants
from lakehouse_cdc.source.identity import connect_to
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.reading.snapshot_read import looked_at, row_batch
from lakehouse_cdc.source.splits import RepairSplit

Values = tuple[Any, ...]  # of a key's columns, in the key's order


def read_repair(split: RepairSplit, options: SourceOptions, server_id: int) -> Iterator[pa.RecordBatch]:
    """The `r` and `d` rows of one split; none where it met DDL. Raises what `read_snapshot` does."""
    keys = split.repair.decoded()
    with connect_to(options, split.identity) as session:
        looked = looked_at(split, options, server_id, session, lambda: _select(split, options, keys))
    if looked is None:
        return
    wanted = {values(key, split.schema): i for i, key in enumerate(keys)}
    rows_there = _truths(split.schema, key_metadata(split.schema), wanted, *looked)
    # by `wanted`, not by the list: 1 and 1.0 are one key, of which there is one row
    rows = [pair for i in wanted.values() if (pair := rows_there.get(i)) is not None]
    gone = [split.repair.keys[i] for i in wanted.values() if rows_there.get(i) is None]
    if rows:
        key, after = (pa.array(column, pa.binary()) for column in zip(*rows, strict=True))
        yield row_batch(split, key, after)
    if gone:
        key, metadata = (pa.array(column, pa.binary()) for column in zip(*gone, strict=True))
        nothing = no_variants(len(gone))
        name, schema_id, gone_keys = split.schema.name, split.schema.id, variants(key, metadata.dictionary_encode())
        yield at_one_position(split.stamp, Rank.READ, "d", name, schema_id, gone_keys, nothing)


def values(key: Key, schema: TableSchema) -> Values:
    """A decoded key as what distinguishes it from others."""
    return tuple(key[name] for name in schema.key)


def _select(split: RepairSplit, options: SourceOptions, keys: list[Key]) -> list[Pair]:
    space, programs = KeySpace(split.schema), ProgramSet.of([split.schema], salt=options.mask_salt)
    pairs: list[Pair] = []
    with connect_to(options, split.identity, purpose="data") as data:
        for where in space.among([space.cursor(key) for key in keys]):
            sql = f"SELECT {space.select_list()} FROM {space.by_key} WHERE {where}"
            images = select_images(data.connection, sql, split.schema, programs=programs)
            pairs += [(image.key.to_arrow(), image.after.to_arrow()) for image in images]
    return pairs


def _truths(
    schema: TableSchema, metadata: bytes, wanted: dict[Values, int], selected: list[Pair], events: Sequence[Event]
) -> dict[int, tuple[bytes, bytes] | None]:
    """By a key's place among those wanted its stored bytes and its row at W, or None; others were not met at all."""

    def place(key: bytes) -> int | None:
        return wanted.get(values(decode(key, metadata), schema))

    rows = ((k, row) for keys, after in selected for k, row in zip(keys.to_pylist(), after.to_pylist(), strict=True))
    there: dict[int, tuple[bytes, bytes] | None] = {i: (k, row) for k, row in rows if (i := place(k)) is not None}
    for k, image in truths(events).items():
        if (i := place(k)) is not None:
            there[i] = None if image is None else (k, image)
    return there
