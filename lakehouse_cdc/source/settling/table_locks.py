"""What a SELECT of a table sees whose engine locks the whole table for each statement (`schema.engines.LOCKED`).

A statement takes the table's write lock, changes rows, writes their events to the binlog, and gives the lock back. So
it is where it fails in part: what remains of it is logged as rows, and as a transaction of its own, whatever becomes of
the session's transaction. Of the two things that an as-of read has to know, the locks prove one:

* Nothing that a SELECT sees is after the position that is read when the SELECT has its lock: what it sees was logged
  before the lock was given back. A concurrent INSERT, which readers need not wait for (MyISAM, Aria, CSV), shows its
  rows where it gives back its lock, at once and not before.
* What is in the position may not be visible, for a concurrent INSERT may have been logged and hold its lock still.
  CHECK TABLE ... FOR UPGRADE asks for a read lock that keeps these out as well, and then looks at the table's version
  alone. It needs no right but SELECT. When it returns, all that was logged before it began is visible.

So a floor is settled for such a table by the task itself, right before the SELECT, whatever `settled_position` knows of
GTIDs or time: a GTID is executed, and an event is old, while a LOCK TABLES ... WRITE CONCURRENT still hides it.

A server that is read-only may refuse that statement (MySQL 8.0 does). There a moment is waited for at which nobody has
the table open, which SHOW OPEN TABLES shows: a statement has its tables open until after it has given back their locks.

LOCK TABLES ... READ asks for that lock, too, and keeps it: nothing of the table is logged until it is given back.

MariaDB's INSERT DELAYED breaks the first rule: a thread of the server writes rows for the sessions, lets readers in
between, and logs them together. It keeps the table open as long as it lives. So a position counts only if after the
SELECT there was a moment without such a thread, or one at which nobody had this table open; what had been written by
then was logged.

Sources: MySQL `mysys/thr_lock.cc` (the matrix of locks), `sql/sql_admin.cc` (CHECK TABLE is TL_READ_NO_INSERT),
`sql/handler.cc` (`ha_check`), `storage/myisam/mi_locking.cc` (`mi_update_status`); MariaDB `sql/sql_insert.cc`
(`Delayed_insert::handle_inserts`); the reference manuals, "Concurrent Inserts"; and what five servers do.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from lakehouse_cdc.errors import DefiniteError, TransientError, codes
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.key_range import place
from lakehouse_cdc.mysql.literals import quoted
from lakehouse_cdc.schema.table import TableSchema

_PATIENCE = 600.0  # seconds: the thread ends when nothing was inserted for delayed_insert_timeout, which is 300 s
_PATIENCE_AT_REST = 60.0
_FAILED = "operation failed"


def has_settled(session: Session, schema: TableSchema) -> bool:
    """Wait until all of the table that has been logged is visible; True for an engine without such locks.

    False where the server did not get as far as the lock: the table is gone, or the wait was too long.
    """
    if not schema.locked:
        return True
    try:
        answers = session.query(f"CHECK TABLE {place(schema)} FOR UPGRADE")
    except DefiniteError as error:
        if error.code is not codes.STATEMENT_REFUSED:
            raise
        return _comes_to_rest(session, schema)
    return not any(str(text).strip().lower() == _FAILED for *_, text in answers)


def _comes_to_rest(session: Session, schema: TableSchema) -> bool:
    """Wait for a moment at which nobody has the table open; False where there is none for a minute."""
    until = time.monotonic() + _PATIENCE_AT_REST
    while not _is_closed(session, schema):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def has_locked(session: Session, data: Session, schema: TableSchema) -> bool:
    """Lock the table for reading in `data`, until that ends: just what is logged by then is visible.

    False, and it is not locked, where the user has no right to, or a thread of INSERT DELAYED is there.
    """
    try:
        data.query(f"LOCK TABLES {place(schema)} READ")
    except DefiniteError as error:
        if error.code is not codes.RIGHT_MISSING:
            raise
        return False
    if session.is_mariadb and _delayed_threads(session):
        data.query("UNLOCK TABLES")
        return False
    return True


def unsettled(schema: TableSchema) -> TransientError:
    """The error where a SELECT succeeded that `has_settled` says nothing of."""
    return codes.STATEMENT_INTERRUPTED.error("CHECK TABLE ... FOR UPGRADE did not get its lock", where=schema.name)


def wait_for_delayed(
    session: Session,
    schema: TableSchema,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return when no INSERT DELAYED can have shown rows that are not logged. Raises DefiniteError after ten minutes."""
    if not (schema.locked and session.is_mariadb):
        return
    began = clock()
    while not _without_delayed(session, schema):
        if clock() - began > _PATIENCE:
            raise codes.ROWS_DELAYED.error(
                "rows of INSERT DELAYED are visible before they are in the binlog, and such a thread is always there",
                where=schema.name,
                hint="SET GLOBAL max_delayed_threads = 0 makes a plain INSERT of it, and FLUSH TABLES ends the thread",
            )
        sleep(0.05)


def _without_delayed(session: Session, schema: TableSchema) -> bool:
    return not _delayed_threads(session) or _is_closed(session, schema)


def _is_closed(session: Session, schema: TableSchema) -> bool:
    """Whether nobody uses the table."""
    shown = session.query(f"SHOW OPEN TABLES FROM {quoted(schema.database)} WHERE `Table` = %s", (schema.table,))
    return all(int(in_use) == 0 for _, _, in_use, _ in shown)


def _delayed_threads(session: Session) -> int:
    [(_, threads)] = session.query("SHOW GLOBAL STATUS LIKE 'Delayed_insert_threads'")
    return int(threads)
