"""The words of the first pass over binlog events: event types, the slots of its arrays, and its answers."""

from __future__ import annotations

import numpy as np

HEADER = 19
QUERY, ROTATE, FORMAT, XID, TABLE_MAP, HEARTBEAT, GTID, ANONYMOUS = 2, 4, 15, 16, 19, 27, 33, 34
WRITE_ROWS, UPDATE_ROWS, XA_PREPARE, PARTIAL_UPDATE, HEARTBEAT_V2 = 30, 31, 38, 39, 41
MARIADB_FIRST, MARIADB_GTID, START_ENCRYPTION = 160, 162, 164
PAYLOAD = 40  # a transaction of MySQL's that was compressed to one event
PACKED_QUERY, PACKED_ROWS, LAST_PACKED = 165, 166, 171  # MariaDB's compressed events
MARKER = HEADER + 16  # in place of a compressed event: after the header its size, its bytes of checksum, and ...
FAULTY = 1 << 62  # ... the bytes of events that follow, or this where it could not be expanded

# slots of `state`
AT, POS, CHECKSUM, GROUP, ROWS, TXNS, SERIAL, SOURCES, FILE, TYPE, MARIADB = range(11)
# whether the buffer is expanded; the size of the compressed event that we are in (0: none), where its events end, and
# whether they must be one whole transaction; whether the statement that follows is not done yet, or will not be
EXPANDED, WITHIN, INNER_END, WHOLE, HALF, STATE_SIZE = range(11, 17)
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
CLASS = np.zeros(256, dtype=np.uint8)
CLASS[[23, 24, 25, 30, 31, 32]] = 1
# INTVAR, APPEND_BLOCK, DELETE_FILE, RAND, USER_VAR, BEGIN_LOAD_QUERY (they prepare a QUERY, which is judged),
# IGNORABLE, ROWS_QUERY, TRANSACTION_CONTEXT, VIEW_CHANGE; MariaDB's ANNOTATE_ROWS, BINLOG_CHECKPOINT, START_ENCRYPTION
CLASS[[5, 9, 11, 13, 14, 17, 28, 29, 36, 37, 160, 161, 164]] = 2
# what never is inside of a transaction and so is not compressed with one: STOP, ROTATE, FORMAT, HEARTBEAT, GTID,
# ANONYMOUS, PREVIOUS_GTIDS, TRANSACTION_CONTEXT, VIEW_CHANGE, TRANSACTION_PAYLOAD, HEARTBEAT_V2, GTID_TAGGED
ONLY_OUTSIDE = np.zeros(256, dtype=np.uint8)
ONLY_OUTSIDE[[3, 4, 15, 27, 33, 34, 35, 36, 37, 40, 41, 42, 161, 162, 163, 164]] = 1
ONLY_OUTSIDE[PACKED_QUERY : LAST_PACKED + 1] = 1
