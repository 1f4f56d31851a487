"""Which table maps are known: bytes seen before, in arrays that the kernel compares with.

A table map is in front of the rows of every statement and hardly ever changes, so each one is parsed and checked
once; after that the same bytes under the same table id are recognised by comparing them, and other bytes under that
id are parsed again. A table id alone proves nothing: it changes with every DDL and starts again with the server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from lakehouse_cdc.images.binlog.words import MAP_COLUMNS, MAP_TABLE
from lakehouse_cdc.model.table_name import join
from lakehouse_cdc.mysql.binlog.cursor import Cursor
from lakehouse_cdc.mysql.binlog.rare_events import Format
from lakehouse_cdc.mysql.binlog.tablemap import TableMap, check, parse
from lakehouse_cdc.schema.table import TableSchema

Captured = Mapping[str, TableSchema] | Callable[[str], bool]
_LARGEST_BLOB = 32 << 20
_NOT_CAPTURED = -1


class KnownTables:
    """The table maps of captured tables (`tables`; an index never changes its meaning), and the arrays of all."""

    def __init__(self, captured: Captured) -> None:
        self._captured = captured
        self._mariadb = self._bare_doubles = False
        self.tables: list[TableMap] = []
        self._indexes: dict[bytes, int] = {}
        self.clear()

    def written_by(self, server: Format) -> None:
        """The table maps that follow are of this server. Tables that were known of another one become others."""
        if (server.mariadb, server.bare_doubles) != (self._mariadb, self._bare_doubles):
            self._mariadb, self._bare_doubles = server.mariadb, server.bare_doubles
            self._indexes = {}
            self.clear()

    def clear(self) -> None:
        """Forget the bytes, not the tables."""
        self.maps: NDArray[np.int64] = np.zeros((64, MAP_COLUMNS), dtype=np.int64)
        self.places: NDArray[np.int32] = np.full(128, -1, dtype=np.int32)
        self.blob: NDArray[np.uint8] = np.empty(16 << 10, dtype=np.uint8)
        self._lines: dict[int, int] = {}
        self._used = 0

    def trim(self) -> None:
        """Forget the bytes if they have become many; only between transactions."""
        if self._used > _LARGEST_BLOB:
            self._indexes = {shape: index for shape, index in self._indexes.items() if index != _NOT_CAPTURED}
            self.clear()

    def learn(self, body: bytes, where: str) -> None:
        """Take in the body of a table map that is not known yet. Raises DefiniteError if a captured table changed."""
        table_id, shape = int.from_bytes(body[:6], "little"), body[6:]
        if shape not in self._indexes:
            self._indexes[shape] = self._index(shape, where)
        if table_id not in self._lines:
            self._add_line(table_id)
        line = self._lines[table_id]
        if self._used + len(shape) > self.blob.size:
            self.blob = np.concatenate((self.blob, np.empty(self.blob.size + len(shape), dtype=np.uint8)))
        self.blob[self._used : self._used + len(shape)] = np.frombuffer(shape, dtype=np.uint8)
        self.maps[line] = (table_id, self._used, len(shape), self._indexes[shape], -1)
        self._used += len(shape)

    def table(self, table_id: int) -> int:
        """The index of the table whose map the kernel has found under this id."""
        return int(self.maps[self._lines[table_id], MAP_TABLE])

    def _index(self, shape: bytes, where: str) -> int:
        data = Cursor(shape[2:], where)
        name = join(data.counted_text(), data.counted_text())
        schema = None
        if isinstance(self._captured, Mapping):
            schema = self._captured.get(name)
            if schema is None:
                return _NOT_CAPTURED
        elif not self._captured(name):
            return _NOT_CAPTURED
        table = parse(shape, where, mariadb=self._mariadb, bare_doubles=self._bare_doubles)
        if schema is not None:
            check(table, schema, where)
        self.tables.append(table)
        return len(self.tables) - 1

    def _add_line(self, table_id: int) -> None:
        line = len(self._lines)
        if line == len(self.maps):
            self.maps = np.concatenate((self.maps, np.zeros_like(self.maps)))
        self._lines[table_id] = line
        if 2 * len(self._lines) > self.places.size:
            self.places = np.full(2 * self.places.size, -1, dtype=np.int32)
            for known, place in self._lines.items():
                self._place(known, place)
        else:
            self._place(table_id, line)

    def _place(self, table_id: int, line: int) -> None:
        """Open addressing, as the kernel looks it up; at most half of the places are taken."""
        place = table_id & self.places.size - 1
        while self.places[place] >= 0:
            place = place + 1 & self.places.size - 1
        self.places[place] = line
