"""What the source asks the server about itself: its position, its logs, its settings, who waits in a commit.

The statement for a thing depends on the version, and the version is known, so nothing is asked by trial: SHOW MASTER
STATUS is gone from MySQL 8.4 on, SHOW BINARY LOG STATUS came with 8.2.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.gtid import GtidSet
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.table_name import join, split
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.literals import quoted

_ENDLESS_SECONDS = 3600  # a semi-sync time-out beyond this is no bound that anybody could wait for
_ROTATION_SECONDS = 10.0  # that a server may take to end a file that is too large
_LEAST_ROW = 18  # a record's header, its transaction and its roll pointer (InnoDB, "COMPACT Row Format")
_FRESH = "/*+ SET_VAR(information_schema_stats_expiry = 0) */ "
_IN_COMMIT = ("waiting for handler commit", "waiting for semi-sync ack%", "waiting for semisync ack%")


@dataclass(frozen=True)
class ServerPosition:
    """The end of the binlog. `gtid_set` lags behind the position: use it as a hint only."""

    position: Position
    gtid_set: str


@dataclass(frozen=True)
class SemiSync:
    """Whether commits wait for replicas, for how long at most, and whether that has an end worth the name."""

    enabled: bool
    timeout_seconds: float
    endless: bool


def binlog_status(session: Session) -> tuple[str, ...]:
    """File, position, logged databases, ignored databases, and on MySQL the GTIDs; () if the binlog is off."""
    new = not session.is_mariadb and session.version >= (8, 2, 0)
    rows = session.query("SHOW BINARY LOG STATUS" if new else "SHOW MASTER STATUS")
    return tuple(map(str, rows[0])) if rows else ()


def log_position(session: Session) -> ServerPosition:
    """The position after the last event in the binlog. Raises DefiniteError if the binlog is off.

    A file that is larger than max_binlog_size (1 GiB at most) is ended when the transaction that made it so has
    committed. So where the position is one that no dump can start at, the next file is waited for, for some seconds.
    """
    until = time.monotonic() + _ROTATION_SECONDS
    while True:
        status = binlog_status(session)
        if not status:
            raise codes.BINLOG_DISABLED.error("the server writes no binlog", where=session.options.where)
        file, pos, *rest = status
        position = Position(file, int(pos))
        if position.startable or time.monotonic() > until:
            return ServerPosition(position, rest[2] if len(rest) > 2 else "")
        time.sleep(0.05)


def clock_us(session: Session) -> int:
    """What the server's clock says now, in microseconds since 1970.

    SYSDATE does not depend on the session variable `timestamp`, which an `init_connect` may set (MySQL Reference
    Manual, "Date and Time Functions"); the session is at UTC.
    """
    return int(session.scalar("SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)"))


def binary_logs(session: Session) -> list[tuple[str, int]]:
    """The files that the server still has, oldest first, with their sizes in bytes, as positions count them.

    An encrypted file of MySQL's is longer: its header, which no position counts, is 512 bytes (MySQL Reference Manual,
    "Encrypting Binary Log Files and Relay Log Files").
    """
    return [
        (str(file), int(size) - (512 if encrypted == ["Yes"] else 0))
        for file, size, *encrypted in session.query("SHOW BINARY LOGS")
    ]


def settings(session: Session, like: str = "%") -> dict[str, str]:
    """The global variables whose names are like the pattern, by lower-case name: all of them are some 650 rows."""
    rows = session.query("SHOW GLOBAL VARIABLES LIKE %s", [like])
    return {str(name).lower(): str(value) for name, value in rows}


def threads_running(session: Session) -> int:
    """How many of the server's threads are in a command just now; this session is one."""
    [(_, count)] = session.query("SHOW GLOBAL STATUS LIKE 'Threads_running'")
    return int(count)


def replica_lags(session: Session) -> list[int | None]:
    """How many seconds this server lags behind each server that it replicates from; None where it cannot tell."""
    new = not session.is_mariadb and session.version >= (8, 0, 22)
    lag = "Seconds_Behind_Source" if new else "Seconds_Behind_Master"
    records = session.records(_replica_status(session))
    return [None if (seconds := record[lag]) is None else int(seconds) for record in records]


_FILTERS = (
    "Replicate_Do_DB", "Replicate_Ignore_DB", "Replicate_Do_Table", "Replicate_Ignore_Table",
    "Replicate_Wild_Do_Table", "Replicate_Wild_Ignore_Table", "Replicate_Rewrite_DB",
)  # fmt: skip


def replica_filters(session: Session) -> list[str]:
    """What keeps a replica from applying all that its source logs, as `name: value`."""
    records = session.records(_replica_status(session))
    return [f"{name}: {record[name]}" for record in records for name in _FILTERS if record.get(name)]


def _replica_status(session: Session) -> str:
    if session.is_mariadb:
        return "SHOW ALL SLAVES STATUS"
    return "SHOW REPLICA STATUS" if session.version >= (8, 0, 22) else "SHOW SLAVE STATUS"


def executed_contains(session: Session, gtid_set: str) -> bool:
    """Whether every GTID of the set is executed, that is committed and visible. The empty set is."""
    return bool(session.scalar("SELECT GTID_SUBSET(%s, @@GLOBAL.gtid_executed)", [gtid_set]))


def executed_gtids(session: Session) -> tuple[GtidSet, GtidSet | None]:
    """The transactions that the server has executed, and those that are in its binlog no more; None: not known.

    MariaDB's: the last ones of each domain and server in its log, and those that it has applied as a replica.
    """
    if session.is_mariadb:
        logged, applied = session.one("SELECT @@GLOBAL.gtid_binlog_state, @@GLOBAL.gtid_slave_pos")
        return GtidSet.parse(str(logged or "")).union(GtidSet.parse(str(applied or ""))), None
    executed, purged = session.one("SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged")
    return GtidSet.parse(str(executed)), GtidSet.parse(str(purged))


def unlogged_gtids(session: Session) -> GtidSet:
    """MySQL's transactions that no file of the log holds any more, or ever held: those of a backup, for example.

    While files are there that were written before, all of these were executed before what they hold. Nothing is known
    of that from MariaDB, nor from MySQL without GTIDs.
    """
    if session.is_mariadb or not is_on(session, "gtid_mode"):
        return GtidSet()
    return GtidSet.parse(str(session.scalar("SELECT @@GLOBAL.gtid_purged")))


def is_on(session: Session, variable: str) -> bool:
    """Whether a global variable is ON; one that the server does not have is not."""
    rows = session.query("SHOW GLOBAL VARIABLES LIKE %s", [variable.replace("_", r"\_")])
    return bool(rows) and str(rows[0][1]).upper() == "ON"


def prepared_xids(session: Session) -> set[str] | None:
    """The XA transactions that are prepared now, named as in `model.xa`; None without the right (XA_RECOVER_ADMIN)."""
    try:
        rows = session.query("XA RECOVER FORMAT = 'SQL'" if session.is_mariadb else "XA RECOVER CONVERT XID")
    except DefiniteError as error:
        if error.code is not codes.XA_RECOVER_DENIED:
            raise
        return None
    read = _quoted_xid if session.is_mariadb else _hex_xid
    return {f"{read(str(text), int(size), int(branch))},{number}" for number, size, branch, text in rows}


def _hex_xid(text: str, size: int, branch: int) -> str:
    """MySQL's form: both parts in one, after 0x."""
    digits = text[2:].lower()
    return f"{digits[: 2 * size]},{digits[2 * size : 2 * (size + branch)]}"


def _quoted_xid(text: str, *sizes: int) -> str:
    """MariaDB's form: each part as X'...' or, where all of it can be printed, as '...'; an empty one may be missing."""
    parts, at = [], 0
    for size in sizes:
        if text[at : at + 1].upper() == "X":
            parts.append(text[at + 2 : at + 2 + 2 * size].lower())
            at += 2 * size + 4
        else:
            parts.append(text[at + 1 : at + 1 + size].encode("latin-1").hex())
            at += size + 3
    return ",".join(parts)


def semi_sync(session: Session) -> SemiSync:
    """The server's semi-sync settings, under the names of either era."""
    values = settings(session, "rpl_semi_sync_%")
    for prefix in ("rpl_semi_sync_source_", "rpl_semi_sync_master_"):
        if f"{prefix}enabled" in values:
            timeout = int(values[f"{prefix}timeout"]) / 1000
            enabled = values[f"{prefix}enabled"].upper() in ("ON", "1")
            return SemiSync(enabled, timeout, endless=timeout > _ENDLESS_SECONDS)
    return SemiSync(enabled=False, timeout_seconds=0.0, endless=False)


def lacks(session: Session, name: str) -> bool:
    """Whether there is no table of that full name; one that this user may not see is not known to be gone."""
    database, table = split(name)
    try:
        session.query(f"SELECT 1 FROM {quoted(database)}.{quoted(table)} LIMIT 0")
    except DefiniteError as error:
        return error.code is codes.OBJECT_MISSING
    return False


def row_bytes(session: Session, database: str, table: str) -> int | None:
    """About how many bytes a row of a table takes where it is stored; None of a table of which that is not known.

    From 8.0 on the server may say for a day what it said before, unless it is asked not to. Less than InnoDB's own
    bytes of a row is said of a table that has just been filled: its pages were counted before.
    """
    rows = session.query(
        f"SELECT {_fresh(session)}AVG_ROW_LENGTH FROM INFORMATION_SCHEMA.TABLES"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (database, table),
    )
    size = int(rows[0][0] or 0) if rows else 0
    return size if size >= _LEAST_ROW else None


def _fresh(session: Session) -> str:
    """What has the server count now, where it may say what it counted before."""
    return "" if session.is_mariadb or session.version < (8, 0, 0) else _FRESH


def average_row_sizes(session: Session, least: int) -> dict[str, int]:
    """The tables whose rows take at least `least` bytes on average where they are stored, and how many they take."""
    rows = session.query(
        f"SELECT {_fresh(session)}TABLE_SCHEMA, TABLE_NAME, AVG_ROW_LENGTH FROM INFORMATION_SCHEMA.TABLES"
        " WHERE AVG_ROW_LENGTH >= %s",
        (least,),
    )
    return {join(str(database), str(table)): int(size) for database, table, size in rows}


def snapshot_position(session: Session) -> Position:
    """MariaDB alone: a position up to which every transaction is visible to SELECTs from now on.

    A consistent snapshot there is tied to a place in the order of commits, in which the binlog is written, and says
    which (MariaDB documentation, "START TRANSACTION WITH CONSISTENT SNAPSHOT", binlog_snapshot_position).
    """
    session.query("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    try:
        return view_position(session)
    finally:
        session.query("COMMIT")


def view_position(session: Session) -> Position:
    """MariaDB alone: the place of the session's consistent snapshot in the order of commits."""
    rows = session.query("SHOW STATUS LIKE 'binlog\\_snapshot\\_%'")
    values = {str(name).lower(): str(value) for name, value in rows}
    return Position(values["binlog_snapshot_file"], int(values["binlog_snapshot_position"]))


def has_process_right(session: Session) -> bool:
    """Whether this session sees which threads wait in a commit: PROCESS, and SELECT on a whole performance_schema.

    Never before MySQL 8.0 and on MariaDB: there such a thread looks like any other at its statement's end.
    """
    if session.is_mariadb or session.version < (8, 0, 0):
        return False
    grants = " ".join(str(row[0]).upper() for row in session.query("SHOW GRANTS FOR CURRENT_USER()"))
    on_all = [part.partition(" ON *.* ")[0] for part in grants.split("GRANT ") if " ON *.* " in part]
    if not any("PROCESS" in rights or "ALL PRIVILEGES" in rights for rights in on_all):
        return False
    try:
        for table in ("threads", "events_statements_current"):
            session.query(f"SELECT 1 FROM performance_schema.{table} LIMIT 1")
    except DefiniteError:
        return False
    values = settings(session, "performance_schema%")
    # with room for so many threads, those beyond would not be seen
    unlimited = values.get("performance_schema_max_thread_instances") == "-1"
    return values.get("performance_schema", "OFF").upper() == "ON" and unlimited


def commit_waits(session: Session) -> set[tuple[int, int]]:
    """The (thread, statement) pairs that wait in their commit right now.

    A transaction that is in the binlog and is not visible yet is one of them. The statement's number (the
    innermost one's: a procedure may commit many times) distinguishes a thread that still waits from one that waits
    again with its next transaction. State and statement are asked for in this order, in two statements: a thread that
    continued in between has made its first transaction visible, and is taken for the next one, which only waits too
    long. In the other order it would be taken for one that is over. A thread without a statement (its instrumentation
    is off) goes by the number 0.
    """
    states = " OR ".join(f"LOWER(PROCESSLIST_STATE) LIKE '{state}'" for state in _IN_COMMIT)
    # a session that commits a user's transaction is in the process list; InnoDB's own threads are not, and one of them
    # sleeps in that state
    waiting = session.query(
        f"SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID IS NOT NULL AND ({states})"
    )
    if not waiting:
        return set()
    threads = [int(row[0]) for row in waiting]
    statements = session.query(
        "SELECT THREAD_ID, MAX(EVENT_ID) FROM performance_schema.events_statements_current"
        f" WHERE THREAD_ID IN ({', '.join(map(str, threads))}) GROUP BY THREAD_ID"
    )
    innermost = {int(thread): int(statement) for thread, statement in statements}
    return {(thread, innermost.get(thread, 0)) for thread in threads}
