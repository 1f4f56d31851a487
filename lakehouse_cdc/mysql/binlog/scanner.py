"""The first pass: a state machine over binlog events that says what is in a buffer without decoding a row.

The stream's grammar is strict, and everything outside of it is an error with its position:

    file        = format description, previous GTIDs, group*, (rotate | stop | nothing, after a crash)
    group       = [GTID], content | GTID, payload: a content that was compressed to one event (see `compression.events`)
    content     = BEGIN, body, (XID | COMMIT | ROLLBACK)
                | XA START, body, XA END, XA prepare
                | one statement
    body        = (table map+, rows event+ | statement | savepoint | what announces one of these)

A file that ends with neither a rotation nor a stop is that of a server which crashed: of an engine that does not
recover from that, rows may be gone that were logged, and others there that were not. That is listed as a statement in
text which changes each captured table of such an engine.

So a group never spans two files and every transaction's begin and end is a sum of event sizes that the events' own
headers confirm. Types that are not known, and known ones that this version does not read, stop the scan; a group is
never passed over. All that a payload held ends where the payload does. See `kernels.binlog_groups` for the part that
runs compiled, and `Scan` for what is promised of transactions that span buffers.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.images.binlog import words as k
from lakehouse_cdc.images.binlog.groups import scan_events
from lakehouse_cdc.model.gtid import GtidSet
from lakehouse_cdc.model.position import FIRST_EVENT, Position, file_name
from lakehouse_cdc.mysql.binlog import rare_events as rare
from lakehouse_cdc.mysql.binlog.compression.pieces import Pieces
from lakehouse_cdc.mysql.binlog.errors import refuse_type, stopped
from lakehouse_cdc.mysql.binlog.groups import XA_DECISIONS, Groups
from lakehouse_cdc.mysql.binlog.json.partial_rows import whole_rows
from lakehouse_cdc.mysql.binlog.scan import Decision, LoggedStatement, Scan, gtid_set
from lakehouse_cdc.mysql.binlog.statement_filter import Text, Watch
from lakehouse_cdc.mysql.binlog.tables import Captured, KnownTables
from lakehouse_cdc.sql.lexer import Dialect
from lakehouse_cdc.sql.statements import Statement, StatementKind

_STOP, _PREVIOUS_GTIDS, _TAGGED, _EXECUTE_LOAD, _GTID_LIST = 3, 35, 42, 18, 163
_SHOWN = 1000  # characters that are kept of a statement that changes rows
_CRASH = "the server ended without closing the file before"
_ARTIFICIAL = 0x20  # a flag of an event that the server made up for its readers: it is in no file


class BinlogScanner:
    """Scans a log from `start`, which lies between two transactions.

    `captured` gives the schema of each captured table by `database.table`, and every table map of these is checked
    against it unless `checked` is False; or it is a predicate, and nothing is checked. A statement concerns us if it
    names a captured table, or one that is `watched` (whose DDL alone matters, such as one yet to be created), unless it
    is proven to change nothing. `gtids` is the executed set at `start`, if known; a file that begins with GTIDs which
    are not in it then stops the scan. `lower_case`: the server has lower_case_table_names other than 0.
    """

    def __init__(
        self,
        start: Position,
        captured: Captured,
        *,
        watched: Captured | None = None,
        gtids: GtidSet | None = None,
        lower_case: bool = False,
        checked: bool = True,
    ) -> None:
        self._watch = Watch(captured, watched, lower_case)
        self._groups = Groups(start.pos)
        self._known = KnownTables(captured if checked or not isinstance(captured, Mapping) else captured.__contains__)
        self.gtids = gtids or GtidSet()
        self.gtids_complete = gtids is not None  # all that was executed; or, before a file's start, all since it
        self.created: int | None = None  # when the current file was made, in seconds since 1970
        self._file = start.file
        self._stopped = False  # whether the server has ended the current file
        self._named = False  # whether the server has said that it sends the current file
        self._files = [start.file]
        self._sources: list[str] = []
        self._uuids: NDArray[np.uint8] = np.zeros((8, 16), dtype=np.uint8)
        self._statements: list[LoggedStatement] = []
        self._decisions: list[Decision] = []
        self._previous: list[tuple[int, GtidSet]] = []
        self._data: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
        self._pieces = Pieces()
        self._failure: CdcError | None = None

    @property
    def position(self) -> Position:
        """After the last event."""
        return Position(self._file, int(self._groups.state[k.POS]))

    @property
    def boundary(self) -> Position:
        """The last position that lies between transactions."""
        return Position(self._file, self._groups.boundary)

    def scans(self, buffer: NDArray[np.uint8]) -> Iterator[Scan]:
        """Scan whole events, concatenated: in one go, or in pieces where much is compressed in them.

        To be iterated to its end. Raises DefiniteError for all that must not be passed over. After an error the scanner
        is spent: every further call raises the same.
        """
        if self._failure is not None:
            raise self._failure
        try:
            for piece in self._pieces.of(buffer):
                yield self._scanned(piece)
            if self._groups.within:
                raise stopped(k.TRUNCATED, k.PAYLOAD, "")
        except CdcError as failure:
            failure.where = failure.where or f"{self.position}, event type {k.PAYLOAD}"
            self._failure = failure
            raise

    def feed(self, buffer: NDArray[np.uint8]) -> Scan:
        """The scan of a buffer in which no more is compressed than is expanded in one go. Raises as `scans` does."""
        [scan] = self.scans(buffer)
        return scan

    def _scanned(self, piece: NDArray[np.uint8]) -> Scan:
        self._data = np.require(piece, dtype=np.uint8, requirements=["C", "W"])
        groups, known = self._groups, self._known
        if groups.group == k.OUTSIDE:
            known.trim()
        groups.begin_scan()
        self._files, self._statements, self._previous, self._decisions = [self._file], [], [], []
        start, before = self.position, self.gtids
        while True:
            answer = scan_events(
                self._data, groups.state, self._uuids, known.maps, known.places, known.blob, groups.rows, groups.txns
            )
            if answer == k.DONE:
                return self._scan(start, before)
            if answer == k.FULL:
                groups.grow()
            elif answer == k.RARE:
                self._rare()
            elif answer == k.PACKED:
                self._data = self._pieces.expanded(self._data, int(groups.state[k.AT]))
                groups.state[k.EXPANDED] = 1
            elif answer == k.PARTIAL:
                self._partial_update()
            elif answer == k.BROKEN and (fault := self._pieces.fault) is not None:
                raise fault.code.error(fault.what, where=self._where(), hint=fault.hint)
            else:
                raise stopped(answer, int(groups.state[k.TYPE]), self._where())

    def _scan(self, start: Position, before: GtidSet) -> Scan:
        data, aside = self._data, self._groups.aside
        rows, row_end = self._groups.row_events(data.size)
        txns = self._groups.transactions()
        self._add_ended()
        return Scan(
            buffer=np.concatenate((data, np.frombuffer(aside, np.uint8))) if aside else data,
            start=start,
            end=self.position,
            boundary=self.boundary,
            rows=rows,
            row_end=row_end,
            transactions=txns,
            statements=tuple(self._statements),
            decisions=tuple(self._decisions),
            tables=tuple(self._known.tables),
            files=tuple(self._files),
            sources=tuple(self._sources),
            gtids=self.gtids,
            _gtids_before=before,
            _previous=tuple(self._previous),
        )

    def _add_ended(self) -> None:
        """Take in the GTIDs of the transactions of this scan that have ended."""
        txns = self._groups.transactions()
        ended = txns.outcome != k.OPEN
        self.gtids = self.gtids.union(gtid_set(tuple(self._sources), txns.source[ended], txns.number[ended]))

    # ------------------------------------------------------------------ the rare events

    def _where(self) -> str:
        return f"{self.position}, event type {self._groups.state[k.TYPE]}"

    def _rare(self) -> None:
        """Deal with the event at the cursor, or teach the kernel what it lacks and leave the event to it."""
        groups = self._groups
        state = groups.state
        at, kind = int(state[k.AT]), int(state[k.TYPE])
        size = int.from_bytes(self._data[at + 9 : at + 13].tobytes(), "little")
        event = self._data[at : at + size].tobytes()
        if kind == k.FORMAT:
            return self._format(event)
        if kind == k.ROTATE:
            return self._rotate(event)
        if state[k.CHECKSUM] < 0:
            raise stopped(k.MISPLACED, kind, self._where())
        body = event[k.HEADER : size - groups.checksum]
        if kind == k.TABLE_MAP:
            return self._known.learn(body, self._where())
        if kind in (k.GTID, k.MARIADB_GTID):
            return self._add_source(*rare.gtid_source(event))
        self._event(kind, body, int.from_bytes(event[:4], "little"), groups.within or size)
        groups.pass_by(size)
        return None

    def _event(self, kind: int, body: bytes, seconds: int, size: int) -> None:
        """An event that is ours alone; with it the log advances by `size`."""
        where = self._where()
        if kind in (k.QUERY, _EXECUTE_LOAD):
            alone = self._groups.group in (k.OUTSIDE, k.ANNOUNCED)
            self._query(rare.query(body, where, load=kind == _EXECUTE_LOAD, alone=alone), alone, seconds, size)
        elif kind == _PREVIOUS_GTIDS:
            self._previous_gtids(rare.previous_gtids(body, where))
        elif kind == _GTID_LIST and self._groups.state[k.MARIADB]:
            self._previous_gtids(rare.gtid_list(body, where))
        elif kind == _TAGGED:
            self._tagged(rare.tagged_gtid(body, where), seconds)
        elif kind == k.XA_PREPARE:
            self._prepare(body, size)
        elif kind == _STOP:
            self._stopped = True
        else:
            raise refuse_type(kind, where)

    def _partial_update(self) -> None:
        """An update of a captured table that must be made whole first; the kernel has seen that its head fits."""
        groups = self._groups
        at = int(groups.state[k.AT])
        size = int.from_bytes(self._data[at + 9 : at + 13].tobytes(), "little")
        event = self._data[at : at + size - groups.checksum]
        head = event[k.HEADER : k.HEADER + 10].tobytes()  # the table's id, flags, and how much of extra data follows
        table = self._known.table(int.from_bytes(head[:6], "little"))
        content = event[k.HEADER + 8 + int.from_bytes(head[8:], "little") :]
        groups.add_update(whole_rows(content, self._known.tables[table], self._where()), table, groups.within or size)
        groups.pass_by(size)

    def _add_source(self, source: str, shown: bytes = bytes(16)) -> None:
        """Give the kernel a source of GTIDs as their events show it; a tagged one never is in these."""
        line = len(self._sources)
        if line == len(self._uuids):
            self._uuids = np.concatenate((self._uuids, np.zeros_like(self._uuids)))
        self._uuids[line] = np.frombuffer(shown, dtype=np.uint8)
        self._sources.append(source)
        self._groups.state[k.SOURCES] = line + 1

    def _format(self, event: bytes) -> None:
        """A file's first event; in front of a start in mid-file the server sends it again, with no position."""
        state, end = self._groups.state, int.from_bytes(event[13:17], "little")
        if end and (state[k.POS] != FIRST_EVENT or end != FIRST_EVENT + len(event)):
            raise stopped(k.WRONG_POSITION, k.FORMAT, self._where())
        if state[k.GROUP] != k.OUTSIDE:
            raise stopped(k.MISPLACED, k.FORMAT, self._where())
        description = rare.format_description(event, self._where())
        state[k.CHECKSUM], state[k.MARIADB] = description.checksum_bytes, description.mariadb
        self._known.written_by(description)
        self.created = int.from_bytes(event[:4], "little")
        state[k.AT] += len(event)
        state[k.POS] += len(event) if end else 0

    def _rotate(self, event: bytes) -> None:
        """To the next file: at a file's end, or made up by the server, which names each file before it sends it.

        Whether a made-up one has a checksum depends on the file before, so the checksum itself decides.
        """
        state, where = self._groups.state, self._where()
        artificial = bool(event[17] & _ARTIFICIAL)
        checked = zlib.crc32(event[:-4]) == int.from_bytes(event[-4:], "little")
        file, pos = rare.rotation(event[k.HEADER : -4 if checked else None], where)
        if not artificial:
            end = int(state[k.POS]) + len(event)
            if int.from_bytes(event[13:17], "little") != end & 0xFFFFFFFF:
                raise stopped(k.WRONG_POSITION, k.ROTATE, where)
            state[k.POS] = end
        state[k.AT] += len(event)
        here = self.position
        if artificial and (file, pos) == (here.file, here.pos):
            self._named = True
            return
        if state[k.GROUP] != k.OUTSIDE:
            raise codes.BINLOG_DISCONTINUED.error("a binlog file ends inside a transaction", where=where)
        # a file that ended names the next one, which may have been lost: then the server sends the one after it
        skipped = artificial and here.pos == FIRST_EVENT and not self._named
        if skipped or pos != FIRST_EVENT or file != file_name(here.base, here.number + 1):
            raise codes.BINLOG_DISCONTINUED.error(
                f"the binlog continues at {file}:{pos} instead of the file after {here}", where=where
            )
        if artificial and not self._stopped and (locked := self._watch.locked()) is not None:
            self._statements.append(
                LoggedStatement(
                    Position(file, pos), 0, "", _CRASH, Statement(StatementKind.DML), False, (), named=Text(locked)
                )
            )
        self._file, self._named, self._stopped = file, artificial, False
        self._files.append(file)
        state[k.POS] = pos
        state[k.FILE] = len(self._files) - 1

    def _previous_gtids(self, previous: GtidSet) -> None:
        """A file begins with the GTIDs of all files before it: each of them must have been here."""
        self._add_ended()
        if self.gtids_complete and not self.gtids.contains(previous):
            raise codes.TRANSACTIONS_MISSING.error(
                f"the file begins after transactions that the files before did not hold: {str(previous)[:500]}",
                where=self._where(),
            )
        self.gtids = self.gtids.union(previous)
        self.gtids_complete = True
        self._previous.append((self._groups.count, previous))

    def _prepare(self, body: bytes, size: int) -> None:
        one_phase, xid = rare.xa_prepare(body, self._where())
        self._groups.prepare(one_phase, size, self._where())
        if not one_phase:
            self._decisions.append(Decision("prepare", xid, self._groups.count - 1))

    def _tagged(self, gtid: rare.TaggedGtid, seconds: int) -> None:
        if self._groups.group != k.OUTSIDE:
            raise stopped(k.MISPLACED, _TAGGED, self._where())
        if gtid.source not in self._sources:
            self._add_source(gtid.source)
        self._groups.open(seconds, self._sources.index(gtid.source), gtid.number, gtid.commit_us)

    def _query(self, query: rare.Query, alone: bool, seconds: int, size: int) -> None:
        state = self._groups.state
        if state[k.HALF]:  # MariaDB says it again when it is done
            state[k.HALF] = 0
            self._groups.statement(seconds, size)
            return
        within_xa = self._groups.group == k.XA
        dialect = Dialect(query.sql_mode, bool(state[k.MARIADB]), query.readable)
        statement, concerned, effects = self._watch.judge(query, dialect, alone=alone)
        if statement.kind is StatementKind.TRANSACTION:
            words = (*query.text.upper().split(None, 2), "", "")[:2]
            self._groups.control((words[0], words[1]), seconds, size, self._where())
            if words not in XA_DECISIONS:
                return
            decision: Literal["commit", "rollback"] = "commit" if words[1] == "COMMIT" else "rollback"
            xid = rare.decided_xid(query.text, self._where())
            self._decisions.append(Decision(decision, xid, self._groups.count - 1))
        else:
            self._groups.statement(seconds, size)
        position = Position(self._file, self.position.pos + size)
        number = self._groups.count - 1
        named = self._watch.names(query, statement, effects, alone=alone)
        text = query.text if named is None or named.unknown or named.names is None else query.text[:_SHOWN]
        self._statements.append(
            LoggedStatement(
                position,
                number,
                query.database,
                text,
                statement,
                concerned,
                effects,
                query.session,
                named,
                within_xa,
                dialect,
            )
        )
