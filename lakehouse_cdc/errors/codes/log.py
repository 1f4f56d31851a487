"""Codes 3xxx: the binlog, positions, GTIDs, the checkpoint."""

from lakehouse_cdc.errors.tree import Code, DefiniteError, Scope, TransientError

_KEEP = "lakehouse-cdc reset --keep-tables -c pipeline.yml (the next run then reads all tables again, in place)"
_DAMAGED = (
    "Run again: the bytes may have been damaged on the way. If mysqlbinlog shows that the file itself is damaged, "
    f"FLUSH BINARY LOGS on the source; then: {_KEEP}."
)

POSITION_PURGED = Code(
    3001,
    "position_purged",
    DefiniteError,
    Scope.PIPELINE,
    "The server no longer has the binlog in which the stream would continue.",
    "Set source.on_gap: resnapshot to read all tables again; and keep binlogs longer (binlog_expire_logs_seconds).",
)

BINLOG_RESET = Code(
    3002,
    "binlog_reset",
    DefiniteError,
    Scope.PIPELINE,
    "The binlog was reset: a file of an old name has new content.",
    "Set source.on_gap: resnapshot to read all tables again.",
)

SERVER_REPLACED = Code(
    3003,
    "server_replaced",
    DefiniteError,
    Scope.PIPELINE,
    "The server is not the one that the checkpoint is of.",
    "Point source.url at the old server, or set source.on_gap: resnapshot to read all tables again.",
)

XA_PREPARED_EARLIER = Code(
    3004,
    "xa_prepared_earlier",
    DefiniteError,
    Scope.PIPELINE,
    "An XA transaction is committed whose rows lie before the first position of the stream.",
    "GRANT XA_RECOVER_ADMIN ON *.* TO the user of the source, and set source.on_gap: resnapshot.",
)

XA_PENDING = Code(
    3005,
    "xa_pending",
    TransientError,
    Scope.PIPELINE,
    "XA transactions were prepared before the first position, and are not decided yet.",
    "XA COMMIT or XA ROLLBACK them (XA RECOVER lists them), then start again.",
)

XA_PREPARE_MISSING = Code(
    3006,
    "xa_prepare_missing",
    DefiniteError,
    Scope.PIPELINE,
    "The binlog does not hold an XA transaction where it was prepared.",
    f"Restore the checkpoint, if it was changed; else: {_KEEP}.",
)

POSITION_UNSETTLED = Code(
    3007,
    "position_unsettled",
    TransientError,
    Scope.PIPELINE,
    "A transaction stays in its commit, so that the position does not settle.",
    "Look for sessions that wait for a commit or a semi-sync replica (SHOW PROCESSLIST).",
)

BINLOG_DAMAGED = Code(
    3008,
    "binlog_damaged",
    DefiniteError,
    Scope.PIPELINE,
    "An event of the binlog is damaged or cut off.",
    _DAMAGED,
)

BINLOG_CHECKSUM_WRONG = Code(
    3009,
    "binlog_checksum_wrong",
    DefiniteError,
    Scope.PIPELINE,
    "The checksum of a binlog event is wrong.",
    _DAMAGED,
)

BINLOG_EVENT_UNKNOWN = Code(
    3010,
    "binlog_event_unknown",
    DefiniteError,
    Scope.PIPELINE,
    "The binlog holds something that this release does not know.",
    "Use a release that supports the server's version; MySQL 5.7 to 9.7 and MariaDB 10.5 to 11.8 are read.",
)

BINLOG_EVENT_MISPLACED = Code(
    3011,
    "binlog_event_misplaced",
    DefiniteError,
    Scope.PIPELINE,
    "An event is at a place in the binlog where it cannot be: the start is inside a transaction.",
    f"Restore the checkpoint, whose position was changed; or: {_KEEP}.",
)

BINLOG_INCIDENT = Code(
    3012,
    "binlog_incident",
    DefiniteError,
    Scope.PIPELINE,
    "The server logged an incident: changes may be missing from its binlog.",
    f"The server's error log says what happened. FLUSH BINARY LOGS on the source; then: {_KEEP}.",
)

BINLOG_DISCONTINUED = Code(
    3013,
    "binlog_discontinued",
    DefiniteError,
    Scope.PIPELINE,
    "A binlog file does not continue the one before it.",
    f"Put the missing file, or the end of one, back on the source, and run again; if it is lost: {_KEEP}.",
)

TRANSACTIONS_MISSING = Code(
    3014,
    "transactions_missing",
    DefiniteError,
    Scope.PIPELINE,
    "A binlog file follows transactions that the files before it do not hold.",
    f"Put the end of the file before back on the source, and run again; if it is lost: {_KEEP}.",
)

ROLLBACK_AFTER_ROWS = Code(
    3015,
    "rollback_after_rows",
    DefiniteError,
    Scope.PIPELINE,
    "A ROLLBACK in the binlog undoes rows of a captured table that were read already.",
    (
        "Do not write captured tables and non-transactional ones in one transaction. FLUSH BINARY LOGS on the source; "
        f"then: {_KEEP}."
    ),
)

BINLOG_TOO_LARGE = Code(
    3016,
    "binlog_too_large",
    DefiniteError,
    Scope.PIPELINE,
    "Something in the binlog is too large for the memory of one read.",
    "Exclude the large columns (tables.NAME.exclude), or set source.max_bytes_per_trigger to less.",
)

DUMP_ENDED = Code(
    3017,
    "dump_ended",
    TransientError,
    Scope.PIPELINE,
    "The server ended the binlog dump.",
    "Run again when the server is up; if it did not shut down, give each reader its own server_id (source.server_ids).",
)

DUMP_SILENT = Code(
    3018,
    "dump_silent",
    TransientError,
    Scope.PIPELINE,
    "The server sent neither events nor heartbeats.",
    "Check the server and the network; the connection is made again.",
)

DUMP_OUT_OF_STEP = Code(
    3019,
    "dump_out_of_step",
    TransientError,
    Scope.PIPELINE,
    "The server sent packets that do not follow the protocol.",
    "Check the network and proxies between here and the server; the connection is made again.",
)

POSITION_INVALID = Code(
    3020,
    "position_invalid",
    DefiniteError,
    Scope.PIPELINE,
    "A position is not one between two events of a binlog.",
    f"Restore the checkpoint, whose position was changed; or: {_KEEP}.",
)

POSITIONS_INCOMPARABLE = Code(
    3021,
    "positions_incomparable",
    DefiniteError,
    Scope.PIPELINE,
    "A position is of a log with another base name, so that the two have no order.",
    "Name a position of the present log, as SHOW BINARY LOGS lists them.",
)

SEQ_OVERFLOW = Code(
    3022,
    "seq_overflow",
    DefiniteError,
    Scope.PIPELINE,
    "A number of a position is too large for the sequence number of a row.",
    "RESET BINARY LOGS AND GTIDS (RESET MASTER before MySQL 8.4) on the source, and set source.on_gap: resnapshot.",
)

GTID_SET_INVALID = Code(
    3023,
    "gtid_set_invalid",
    DefiniteError,
    Scope.PIPELINE,
    "A text is not a set of GTIDs.",
    "Write it as uuid:first-last (MySQL) or domain-server-sequence (MariaDB).",
)

OFFSET_UNREADABLE = Code(
    3024,
    "offset_unreadable",
    DefiniteError,
    Scope.PIPELINE,
    "The checkpoint holds an offset that this release cannot read.",
    f"Use the release that wrote the checkpoint; or: {_KEEP}.",
)

CHECKPOINT_DAMAGED = Code(
    3025,
    "checkpoint_damaged",
    DefiniteError,
    Scope.PIPELINE,
    "The checkpoint or the folder of schemas is incomplete or was changed.",
    f"Restore the checkpoint and the folder of schemas together; or: {_KEEP}.",
)

BATCH_PLANNED_OTHERWISE = Code(
    3026,
    "batch_planned_otherwise",
    DefiniteError,
    Scope.PIPELINE,
    "A batch was planned under another configuration, and is not completed.",
    "Put the options back for one more run, or delete the planned batch from the checkpoint.",
)

CURSOR_UNFIT = Code(
    3027,
    "cursor_unfit",
    DefiniteError,
    Scope.TABLE,
    "The checkpoint's progress in a table does not fit the key of the table.",
    f"Restore the checkpoint, which was changed; or: {_KEEP}.",
)

INVARIANT_BROKEN = Code(
    3028,
    "invariant_broken",
    DefiniteError,
    Scope.PIPELINE,
    "Something happened that should be impossible: an error of this package.",
    "Report it with the last offset of the checkpoint.",
)

TRANSITION_REFUSED = Code(
    3029,
    "transition_refused",
    DefiniteError,
    Scope.PIPELINE,
    "Something happened to a table that cannot happen in its state: an error of this package.",
    "Report it with the last offset of the checkpoint.",
)

TABLE_STATE_UNREADABLE = Code(
    3030,
    "table_state_unreadable",
    DefiniteError,
    Scope.PIPELINE,
    "The checkpoint holds a state of a table that no release writes.",
    f"Restore the checkpoint as it was; or: {_KEEP}.",
)

START_UNAVAILABLE = Code(
    3031,
    "start_unavailable",
    DefiniteError,
    Scope.PIPELINE,
    "The log has no such place as a start names: it was purged, is not written yet, or lies inside a transaction.",
    "Set the start that the error names (source.start, or tables.NAME.start) to a place that it names.",
)

START_BEFORE_DROP = Code(
    3032,
    "start_before_drop",
    DefiniteError,
    Scope.PIPELINE,
    "After a start there are changes of tables that were dropped or renamed since: nothing says what they mean.",
    "Set source.start, or tables.NAME.start, to a later place; or leave these tables out (source.tables).",
)

SERVER_LAGS = Code(
    3033,
    "server_lags",
    TransientError,
    Scope.PIPELINE,
    "The server that the stream would continue on has not executed all that bronze holds.",
    "Wait, if it is a replica that still applies what it received; a run tries again by itself.",
)

SERVER_LACKS = Code(
    3034,
    "server_lacks",
    DefiniteError,
    Scope.PIPELINE,
    "The server that the stream would continue on lacks transactions that bronze holds.",
    "Wait, if it is a replica that still applies them, and run again; if they were lost with the old server, set "
    "source.on_gap: resnapshot to read all tables again.",
)

LOG_ORDER_DIFFERS = Code(
    3035,
    "log_order_differs",
    DefiniteError,
    Scope.PIPELINE,
    "The server that the stream would continue on logged transactions in another order than bronze holds them.",
    "Set source.on_gap: resnapshot to read all tables again; and let replicas preserve the order of commits, and "
    "nobody else write to them.",
)

FAILOVER_REFUSED = Code(
    3036,
    "failover_refused",
    DefiniteError,
    Scope.PIPELINE,
    "Nothing proves that another server continues the log that was read.",
    "Point source.url at the old server, or set source.on_gap: resnapshot to read all tables again.",
)
