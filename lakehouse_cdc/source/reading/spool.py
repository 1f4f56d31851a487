"""Rows that have been read and may not be handed on yet: on disk, where they are many.

A table that is read as one chunk may be larger than memory, and the consumer of the rows may be slow; the transaction
that reads them, and the metadata lock that it holds, must end as soon as they have arrived.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pyarrow as pa

from lakehouse_cdc.source.bronze_rows import Pair

_IN_MEMORY = 64 << 20  # bytes
_SCHEMA = pa.schema([("key", pa.binary()), ("after", pa.binary())])


class Spool:
    """Pieces of rows in their order: add all of them, then iterate once."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115
        self._writer = pa.ipc.new_stream(pa.PythonFile(self._file, "w"), _SCHEMA)

    def add(self, piece: Pair) -> None:
        """One more piece."""
        self._writer.write_batch(pa.RecordBatch.from_arrays(list(piece), schema=_SCHEMA))

    def __iter__(self) -> Iterator[Pair]:
        self._writer.close()
        self._file.seek(0)
        with self._file, pa.ipc.open_stream(pa.PythonFile(self._file, "r")) as pieces:
            for piece in pieces:
                yield piece.column(0), piece.column(1)
