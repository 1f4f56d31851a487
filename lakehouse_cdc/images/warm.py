"""Compile the kernels, or load them from the cache, before the first row waits for them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakehouse_cdc.images.binlog.row_events import RowEvents
from lakehouse_cdc.images.buffers import Sink
from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.images.rows.decode import count_rows, decode_rows
from lakehouse_cdc.images.rows.image import Scratch
from lakehouse_cdc.images.rows.result_set import find_packets, read_rows
from lakehouse_cdc.images.typed.columns import ImageColumns
from lakehouse_cdc.model.variant import encode
from lakehouse_cdc.schema.table import Column, TableSchema


def warm_up() -> None:
    """Call every kernel of row images and result sets once, on nothing."""
    programs = ProgramSet.of([TableSchema("warm", "up", (Column("id", "int"),), ("id",))])
    none, buffer = np.zeros(0, np.int64), np.zeros(8, np.uint8)
    events = RowEvents(none, none, none.astype(np.uint8), none.astype(np.int32), none.astype(np.int32))
    decode_rows(buffer, events, programs)
    count_rows(buffer, events, programs)
    find_packets(buffer, 0, 0, 0, none, none)
    read_rows(
        buffer, none, none, 0, programs.wire, np.zeros(2, np.int64), Sink.of(1, 1), Sink.of(1, 1), Scratch.of(1, 1)
    )
    columns = (Column("a", "int"), Column("b", "blob"), Column("c", "vector"))
    image = encode({"a": None, "b": None, "c": None})[0]
    list(
        ImageColumns(TableSchema("warm", "up", columns, ())).read(pa.array([image], pa.binary()), np.zeros(1, np.int64))
    )
