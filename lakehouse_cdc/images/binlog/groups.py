"""The first pass over raw binlog events: headers, transactions, table maps; no row is looked into.

The loop handles what a busy log is made of: a GTID, BEGIN, table maps seen before, rows events, XID or COMMIT. It stops
at everything else and leaves that event to Python (`RARE`), which either deals with it or only teaches the tables here
(a new source of GTIDs, a new table map) and lets the loop meet the event again. So the kernel decides nothing that it
does not know by its type, and each event is seen by exactly one of the two.

Positions are sums of event sizes; each event's header must agree in its 32 bits. Every read is inside the event, and
every event inside the buffer, before it happens. Formats: MySQL source documentation, "Replication events".

Events that were compressed are after a marker (see `mysql.binlog.compression.events`), without checksums, and their
header's position means nothing. While the loop is among them the position stands still before the compressed event;
each of them ends where that one ends, and so does their transaction. What a TRANSACTION_PAYLOAD held must be one whole
transaction, and may continue in the next buffers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakehouse_cdc.images.binlog.header import event_size, stands_right, u32, u48
from lakehouse_cdc.images.binlog.packed import enter, leave
from lakehouse_cdc.images.binlog.table_maps import index_rows, recall_map
from lakehouse_cdc.images.binlog.words import (
    ANNOUNCED,
    ANONYMOUS,
    AT,
    BEGIN,
    BEGUN,
    BYTES,
    CHECKSUM,
    CLASS,
    COMMIT,
    COMMITTED,
    DONE,
    END,
    EVENTS,
    EXPANDED,
    FILE,
    FORMAT,
    FULL,
    GROUP,
    GTID,
    HALF,
    HEADER,
    HEARTBEAT,
    HEARTBEAT_V2,
    INNER_END,
    LAST_PACKED,
    MALFORMED,
    MARIADB,
    MARIADB_FIRST,
    MARIADB_GTID,
    MISPLACED,
    NOT_ONE,
    NUMBER,
    ONLY_OUTSIDE,
    OPEN,
    OUTCOME,
    OUTSIDE,
    PACKED,
    PACKED_QUERY,
    PARTIAL_UPDATE,
    PAYLOAD,
    POS,
    QUERY,
    RARE,
    ROTATE,
    ROWS,
    SERIAL,
    SOURCE,
    SOURCES,
    START_ENCRYPTION,
    TABLE_MAP,
    TRUNCATED,
    TXN_FILE,
    TXN_XA,
    TXNS,
    TYPE,
    WHOLE,
    WITHIN,
    WRONG_POSITION,
    XA,
    XID,
)
from lakehouse_cdc.images.bytes_io import ByteMatrix, Matrix
from lakehouse_cdc.images.compiled import compiled, part

# flags of a MariaDB GTID: one statement follows; a commit id is after the flags; rows are prepared only, or were
# (XA); and more flags that may be after all that: an ALTER begins, or is given up (binlog_alter_two_phase)
_STANDALONE, _COMMIT_ID, _PREPARED, _COMPLETED = 1, 2, 64, 128
_ALTER_BEGINS, _ALTER_FAILED, _KNOWN = 2, 8, 31
_BEGIN_COMMIT = np.frombuffer(b"BEGINCOMMIT", np.uint8)


@part
def control_word(data: NDArray[np.uint8], at: int, end: int) -> int:
    """For a QUERY event at `at` that ends (without checksum) at `end`: 1 BEGIN, 2 COMMIT, 0 other, -1 malformed."""
    body = at + HEADER
    if end - body < 13:
        return -1
    status = np.int64(data[body + 11]) | np.int64(data[body + 12]) << 8
    text = body + 13 + status + np.int64(data[body + 8]) + 1
    if text > end:
        return -1
    length = end - text
    if length != 5 and length != 6:
        return 0
    word = 0 if length == 5 else 5
    for i in range(length):
        if data[text + i] != _BEGIN_COMMIT[word + i]:
            return 0
    return 1 if length == 5 else 2


@part
def announce(
    data: NDArray[np.uint8],
    at: int,
    end: int,
    state: NDArray[np.int64],
    sources: ByteMatrix,
    txns: Matrix,
) -> int:
    """Begin a transaction by the GTID or ANONYMOUS_GTID event at `at`; DONE, RARE (a new source) or MALFORMED."""
    body = at + HEADER
    if end - body < 25:
        return MALFORMED
    source = -1
    number = 0
    if data[at + 4] == GTID:
        for i in range(state[SOURCES] - 1, -1, -1):
            j = 0
            while j < 16 and sources[i, j] == data[body + 1 + j]:
                j += 1
            if j == 16:
                source = i
                break
        if source < 0:
            return RARE
        number = u32(data, body + 17) | u32(data, body + 21) << 32
        if number <= 0:
            return MALFORMED
    commit = u32(data, at) * 1_000_000
    if end - body >= 49 and data[body + 25] == 2:  # 8.0: flags, uuid, number, 2, two logical clocks, time
        micros = u48(data, body + 42) | (np.int64(data[body + 48]) & 0x7F) << 48  # the top bit: another time follows
        if micros > 0:
            commit = micros
    _open(state, txns, source, number, commit)
    return DONE


@part
def _open(state: NDArray[np.int64], txns: Matrix, source: int, number: int, commit: int) -> None:
    n = state[TXNS]
    txns[n, BEGIN] = state[POS]
    txns[n, END] = 0
    txns[n, SOURCE] = source
    txns[n, NUMBER] = number
    txns[n, COMMIT] = commit
    txns[n, EVENTS] = 0
    txns[n, BYTES] = 0
    txns[n, OUTCOME] = OPEN
    txns[n, TXN_FILE] = state[FILE]
    txns[n, TXN_XA] = 0
    state[TXNS] = n + 1
    state[GROUP] = ANNOUNCED
    state[SERIAL] += 1


@part
def _more_flags(data: NDArray[np.uint8], at: int, end: int, flags: int) -> int:
    """The flags after those that the first ones announce; -1 where they are not known, or cut off."""
    if flags & _COMMIT_ID:
        at += 8
    if flags & (_PREPARED | _COMPLETED):
        if at + 6 > end:
            return -1
        at += 6 + np.int64(data[at + 4]) + np.int64(data[at + 5])
    if at > end:
        return -1
    more = np.int64(data[at]) if at < end else 0
    return -1 if more & ~_KNOWN else more


@part
def announce_mariadb(
    data: NDArray[np.uint8],
    at: int,
    end: int,
    state: NDArray[np.int64],
    sources: ByteMatrix,
    txns: Matrix,
) -> int:
    """Begin a transaction by MariaDB's GTID event at `at`: it stands for BEGIN, too, unless one statement follows.

    A source is the domain and the server's id, four bytes each; the commit time has whole seconds. Format: MariaDB
    source, log_event_server.cc, Gtid_log_event.
    """
    body = at + HEADER
    if end - body < 13:
        return MALFORMED
    number = u32(data, body) | u32(data, body + 4) << 32
    flags = np.int64(data[body + 12])
    more = _more_flags(data, body + 13, end, flags)
    if number <= 0 or more < 0:
        return MALFORMED
    for i in range(state[SOURCES] - 1, -1, -1):
        j = 0
        while j < 4 and sources[i, j] == data[body + 8 + j] and sources[i, 4 + j] == data[at + 5 + j]:
            j += 1
        if j == 4:
            _open(state, txns, i, number, u32(data, at) * 1_000_000)
            state[HALF] = 1 if more & (_ALTER_BEGINS | _ALTER_FAILED) else 0
            if flags & _PREPARED:
                state[GROUP] = XA
                txns[state[TXNS] - 1, TXN_XA] = 1
            elif not flags & _STANDALONE:
                state[GROUP] = BEGUN
            return DONE
    return RARE


@part
def _finish(state: NDArray[np.int64], txns: Matrix, size: int) -> None:
    line = state[TXNS] - 1
    txns[line, END] = state[POS] + size
    txns[line, OUTCOME] = COMMITTED
    state[GROUP] = OUTSIDE


@compiled
def scan_events(  # noqa: C901, PLR0915
    data: NDArray[np.uint8],
    state: NDArray[np.int64],
    sources: ByteMatrix,
    maps: Matrix,
    places: NDArray[np.int32],
    blob: NDArray[np.uint8],
    rows: Matrix,
    txns: Matrix,
) -> int:
    """Continue from state[AT], until the buffer is DONE, `rows` or `txns` is FULL, or an event needs another's eye.

    For every answer but DONE and FULL, state[AT] is the event it is about, and nothing of it has been applied.
    """
    while True:
        within = state[WITHIN]
        limit = min(state[INNER_END], data.size) if within else data.size
        at = state[AT]
        if at >= limit:
            if not within or at < state[INNER_END]:
                return DONE
            answer = leave(state)
            if answer != DONE:
                return answer
            continue
        if limit - at < HEADER:
            return TRUNCATED
        size = event_size(data, at)
        kind = np.int64(data[at + 4])
        state[TYPE] = kind
        end = at + size - (0 if within else state[CHECKSUM])
        if size < HEADER or size > limit - at or end < at + HEADER:
            return TRUNCATED
        step = within if within else size
        group = state[GROUP]
        if within:
            if ONLY_OUTSIDE[kind]:
                return MISPLACED
            if state[WHOLE] and group == OUTSIDE:
                return NOT_ONE
        else:
            again = kind == START_ENCRYPTION and group == OUTSIDE and u32(data, at + 13) == 0
            if again or kind in (HEARTBEAT, HEARTBEAT_V2):  # made up by the server: it is in no file
                state[AT] += size
                continue
            if kind in (ROTATE, FORMAT) or state[CHECKSUM] < 0:
                return RARE
            if kind == PAYLOAD or PACKED_QUERY <= kind <= LAST_PACKED:
                answer = enter(data, at, state) if state[EXPANDED] else PACKED
                if answer != DONE:
                    return answer
                continue
            if not stands_right(data, at, size, state):
                return WRONG_POSITION
        if state[ROWS] == rows.shape[0] or state[TXNS] == txns.shape[0]:
            return FULL
        answer = DONE
        what = CLASS[kind]
        if what == 1 or kind == PARTIAL_UPDATE:
            if group < BEGUN:
                return MISPLACED
            answer = index_rows(data, at, end, state, maps, places, rows, txns, state[POS] + step)
        elif what == 2:
            answer = DONE if kind < MARIADB_FIRST or state[MARIADB] else RARE
        elif kind == TABLE_MAP:
            if group < BEGUN:
                return MISPLACED
            answer = recall_map(data, at, end, state, maps, places, blob)
        elif kind in (GTID, ANONYMOUS):
            if group != OUTSIDE:
                return MISPLACED
            answer = announce(data, at, end, state, sources, txns)
        elif kind == MARIADB_GTID:
            if group != OUTSIDE or state[MARIADB] == 0:
                return MISPLACED
            answer = announce_mariadb(data, at, end, state, sources, txns)
        elif kind == XID:
            if group != BEGUN:
                return MISPLACED
            _finish(state, txns, step)
        elif kind == QUERY:
            word = control_word(data, at, end)
            if word == 1 and group == ANNOUNCED:
                state[GROUP] = BEGUN
            elif word == 2 and group == BEGUN:
                _finish(state, txns, step)
            else:
                answer = RARE if word >= 0 else MALFORMED
        else:
            answer = RARE
        if answer != DONE:
            return answer
        state[AT] += size
        if not within:
            state[POS] += size
