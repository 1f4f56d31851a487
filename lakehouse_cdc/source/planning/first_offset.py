"""The first offset of an epoch: W at the tip, settled, with the captured tables as they were at W.

An XA transaction that is prepared at W takes effect after it, where the log has its XA COMMIT alone; so where it was
prepared must be known. The file at the tip is read from its beginning, which shows most. One that was prepared in a
file before, and is not decided on at W, is listed by XA RECOVER at any moment before W was read. So W is read after a
list on which nothing is but what the file shows; what else is on it is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.clock import SLACK, Bounds
from lakehouse_cdc.model.offset import Identity, Offset
from lakehouse_cdc.model.position import FIRST_EVENT, Position
from lakehouse_cdc.model.state_machine import advance, advanced
from lakehouse_cdc.model.table_events import EpochBegun, TableDropped
from lakehouse_cdc.model.way_out import reason
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.preflight import checks
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.source.captured_tables import Tables
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.settling.clock_observations import sight
from lakehouse_cdc.source.settling.settled_position import Floor
from lakehouse_cdc.source.tail.log_tail import Mark, Tail
from lakehouse_cdc.source.test_hooks import Step, reached

_PATIENCE = 600.0  # seconds that what is prepared may take to end


def first_offset(
    options: SourceOptions,
    session: Session,
    floor: Floor,
    tables: Tables,
    epoch: int,
    *,
    known: Collection[str] = (),
    failed: Mapping[str, str] = MappingProxyType({}),
) -> Offset:
    """The offset that an epoch begins with. A table that cannot be captured, or `failed`, is quarantined.

    Raises DefiniteError where the source is not what it must be, where no table can be captured, and where one of
    `known`, of which bronze has rows, cannot.
    """

    stops, reasons = refusals(options, session, tables, known, failed)
    reached(Step.BEFORE_POSITION)
    seen = sight(session)  # all beyond the position that is chosen is beyond this one, too
    file = seen.tip.file
    with Tail(
        options, Position(file, FIRST_EVENT), matches=tables.selection.matches, server=session.server_uuid
    ) as tail:
        tip = when_all_is_known(session, tail)
        while True:
            reached(Step.AFTER_POSITION)
            tail.advance(tip)
            mark = tail.mark()
            floor.saw(mark.position, mark.gtids, decided=tail.xa.decided(mark.position))
            floor.wait_for(mark.position)
            schemas, faults = tables.matching(session)
            now = server.log_position(session).position
            tail.advance(now)
            if not tail.statements(after=mark.position):
                break
            tip = now  # DDL came between W and the schemas: begin again after it
        offset = offset_at(session, tail, mark, epoch, logged_after=seen.since - SLACK)
    return with_tables(offset, tables, schemas, faults, reasons, stops)


def refusals(
    options: SourceOptions,
    session: Session,
    tables: Tables,
    known: Collection[str] = (),
    failed: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Callable[[str], bool], dict[str, str]]:
    """Whether a table that cannot be captured stops the stream, and the tables that the checks of a server refuse."""

    def stops(name: str) -> bool:
        return name in known or options.stops(name)

    findings = checks.check(session, tables.selection, options.choice, options.keys)
    checks.require(findings, stops)
    refused = {f.name: reason(f.code, f.what, f.hint, f.name) for f in findings if f.is_of_table}
    return stops, {**failed, **refused}


def offset_at(session: Session, tail: Tail, mark: Mark, epoch: int, *, logged_after: int = 0) -> Offset:
    """The offset at a settled mark of a tail that began with the mark's file, or before, and yet without tables.

    `logged_after`: all beyond the mark was logged after that time, in microseconds since 1970.
    """
    created = tail.created(mark.position)
    # a file without a transaction says no more than when it was begun
    commit_ts = mark.commit_ts or created * 1_000_000
    return Offset(
        epoch=epoch,
        identity=Identity(session.server_uuid, mark.position.file, created),
        position=mark.position,
        floor=mark.position,
        gtid_set=str(mark.gtids.union(server.unlogged_gtids(session))),
        last_gtid=mark.last_gtid,
        commit_ts=commit_ts,
        prepared=tail.xa.open_at(mark.position),
        bounds=Bounds().later(by=sight(session).until, after=logged_after, stamp=commit_ts),
        anonymous=mark.anonymous,
    )


def with_tables(
    offset: Offset,
    tables: Tables,
    schemas: Mapping[str, TableSchema],
    faults: Mapping[str, DefiniteError],
    reasons: Mapping[str, str],
    stops: Callable[[str], bool],
    *,
    others: int = 0,
) -> Offset:
    """`offset` with the tables that begin there; those with a fault or a reason are quarantined.

    Raises a fault that stops the stream, and one of them where no table can be captured, nor one of so many `others`.
    """
    first = offset.next_reading(None)
    for name, fault in faults.items():
        if stops(name) or len(faults) == len(schemas) + others:
            raise fault
    of_faults = {name: reason(fault.code, fault.what, fault.hint, name) for name, fault in faults.items()}
    reasons = {**reasons, **of_faults}
    states = {
        name: advanced(
            None,
            tables.refused(schema, reasons[name]) if name in reasons else tables.captured_at(schema, seq=first),
        )
        for name, schema in schemas.items()
    }
    return replace(offset, tables=states)


def read_again(offset: Offset, before: Offset) -> Offset:
    """`offset` as the first of a new epoch: what bronze knows from `before` ends its pass with x, or is gone."""
    now, begun = offset.bounds, EpochBegun(offset.first_seq)
    bounds = before.bounds.later(by=now.by, after=now.after)
    tables = {n: advance(s, begun) if n in before.tables else s for n, s in offset.tables.items()}
    gone = {n: advance(s, TableDropped()) for n, s in before.tables.items() if n not in tables}
    states = {name: state for name, state in {**tables, **gone}.items() if state is not None}
    return replace(offset, tables=states, bounds=bounds)


def when_all_is_known(
    session: Session,
    tail: Tail,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Position:
    """The end of the binlog, at which every XA transaction that is prepared was prepared where the tail has been.

    Raises TransientError after ten minutes. Of a server that does not list them (`doctor` says so) none is waited for;
    the stream then stops where one of them is committed.
    """
    began, hidden = clock(), None
    while True:
        listed = server.prepared_xids(session)
        position = server.log_position(session).position
        tail.advance(position)
        if listed is None:
            return position
        hidden = (listed if hidden is None else hidden & listed) - {p.xid for p in tail.xa.open_at(position)}
        if not hidden:
            return position
        if clock() - began > _PATIENCE:
            raise codes.XA_PENDING.error(
                f"{len(hidden)} XA transactions have been prepared for long: their rows lie before the first position",
                where=str(position),
                hint="XA COMMIT or XA ROLLBACK them (XA RECOVER lists them), then start again",
            )
        sleep(0.05)
