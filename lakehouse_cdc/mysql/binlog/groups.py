"""The transactions of a scan: where each begins and ends, and what control statements do to the open one.

The arrays are the kernel's (see `kernels.binlog_words` for their slots and columns); what the kernel leaves to Python
changes them here and nowhere else. A transaction that is still open at a buffer's end becomes the first of the next.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakehouse_cdc.errors import codes
from lakehouse_cdc.images.binlog import words as k
from lakehouse_cdc.images.binlog.row_events import UPDATE, RowEvents
from lakehouse_cdc.mysql.binlog.errors import stopped
from lakehouse_cdc.mysql.binlog.scan import Transactions

Matrix = NDArray[np.int64]
_ASIDE = 1 << 48  # added to offsets in `aside`
XA_DECISIONS = (("XA", "COMMIT"), ("XA", "ROLLBACK"))
XA_GROUPS = (("XA", "START"), *XA_DECISIONS)


class Groups:
    """`state`, `rows` and `txns` as the kernel fills them. Methods that take `size` are about the event under the
    cursor, after which the position is that much higher; `where` names it in errors.
    """

    def __init__(self, pos: int) -> None:
        self.state: Matrix = np.zeros(k.STATE_SIZE, dtype=np.int64)
        self.state[k.POS] = pos
        self.state[k.CHECKSUM] = -1  # not known before the format description
        self.rows: Matrix = np.empty((1024, k.ROW_COLUMNS), dtype=np.int64)
        self.txns: Matrix = np.empty((1024, k.TXN_COLUMNS), dtype=np.int64)
        self.aside = bytearray()  # content of rows events that is not what is in the buffer
        self._carried = 0  # rows events of the open transaction that earlier scans gave out

    @property
    def group(self) -> int:
        """OUTSIDE, ANNOUNCED, BEGUN or XA."""
        return int(self.state[k.GROUP])

    @property
    def count(self) -> int:
        """The transactions of this scan so far."""
        return int(self.state[k.TXNS])

    @property
    def within(self) -> int:
        """The size of the compressed event that the cursor is in; 0 if it is in none."""
        return int(self.state[k.WITHIN])

    @property
    def checksum(self) -> int:
        """The bytes of checksum of the event under the cursor."""
        return 0 if self.within else int(self.state[k.CHECKSUM])

    @property
    def boundary(self) -> int:
        """The last position in the current file that lies between transactions."""
        return int(self.state[k.POS] if self.group == k.OUTSIDE else self.txns[self.count - 1, k.BEGIN])

    @property
    def captured_events(self) -> int:
        """The rows events of captured tables in the last transaction."""
        return int(self.txns[self.count - 1, k.EVENTS])

    def begin_scan(self) -> None:
        """Empty outputs, but for the transaction that is open."""
        is_open = self.group != k.OUTSIDE
        if is_open:
            self.txns[0] = self.txns[self.count - 1]
            self.txns[0, k.TXN_FILE] = 0
        self._carried = int(self.txns[0, k.EVENTS]) if is_open else 0
        self.aside = bytearray()
        self.state[k.INNER_END] -= self.state[k.AT]  # a payload may continue
        self.state[[k.AT, k.ROWS, k.FILE, k.EXPANDED]] = 0
        self.state[k.TXNS] = int(is_open)

    def pass_by(self, size: int) -> None:
        """Go past an event of `size` bytes; a compressed one is passed as a whole, by the kernel."""
        self.state[k.AT] += size
        self.state[k.POS] += 0 if self.within else size

    def grow(self) -> None:
        """Make room where the kernel found none."""
        if self.state[k.ROWS] == len(self.rows):
            self.rows = np.concatenate((self.rows, np.empty_like(self.rows)))
        if self.count == len(self.txns):
            self.txns = np.concatenate((self.txns, np.empty_like(self.txns)))

    def open(self, seconds: int, source: int = -1, number: int = 0, commit_us: int = 0) -> None:
        """Begin a transaction at the cursor; there is room, the kernel saw to it before it left the event to us."""
        line = self.count
        self.txns[line] = 0
        self.txns[line, [k.BEGIN, k.SOURCE, k.NUMBER]] = self.state[k.POS], source, number
        self.txns[line, [k.COMMIT, k.TXN_FILE]] = commit_us or seconds * 1_000_000, self.state[k.FILE]
        self.state[k.TXNS] = line + 1
        self.state[k.GROUP] = k.ANNOUNCED
        self.state[k.SERIAL] += 1

    def end(self, size: int, outcome: int = k.COMMITTED) -> None:
        """The transaction ends with this event."""
        self.txns[self.count - 1, [k.END, k.OUTCOME]] = self.state[k.POS] + size, outcome
        self.state[k.GROUP] = k.OUTSIDE

    def add_update(self, content: bytes, table: int, size: int) -> None:
        """Note the update under the cursor with another content; there is room, as in `open`."""
        line, txn, start = int(self.state[k.ROWS]), self.count - 1, _ASIDE + len(self.aside)
        place = int(self.state[k.POS]) + size
        self.rows[line] = start, start + len(content), UPDATE, table, txn, place
        self.aside += content
        self.state[k.ROWS] = line + 1
        self.txns[txn, [k.EVENTS, k.BYTES]] += 1, len(content)

    def statement(self, seconds: int, size: int) -> None:
        """A statement that is no transaction control: by itself it is a whole group, in one it is a part."""
        if self.group == k.OUTSIDE:
            self.open(seconds)
        if self.group == k.ANNOUNCED:
            self.end(size)

    def control(self, words: tuple[str, str], seconds: int, size: int, where: str) -> None:
        """Transaction control; BEGIN and COMMIT in their usual places are the kernel's. Raises DefiniteError."""
        inside = self.group
        between = inside in (k.OUTSIDE, k.ANNOUNCED)
        if between and (words[0] == "BEGIN" or words in XA_GROUPS):
            if inside == k.OUTSIDE:
                self.open(seconds)
            self.state[k.GROUP] = k.BEGUN if words[0] == "BEGIN" else k.XA
            self.txns[self.count - 1, k.TXN_XA] = words == ("XA", "START")
            if words in XA_DECISIONS:
                self.end(size)
        elif inside == k.BEGUN and words in (("ROLLBACK", ""), ("ROLLBACK", "TO")):
            self._roll_back(words[1], size, where)
        elif not (inside == k.BEGUN and words[0] in ("SAVEPOINT", "RELEASE")) and not (
            inside == k.XA and words == ("XA", "END")
        ):
            raise stopped(k.MISPLACED, k.QUERY, where)

    def prepare(self, one_phase: bool, size: int, where: str) -> None:
        """An XA PREPARE event, which is the commit itself if `one_phase`. Raises DefiniteError."""
        if self.group != k.XA:
            raise stopped(k.MISPLACED, k.XA_PREPARE, where)
        self.end(size, k.COMMITTED if one_phase else k.PREPARED)

    def _roll_back(self, second: str, size: int, where: str) -> None:
        """ROLLBACK, or ROLLBACK TO a savepoint, which says nothing of which rows are meant.

        The rows to take back are the last ones, unless a scan before has given them out.
        """
        given_out = self._carried and self.count == 1
        if self.captured_events and (second or given_out):
            raise codes.ROLLBACK_AFTER_ROWS.error(
                "a ROLLBACK in the binlog takes back rows of a captured table that were read already",
                where=where,
            )
        if not second:
            self.state[k.ROWS] -= self.captured_events
            self.txns[self.count - 1, [k.EVENTS, k.BYTES]] = 0
            self.end(size, k.ROLLED_BACK)

    def transactions(self) -> Transactions:
        """The transactions of this scan."""
        columns = self.txns[: self.count].T.copy()  # never a view: the next scan writes here
        return Transactions(
            file=columns[k.TXN_FILE],
            begin=columns[k.BEGIN],
            end=columns[k.END],
            source=columns[k.SOURCE],
            number=columns[k.NUMBER],
            commit_us=columns[k.COMMIT],
            events=columns[k.EVENTS],
            bytes=columns[k.BYTES],
            outcome=columns[k.OUTCOME],
            xa=columns[k.TXN_XA].astype(bool),
        )

    def row_events(self, buffer_size: int) -> tuple[RowEvents, Matrix]:
        """The rows events of this scan, and the position at which each one ends; `aside` is after the buffer."""
        rows = self.rows[: self.state[k.ROWS]]
        places = rows[:, [k.ROW_START, k.ROW_END]]
        places[rows[:, k.ROW_START] >= _ASIDE] += buffer_size - _ASIDE
        events = RowEvents(
            start=places[:, 0].copy(),
            end=places[:, 1].copy(),
            kind=rows[:, k.ROW_KIND].astype(np.uint8),
            table=rows[:, k.ROW_TABLE].astype(np.int32),
            txn=rows[:, k.ROW_TXN].astype(np.int32),
        )
        return events, rows[:, k.ROW_POS].copy()
