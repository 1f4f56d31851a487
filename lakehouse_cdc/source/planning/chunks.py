"""Where the chunks of a batch are cut: how far each cursor moves, and into which key ranges that is split.

How far the cursors move is part of the end offset, so it is decided once. Where the way is cut is not: a planner that
has forgotten its cuts (a replay) asks the server again, and the splits, cut otherwise, hold the same rows.

A task holds all rows of a chunk until its window is read, so chunks are sized by bytes: of a table with wide rows they
have fewer. Each costs some queries, a task, and a file of bronze, so of a table with narrow rows they have more.

A table without a key is read in one batch, for all its rows are to be of one position; in that batch it is read in
ranges of values, where it is long and has an index for them (see `mysql.value_range`). These are no part of an offset.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.state_machine import advance
from lakehouse_cdc.model.table_events import ChunkPlanned, LastChunkPlanned
from lakehouse_cdc.model.table_state import Cursor, PutBack, TableState
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.key_range import KeySpace
from lakehouse_cdc.mysql.value_range import ValueSpace, range_index
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.planning.split_plan import Cuts, KeyCuts
from lakehouse_cdc.source.planning.throttle import Throttle
from lakehouse_cdc.source.state.state_store import SchemaStore

_MOST_ROWS = 250_000  # in a chunk that is sized by bytes
_DOUBTFUL_ROWS = 1_000  # an estimate of fewer may be of a table whose rows were deleted, and whose space is kept
_MOST_RANGES = 64  # of a table without a key, all of which are read in one batch
_ROWS = 50_000  # in a chunk of a table of whose rows the server does not know how long they are


class Chunks:
    """The cuts of one stream; remembers those of the batch that was planned last."""

    def __init__(self, options: SourceOptions, store: SchemaStore, clock: Callable[[], float]) -> None:
        self._options = options
        self._store = store
        self._clock = clock
        self._throttle = Throttle(options, clock)
        self._cuts: dict[str, list[Cursor]] = {}
        self._values: dict[str, Cuts] = {}
        self._key_spaces: dict[str, KeySpace] = {}
        self._rows: dict[str, int] = {}

    def forget(self) -> None:
        """Another batch is planned."""
        self._cuts, self._values = {}, {}
        self._rows = {schema: rows for schema, rows in self._rows.items() if rows >= _DOUBTFUL_ROWS}

    def move(self, session: Session, offset: Offset, max_rows: int | None) -> Offset:
        """Move the cursors of unfinished tables by some chunks, a chunk of each in turn, for a bounded time.

        A server that is loaded is given time before that.
        """
        options = self._options
        most = options.chunks_per_trigger
        if max_rows is not None:
            rows = min((self._chunk_rows(session, s.schema) for s in offset.captured.values() if not s.done), default=1)
            most = min(most, -(-max_rows // rows))
        if most > 0 and not all(s.done for s in offset.captured.values()):
            most = self._throttle.chunks(session, most)
        deadline = self._clock() + options.plan_seconds
        while most > 0 and (unfinished := [n for n, s in offset.captured.items() if not s.done]):
            for name in unfinished:
                if most <= 0 or self._clock() > deadline:
                    return offset
                state = offset.tables[name]
                cut = self._cut(session, state)
                if self._is_keyless(state.schema):
                    self._values[name] = self._value_cuts(session, self._store.get(state.schema))
                if cut is not None:
                    self._cuts.setdefault(name, []).append(cut)
                planned = LastChunkPlanned() if cut is None else ChunkPlanned(cut)
                offset = offset.with_table(name, advance(state, planned))
                most -= 1
        return offset

    def _cut(self, session: Session, state: TableState) -> Cursor | None:
        """The next chunk's upper bound, None for the last; that of a cursor that was put back is where it had been.

        A table without a primary key is read in one batch (see `reading.keyless_snapshot_read`).
        """
        if self._is_keyless(state.schema):
            return None
        if isinstance(state.phase, PutBack):
            return None if state.phase.passed is True else state.phase.passed
        rows = self._chunk_rows(session, state.schema)
        try:
            return self._keys(state.schema).cut(session, state.cursor or None, rows)
        except DefiniteError as error:
            if error.code is not codes.TABLE_DAMAGED:
                raise
            return None  # the reader of the chunk says so, and it is that table's trouble

    def _is_keyless(self, schema_id: str) -> bool:
        return not self._store.get(schema_id).range_key

    def _value_cuts(self, session: Session, schema: TableSchema) -> Cuts:
        """Where a table without a key is cut, if it is long and has an index of use for that."""
        deadline = self._clock() + self._options.plan_seconds
        with suppress(DefiniteError):  # the table may be gone since; the reader of the split finds out why
            if (index := range_index(session, schema)) is not None:
                space, rows = ValueSpace(schema, index), self._chunk_rows(session, schema.id)
                cuts = space.cuts(session, rows, _MOST_RANGES, lambda: self._clock() > deadline)
                return Cuts(cuts, index) if cuts else Cuts()
        return Cuts()

    def _chunk_rows(self, session: Session, schema_id: str) -> int:
        """How many rows a chunk of the table has."""
        if self._options.chunk_rows is not None:
            return self._options.chunk_rows
        if schema_id not in self._rows:
            schema = self._store.get(schema_id)
            size = server.row_bytes(session, schema.database, schema.table)
            rows = _ROWS if size is None else self._options.chunk_bytes // size
            self._rows[schema_id] = min(max(rows, 1), _MOST_ROWS)
        return self._rows[schema_id]

    def remembered(self) -> KeyCuts:
        """The cuts of the batch that was planned last."""

        def cuts_of(schema: TableSchema, lo: Cursor | None, hi: Cursor | None) -> Cuts:
            if not schema.range_key:
                return self._values.get(schema.name, Cuts())
            cuts = self._cuts.get(schema.name, [])
            return Cuts(cuts if hi is None else cuts[:-1])

        return cuts_of

    def from_now(self, session: Session) -> KeyCuts:
        """Cuts between any two cursors, as the table is now."""

        def cuts_of(schema: TableSchema, lo: Cursor | None, hi: Cursor | None) -> Cuts:
            if not schema.range_key:
                return self._value_cuts(session, schema)
            cuts: list[Cursor] = []
            space, rows = self._keys(schema.id), self._chunk_rows(session, schema.id)
            with suppress(DefiniteError):  # the table may be gone since; the reader of the split finds out why
                while (lo := space.cut(session, lo, rows)) is not None:
                    if hi is not None and not space.below(session, [lo], hi)[0]:
                        break
                    cuts.append(lo)
            return Cuts(cuts)

        return cuts_of

    def _keys(self, schema_id: str) -> KeySpace:
        if schema_id not in self._key_spaces:
            self._key_spaces[schema_id] = KeySpace(self._store.get(schema_id))
        return self._key_spaces[schema_id]
