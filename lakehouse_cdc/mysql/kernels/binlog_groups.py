"""The first pass over raw binlog events: headers, transactions, table maps; no row is looked into.

The loop handles what a busy log is made of: a GTID, BEGIN, table maps seen before, rows events, XID or COMMIT. It stops
at everything else and leaves that event to Python (`RARE`), which either deals with it or only teaches the tables here
(a new source of GTIDs, a new table map) and lets the loop meet the event again. So the kernel decides nothing that it
does not know by its type, and each event is seen by exactly one of the two.

Positions are sums of event sizes; each event's header must agree in its 32 bits. Every read is inside the event, and
every event inside the buffer, before it happens. Formats: MySQL source documentation, "Replication events".

Events that were compressed stand behind a marker (see `binlog.expand`), without checksums, and their header's position
means nothing. While the loop is among them the position stands still before the compressed event; each of them ends
where that one ends, and so does their transaction. What a TRANSACTION_PAYLOAD held must be one whole transaction.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakehouse_cdc.mysql.kernels.binlog_packed import LAST_PACKED, PACKED_QUERY, PAYLOAD
from lakehouse_cdc.mysql.kernels.compiled import compiled

HEADER = 19
QUERY, ROTATE, FORMAT, XID, TABLE_MAP, HEARTBEAT, GTID, ANONYMOUS = 2, 4, 15, 16, 19, 27, 33, 34
WRITE_ROWS, UPDATE_ROWS, XA_PREPARE, PARTIAL_UPDATE, HEARTBEAT_V2 = 30, 31, 38, 39, 41
MARIADB_FIRST, MARIADB_GTID = 160, 162
# flags of a MariaDB GTID: one statement follows; its rows are prepared only (XA)
_STANDALONE, _PREPARED = 1, 64
MARKER = HEADER + 12  # in place of a compressed event: behind the header its size, its bytes of checksum, and ...
FAULTY = 0xFFFFFFFF  # ... the bytes of events that follow, or this where it could not be expanded

# slots of `state`
AT, POS, CHECKSUM, GROUP, ROWS, TXNS, SERIAL, SOURCES, FILE, TYPE, MARIADB = range(11)
# whether the buffer is expanded; the size of the compressed event that we are in (0: none), where its events end, and
# whether they must be one whole transaction
EXPANDED, WITHIN, INNER_END, WHOLE, STATE_SIZE = range(11, 16)
# values of state[GROUP]
OUTSIDE, ANNOUNCED, BEGUN, XA = range(4)
# columns of `rows`: one line for each rows event of a captured table
ROW_START, ROW_END, ROW_KIND, ROW_TABLE, ROW_TXN, ROW_POS, ROW_COLUMNS = range(7)
# columns of `txns`: one line for each transaction that has an event in the buffer
BEGIN, END, SOURCE, NUMBER, COMMIT, EVENTS, BYTES, OUTCOME, TXN_FILE, TXN_XA, TXN_COLUMNS = range(11)
# values of OUTCOME
OPEN, COMMITTED, ROLLED_BACK, PREPARED = range(4)
# columns of `maps`: the table maps that are known
MAP_ID, MAP_AT, MAP_SIZE, MAP_TABLE, MAP_SERIAL, MAP_COLUMNS = range(6)

# why the kernel returns
DONE, FULL, RARE, TRUNCATED, WRONG_POSITION, MISPLACED, NO_MAP, MALFORMED, PARTIAL, PACKED, BROKEN, NOT_ONE = range(12)

# by event type: 1 rows, 2 known and of no interest to us; everything else is looked at by itself
_CLASS = np.zeros(256, dtype=np.uint8)
_CLASS[[23, 24, 25, 30, 31, 32]] = 1
# STOP, INTVAR, APPEND_BLOCK, DELETE_FILE, RAND, USER_VAR, BEGIN_LOAD_QUERY (they prepare a QUERY, which is judged),
# IGNORABLE, ROWS_QUERY, TRANSACTION_CONTEXT, VIEW_CHANGE; MariaDB's ANNOTATE_ROWS, BINLOG_CHECKPOINT, START_ENCRYPTION
_CLASS[[3, 5, 9, 11, 13, 14, 17, 28, 29, 36, 37, 160, 161, 164]] = 2
# what never stands inside of a transaction and so is not compressed with one: STOP, ROTATE, FORMAT, HEARTBEAT, GTID,
# ANONYMOUS, PREVIOUS_GTIDS, TRANSACTION_CONTEXT, VIEW_CHANGE, TRANSACTION_PAYLOAD, HEARTBEAT_V2, GTID_TAGGED
_ONLY_OUTSIDE = np.zeros(256, dtype=np.uint8)
_ONLY_OUTSIDE[[3, 4, 15, 27, 33, 34, 35, 36, 37, 40, 41, 42, 161, 162, 163, 164]] = 1
_ONLY_OUTSIDE[PACKED_QUERY : LAST_PACKED + 1] = 1


@compiled
def _u32(data: NDArray[np.uint8], at: int) -> int:
    low = np.int64(data[at]) | np.int64(data[at + 1]) << 8
    return int(low | np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 24)


@compiled
def _u48(data: NDArray[np.uint8], at: int) -> int:
    return int(_u32(data, at) | np.int64(data[at + 4]) << 32 | np.int64(data[at + 5]) << 40)


@compiled
def _find_map(maps: NDArray[np.int64], places: NDArray[np.int32], table_id: int) -> int:
    """The line of `maps` that holds `table_id`, or -1. `places` is a hash table with a power of two entries."""
    mask = places.size - 1
    place = table_id & mask
    while places[place] >= 0:
        if maps[places[place], MAP_ID] == table_id:
            return int(places[place])
        place = (place + 1) & mask
    return -1


@compiled
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
    word = b"BEGIN" if length == 5 else b"COMMIT"
    if length != 5 and length != 6:
        return 0
    for i in range(length):
        if data[text + i] != word[i]:
            return 0
    return 1 if length == 5 else 2


@compiled
def announce(
    data: NDArray[np.uint8],
    at: int,
    end: int,
    state: NDArray[np.int64],
    sources: NDArray[np.uint8],
    txns: NDArray[np.int64],
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
        number = _u32(data, body + 17) | _u32(data, body + 21) << 32
        if number <= 0:
            return MALFORMED
    commit = _u32(data, at) * 1_000_000
    if end - body >= 49 and data[body + 25] == 2:  # 8.0: flags, uuid, number, 2, two logical clocks, time
        micros = _u48(data, body + 42) | (np.int64(data[body + 48]) & 0x7F) << 48  # the top bit: another time follows
        if micros > 0:
            commit = micros
    _open(state, txns, source, number, commit)
    return DONE


@compiled
def _open(state: NDArray[np.int64], txns: NDArray[np.int64], source: int, number: int, commit: int) -> None:
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


@compiled
def announce_mariadb(
    data: NDArray[np.uint8],
    at: int,
    end: int,
    state: NDArray[np.int64],
    sources: NDArray[np.uint8],
    txns: NDArray[np.int64],
) -> int:
    """Begin a transaction by MariaDB's GTID event at `at`: it stands for BEGIN, too, unless one statement follows.

    A source is the domain and the server's id, four bytes each; the commit time has whole seconds.
    """
    body = at + HEADER
    if end - body < 13:
        return MALFORMED
    number = _u32(data, body) | _u32(data, body + 4) << 32
    if number <= 0:
        return MALFORMED
    for i in range(state[SOURCES] - 1, -1, -1):
        j = 0
        while j < 4 and sources[i, j] == data[body + 8 + j] and sources[i, 4 + j] == data[at + 5 + j]:
            j += 1
        if j == 4:
            _open(state, txns, i, number, _u32(data, at) * 1_000_000)
            flags = data[body + 12]
            if flags & _PREPARED:
                state[GROUP] = XA
                txns[state[TXNS] - 1, TXN_XA] = 1
            elif not flags & _STANDALONE:
                state[GROUP] = BEGUN
            return DONE
    return RARE


@compiled
def recall_map(
    data: NDArray[np.uint8],
    at: int,
    end: int,
    state: NDArray[np.int64],
    maps: NDArray[np.int64],
    places: NDArray[np.int32],
    blob: NDArray[np.uint8],
) -> int:
    """Mark the table map at `at` as seen in this transaction: DONE; RARE if it is not, byte for byte, a known one."""
    start = at + HEADER + 6
    if end < start:
        return MALFORMED
    line = _find_map(maps, places, _u48(data, at + HEADER))
    if line < 0 or maps[line, MAP_SIZE] != end - start:
        return RARE
    known = maps[line, MAP_AT]
    for i in range(end - start):
        if blob[known + i] != data[start + i]:
            return RARE
    maps[line, MAP_SERIAL] = state[SERIAL]
    return DONE


@compiled
def index_rows(
    data: NDArray[np.uint8],
    at: int,
    end: int,
    state: NDArray[np.int64],
    maps: NDArray[np.int64],
    places: NDArray[np.int32],
    rows: NDArray[np.int64],
    txns: NDArray[np.int64],
    position: int,
) -> int:
    """Note the rows event at `at` if its table is captured: DONE, NO_MAP, MALFORMED, or PARTIAL: Python notes it."""
    kind = np.int64(data[at + 4])
    start = at + HEADER + 8
    if end < start + 2:
        return MALFORMED
    line = _find_map(maps, places, _u48(data, at + HEADER))
    if line < 0 or maps[line, MAP_SERIAL] != state[SERIAL]:
        return NO_MAP
    table = maps[line, MAP_TABLE]
    if table < 0:
        return DONE
    if kind >= 30:  # version 2: extra data, its length counts itself
        start += np.int64(data[start]) | np.int64(data[start + 1]) << 8
        kind -= 7
    if start < at + HEADER + 8 or start >= end:
        return MALFORMED
    if data[at + 4] == PARTIAL_UPDATE:
        return PARTIAL
    n = state[ROWS]
    txn = state[TXNS] - 1
    rows[n, ROW_START] = start
    rows[n, ROW_END] = end
    rows[n, ROW_KIND] = kind - 23
    rows[n, ROW_TABLE] = table
    rows[n, ROW_TXN] = txn
    rows[n, ROW_POS] = position
    state[ROWS] = n + 1
    txns[txn, EVENTS] += 1
    txns[txn, BYTES] += end - start
    return DONE


@compiled
def _finish(state: NDArray[np.int64], txns: NDArray[np.int64], size: int) -> None:
    line = state[TXNS] - 1
    txns[line, END] = state[POS] + size
    txns[line, OUTCOME] = COMMITTED
    state[GROUP] = OUTSIDE


@compiled
def stands_right(data: NDArray[np.uint8], at: int, size: int, state: NDArray[np.int64]) -> bool:
    """Whether an event's header has the position of its end; MariaDB leaves it out inside a transaction (from 11.4)."""
    stated = _u32(data, at + 13)
    if stated == 0 and state[MARIADB] and state[GROUP] >= ANNOUNCED:
        return True
    return bool(stated == (state[POS] + size) & 0xFFFFFFFF)


@compiled
def enter(data: NDArray[np.uint8], at: int, state: NDArray[np.int64]) -> int:
    """Go in behind the marker at `at`: DONE, or what is wrong with it."""
    size, inner = _u32(data, at + HEADER), _u32(data, at + HEADER + 8)
    if not stands_right(data, at, size, state):
        return WRONG_POSITION
    whole = data[at + 4] == PAYLOAD
    if whole and state[GROUP] != ANNOUNCED:
        return MISPLACED
    if inner == FAULTY:
        return BROKEN
    if _u32(data, at + HEADER + 4) != state[CHECKSUM] or inner > data.size - at - MARKER:
        return MALFORMED
    state[AT] = at + MARKER
    state[WITHIN], state[INNER_END], state[WHOLE] = size, at + MARKER + inner, whole
    return DONE


@compiled
def leave(state: NDArray[np.int64]) -> int:
    """Behind the last event of a compressed one; DONE, or NOT_ONE."""
    if state[WHOLE] and state[GROUP] != OUTSIDE:
        return NOT_ONE
    state[POS] += state[WITHIN]
    state[WITHIN] = 0
    return DONE


@compiled
def scan_events(  # noqa: C901, PLR0915
    data: NDArray[np.uint8],
    state: NDArray[np.int64],
    sources: NDArray[np.uint8],
    maps: NDArray[np.int64],
    places: NDArray[np.int32],
    blob: NDArray[np.uint8],
    rows: NDArray[np.int64],
    txns: NDArray[np.int64],
) -> int:
    """Go on from state[AT], until the buffer is DONE, `rows` or `txns` is FULL, or an event needs another's eye.

    For every answer but DONE and FULL, state[AT] is the event it is about, and nothing of it has been applied.
    """
    while True:
        within = state[WITHIN]
        limit = state[INNER_END] if within else data.size
        at = state[AT]
        if at >= limit:
            if not within:
                return DONE
            answer = leave(state)
            if answer != DONE:
                return answer
            continue
        if limit - at < HEADER:
            return TRUNCATED
        size = _u32(data, at + 9)
        kind = np.int64(data[at + 4])
        state[TYPE] = kind
        end = at + size - (0 if within else state[CHECKSUM])
        if size < HEADER or size > limit - at or end < at + HEADER:
            return TRUNCATED
        step = within if within else size
        group = state[GROUP]
        if within:
            if _ONLY_OUTSIDE[kind]:
                return MISPLACED
            if state[WHOLE] and group == OUTSIDE:
                return NOT_ONE
        else:
            if kind in (HEARTBEAT, HEARTBEAT_V2):  # made up by the server: it stands in no file
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
        what = _CLASS[kind]
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
