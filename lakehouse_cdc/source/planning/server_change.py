"""A stream continues on another server of the replication group: exactly where it was, and nothing is read again.

**Terms.** O: the offset, of the server A. H: the transactions up to O, which bronze holds. B: the server that is there
now. O': the offset on B that means the same as O.

**Which transactions are in bronze.** Those of O's GTID set and no others: the set is what A had logged up to O's
position. It is whole (A's log says what was logged before each file, A itself what it never logged; both are put into
the offset while the stream is on A), unless the last transaction has no GTID, and then the offset says so.

**Where B's log continues O's** is decided by `model.log_place` alone: where all of H, and nothing else, is before. What
is after that position is each transaction once that bronze lacks. Where B logged in another order there is no such
place, and the stream is refused; it is never put right by leaving out transactions.

**O'** has the position on B, H, and the next epoch, so that its seqs are after all others though B's files may have
smaller numbers. It is offered as a batch of its own, which has no rows: what Spark stores is either O or O', and the
same is planned from it whatever crashes. Its tables are those of O:

- A cursor means the same: rows below it were read as of O or earlier, and are what the tables held; B's tables at O'
  are A's at O. Chunks are then read on B, as of positions of B.
- Reads that are not confirmed were made on A. Whether they crossed a DDL on A, nobody can say any more (it may be lost
  with A). So they are taken back as if they had (`ServerReplaced`).
- Floors are positions of A. On B all is settled up to O': that is waited for.
- Places at which other tables begin (`later_starts`) are found as O' is, each by the transactions before it.
- XA transactions that are prepared at O are prepared at O' too, in B's log where B has them. All of them must be there.

**What is compared.** That B has executed H, purged nothing else, logs rows as A must, has each captured table in the
shape that it has in O, where no later statement names it. That a replica applied what it received, and nobody wrote
into it without logging that, is what replication promises; `verify` compares the rows.

**A batch that was planned on A and is executed on B** (after a crash) is planned from the two offsets on B that mean
the same, so its changes are those of the GTIDs between, in B's order, with B's seqs. Bronze commits a batch whole:
either A's rows are in it, or B's. The chunks of such a batch emit nothing: they are not confirmed, so they are taken
back in any case. Its epoch is noted before a row of it is read, and the stream never continues in that epoch or an
earlier one: whichever rows were committed, later ones have later seqs.

Guards: tests/source/test_failover.py, on real servers with real replication; tests/model/test_log_place.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from lakehouse_cdc.errors import CdcError, DefiniteError, codes
from lakehouse_cdc.model.failover import shown
from lakehouse_cdc.model.gtid import GtidSet, is_mariadb
from lakehouse_cdc.model.log_place import Held, OutOfOrder, Place, Purged, Unnamed, place_of
from lakehouse_cdc.model.offset import Identity, LaterStart, Offset
from lakehouse_cdc.model.state_machine import advanced
from lakehouse_cdc.model.table_events import ServerReplaced
from lakehouse_cdc.model.table_state import TableState
from lakehouse_cdc.model.xa import Prepared, open_at
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.preflight import checks
from lakehouse_cdc.schema.table import INEXACT, TableSchema
from lakehouse_cdc.source.captured_tables import Tables, wait_for_ddl
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.planning.logged_files import ServerLog
from lakehouse_cdc.source.settling.settled_position import Floor
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.source.tail.log_tail import Tail

PATIENCE = 20.0  # seconds that a server may take which does not say that it applies what it received
_READ_AGAIN = "set source.on_gap: resnapshot, which reads all tables again in a new epoch"
_BACK = "point source.url at the old server"
_LISTED = 5  # names in an error


@dataclass(frozen=True)
class _Start:
    """Where B continues, when the position's file was made, and the XA transactions that are open there."""

    place: Place
    created: int
    prepared: tuple[Prepared, ...]


class ServerChange:
    """Moves offsets of one stream to the server that a session has reached.

    Methods raise DefiniteError where that cannot be done exactly, TransientError while the server may yet apply what
    bronze holds.
    """

    def __init__(
        self,
        options: SourceOptions,
        tables: Tables,
        store: SchemaStore,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options, self._tables, self._store, self._clock = options, tables, store, clock
        self._lacking_since: float | None = None

    def moved(self, session: Session, floor: Callable[[], Floor], start: Offset) -> Offset:
        """O': `start` on the session's server, settled, in an epoch that no row has yet."""
        self._require_fit(session, start, start.starts)
        located = self._located(session, start, self._store.last_epoch(start.epoch) + 1)
        settled = floor()
        settled.saw(located.position, located.gtids())
        settled.wait_for(located.position)
        tables = {name: self._replaced(located, state) for name, state in located.tables.items()}
        starts = tuple(self._later(session, located, one) for one in start.starts)
        moved = replace(located, tables=tables, ddl=(), between=(), starts=starts)
        self._require_same_tables(session, moved)
        return moved

    def replayed(
        self, session: Session, start: Offset | None, end: Offset
    ) -> tuple[Offset | None, Sequence[Offset], Offset]:
        """The offsets of a batch on the session's server: its start, the ends of its stretches, and its end.

        The epoch is noted, and is the same whenever the batch is executed on this server.
        """
        self._require_fit(session, end)
        epoch = self._store.claimed_epoch(end.epoch, session.server_uuid)
        begin = start if start is None or start.epoch != end.epoch else self._located(session, start, epoch)
        ends = [self._located(session, one, epoch) for one in (*end.between, end)]
        return begin, ends[:-1], ends[-1]

    # ------------------------------------------------------------------ the place

    def _located(self, session: Session, offset: Offset, epoch: int) -> Offset:
        """`offset` at the place on the session's server, its tables as they are."""
        start = self._start(session, offset)
        position = start.place.position
        return replace(
            offset,
            epoch=epoch,
            identity=Identity(session.server_uuid, position.file, start.created),
            position=position,
            floor=position,
            gtid_set=str(start.place.gtids.union(offset.gtids())),
            prepared=start.prepared,
            unbroken=offset.unbroken or offset.epoch,
        )

    def _later(self, session: Session, offset: Offset, start: LaterStart) -> LaterStart:
        """Where tables begin on the session's server."""
        there = replace(offset, gtid_set=start.gtid_set, prepared=())
        return start._replace(position=self._start(session, there).place.position)

    def _start(self, session: Session, offset: Offset) -> _Start:
        self._require_gtids(session, offset)
        held, unlogged = _held(session, offset), server.unlogged_gtids(session)
        with ServerLog(self._options, session) as log:
            match place_of(held, log.files, unlogged):
                case Place() as place:
                    return self._with_xa(log, place, offset)
                case Purged(gtids):
                    raise codes.POSITION_PURGED.error(
                        f"the server has purged transactions that bronze lacks: {shown(gtids)}",
                        where=_where(session), hint=f"{_BACK}; or {_READ_AGAIN}",
                    )  # fmt: skip
                case OutOfOrder(late, first):
                    before = f"logged after {first}, which bronze lacks" if first else "not in its log"
                    raise codes.LOG_ORDER_DIFFERS.error(
                        f"the server has other transactions before those that bronze holds: {shown(late)} are {before}",
                        where=_where(session),
                        hint=f"{_READ_AGAIN}; and let replicas preserve the order of commits"
                        " (replica_preserve_commit_order = ON), and nobody else write to them",
                    )
                case Unnamed(position):
                    raise self._refused(session, f"a transaction without a GTID ends at {position}")

    def _require_fit(self, session: Session, offset: Offset, starts: Sequence[LaterStart] = ()) -> None:
        """Raise DefiniteError or TransientError for a server that lacks something, or is not what a source must be."""
        self._require_gtids(session, offset)
        executed, _ = server.executed_gtids(session)
        wanted = {"bronze holds": offset}
        wanted |= {"tables begin after": replace(offset, gtid_set=starts[-1].gtid_set)} if starts else {}
        for why, place in wanted.items():
            if missing := _held(session, place).beyond(executed):
                raise self._lacking(session, missing, why)
        self._lacking_since = None
        checks.require(checks.check(session, self._tables.selection, self._options.choice, self._options.keys))
        if filters := server.replica_filters(session):
            raise self._refused(session, f"it is a replica that leaves some changes out ({'; '.join(filters)})")

    def _require_gtids(self, session: Session, offset: Offset) -> None:
        sources = offset.gtids().sources
        if not sources or offset.anonymous:
            what = "the checkpoint holds no GTIDs" if not sources else "bronze holds a transaction without a GTID"
            raise self._refused(session, what)
        if any(is_mariadb(source) != session.is_mariadb for source in sources):
            raise self._refused(session, "it is a server of another kind, whose GTIDs are others")
        if not session.is_mariadb and not server.is_on(session, "gtid_mode"):
            raise self._refused(session, "its gtid_mode is not ON")

    def _lacking(self, session: Session, missing: GtidSet, why: str) -> CdcError:
        what = f"the server has not executed {shown(missing)}, which {why}"
        now = self._clock()
        self._lacking_since = now if self._lacking_since is None else self._lacking_since
        if _applies(session) or now - self._lacking_since < PATIENCE:
            return codes.SERVER_LAGS.error(
                what, where=_where(session), hint="wait, if it is a replica that still applies them"
            )
        return codes.SERVER_LACKS.error(
            what, where=_where(session),
            hint="wait, if it is a replica that still applies them, and run again; what was lost with the old server"
            f" stays lost: {_READ_AGAIN}",
        )  # fmt: skip

    def _with_xa(self, log: ServerLog, place: Place, offset: Offset) -> _Start:
        """Where the XA transactions were prepared that are open there, by the log from the position's file on."""
        known = {one.xid: one for one in open_at(offset.prepared, offset.position)}
        here = next(file.name for file in log.files if file.name == place.position.file)
        prepared: dict[str, Prepared] = {}
        created = 0
        for first in dict.fromkeys((here, log.files[0].name)):
            tail = log.tail_from(first)
            tail.advance(place.position)
            created = tail.created(place.position)
            prepared = {one.xid: one for one in tail.xa.open_at(place.position)}
            if known.keys() <= prepared.keys():
                break
        else:
            raise codes.FAILOVER_REFUSED.error(
                "an XA transaction is prepared, and was so before the server's oldest binlog file",
                where=str(place.position),
                hint=f"XA COMMIT or XA ROLLBACK it on the old server first (XA RECOVER lists it), and {_BACK} until"
                f" then; or {_READ_AGAIN}",
            )
        both = {xid: replace(one, rows=known[xid].rows, again=known[xid].again) if xid in known else one
                for xid, one in prepared.items()}  # fmt: skip
        return _Start(place, created, tuple(both.values()))

    # ------------------------------------------------------------------ the tables

    def _replaced(self, offset: Offset, state: TableState) -> TableState:
        keyless = state.captured and not self._store.get(state.schema).range_key
        return advanced(state, ServerReplaced(offset.next_reading(state) if keyless and state.unconfirmed else None))

    def _require_same_tables(self, session: Session, offset: Offset) -> None:
        """Raise DefiniteError where a captured table is another one on this server, and no later statement says why."""
        known = {name: self._store.get(state.schema) for name, state in offset.captured.items()}
        with Tail(
            self._options, offset.position, matches=self._tables.selection.matches, gtids=offset.gtids(),
            schemas=[*known.values()], prepared=offset.prepared, server=session.server_uuid,
        ) as tail:  # fmt: skip
            tail.advance(server.log_position(session).position)
            there, _ = self._tables.matching(session, known=known, renamed=True)
            wait_for_ddl(session, there.values())
            tail.advance(server.log_position(session).position)
            differ = [
                name
                for name, schema in known.items()
                if not tail.naming(name, after=offset.position) and not _same(schema, there.get(name))
            ]
        if differ:
            names = ", ".join(differ[:_LISTED]) + (f" and {len(differ) - _LISTED} more" if differ[_LISTED:] else "")
            raise self._refused(session, f"its tables are not those of the old server: {names}")

    def _refused(self, session: Session, what: str) -> CdcError:
        return codes.FAILOVER_REFUSED.error(
            f"the stream cannot follow to another server: {what}", where=_where(session),
            hint=f"{_BACK}; or {_READ_AGAIN}",
        )  # fmt: skip


def _held(session: Session, offset: Offset) -> Held:
    return Held(offset.gtids(), by_domain=session.is_mariadb and server.is_on(session, "gtid_strict_mode"))


def _applies(session: Session) -> bool:
    """Whether it is a replica that is at work on what it received, or waits for more."""
    with suppress(DefiniteError):  # the user may not see it
        return any(lag is not None for lag in server.replica_lags(session))
    return False


def _where(session: Session) -> str:
    return f"{session.options.host}:{session.options.port}, server {session.server_uuid}"


def _same(schema: TableSchema, there: TableSchema | None) -> bool:
    """Whether a table has the columns and the primary key that it had, whatever is captured of them."""
    return there is not None and _shape(schema) == _shape(there)


def _shape(schema: TableSchema) -> Sequence[object]:
    columns = [
        (c.name, c.type, c.nullable, c.unsigned, c.length, None if c.type in INEXACT else (c.precision, c.scale),
         c.fraction, c.charset, c.collation, c.values)
        for c in schema.columns
    ]  # fmt: skip
    return [columns, schema.primary_key, schema.engine]
