"""The first offset of a stream without snapshots that begins in the past, where options `start` say.

**One start for each table.** The stream begins at the earliest of all; a table with a later one begins when the stream
has come to that (`later_starts`). What follows is said of a start and of the tables that have it; tables of other
starts are none of its business. So the log is surveyed from each start on, for its own tables.

**What has to be known.** A row in the log is read by the columns that its table had when it was written. The catalog
says what they are now, at the end of the log. So the log is read from the start on to that end, without its rows: each
statement that may change a table, and where the first rows of each table are.

- A table that no such statement names has the columns that it has now. (An index, a TRUNCATE or a CREATE TABLE IF NOT
  EXISTS changes none.) It begins at the start.
- The last such statement created the table, empty, and the rows of its name are all after that: the table is not there
  at the start, and begins where it was born, as any table does that is created while a stream runs. (One that CREATE
  TABLE ... SELECT fills in the same transaction does not: no batch ends between the two.)
- Any other has columns at the start that nobody knows: it is quarantined there. `signal snapshot` reads it as it is.
- Rows of a table that was dropped or renamed after them could be of any columns. There is no table to quarantine, and a
  stream that passed them over would lose them in silence. So such a start is refused, by the names of the tables. Rows
  count that were prepared before the start and take effect after it, and those of a statement logged as text, too
  (`first_rows`).

The binlog's own metadata (binlog_row_metadata = FULL) is not needed for this, and would not be enough: it says nothing
of generated columns, nor of a table that was not written. Where it is there, each row is compared with it when it is
read, as ever.

**What the offset holds.** The GTID set at the start is what its file begins with and the transactions up to the start,
never what the user wrote, so that nothing is missing from it. An XA transaction that is open there may have been
prepared in an older file: where its commit shows up after the start, or XA RECOVER lists it, the log is read from its
oldest file on. The floor is the start: nothing is read as of an earlier position.

Guards: tests/source/test_start.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.position import FIRST_EVENT, Position
from lakehouse_cdc.model.start_point import StartPoint
from lakehouse_cdc.model.table_name import split
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.binlog.scan import LoggedStatement
from lakehouse_cdc.mysql.catalog import read_catalog
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.source.captured_tables import Tables, wait_for_ddl
from lakehouse_cdc.source.ddl.schema_resolution import is_silent
from lakehouse_cdc.source.options import SourceOptions, start_name
from lakehouse_cdc.source.planning.first_offset import offset_at, refusals, with_tables
from lakehouse_cdc.source.planning.first_rows import first_rows
from lakehouse_cdc.source.planning.later_starts import with_later_starts
from lakehouse_cdc.source.planning.start_search import StartSearch
from lakehouse_cdc.source.settling import gaps
from lakehouse_cdc.source.settling.settled_position import Floor
from lakehouse_cdc.source.tail.log_tail import Mapped, Tail
from lakehouse_cdc.sql.ddl.effects import names_after

_LISTED = 5  # names in an error


@dataclass(frozen=True)
class _Survey:
    """What the log from a start on says: the tables that begin there, why some cannot, and which are born later.

    `foreign_xa`: the first commit of an XA transaction that was prepared before the start's file began. `hidden_xa`:
    one that is prepared and not decided on may have been.
    """

    schemas: Mapping[str, TableSchema]
    faults: Mapping[str, DefiniteError]
    born: frozenset[str]
    foreign_xa: Position | None
    hidden_xa: bool


def started_offset(options: SourceOptions, session: Session, floor: Floor, tables: Tables) -> Offset:
    """The first offset of a stream that begins where the options say.

    A table that cannot be captured, or whose columns there are not known, is quarantined. Raises DefiniteError as
    `first_offset` does, and where the log has no such place, or changes after it of which nothing can be made.
    """
    stops, reasons = refusals(options, session, tables)
    places = _places(options, session)
    begun: Offset | None = None
    later: list[tuple[Offset, Collection[str]]] = []
    there, faults, born = dict[str, TableSchema](), dict[str, DefiniteError](), 0
    for place in sorted(set(places.values())):

        def begins_here(name: str, place: Position = place) -> bool:
            return tables.selection.matches(name) and places[options.start_of(name)] == place

        offset, surveyed = _begun(options, session, floor, tables, place, begins_here)
        if begun is None:
            begun = offset
        else:
            later.append((offset, {*surveyed.schemas, *surveyed.born}))
        there |= surveyed.schemas
        faults |= surveyed.faults
        born += len(surveyed.born)
    assert begun is not None
    reasons = {name: why for name, why in reasons.items() if name in there}
    offset = with_tables(begun, tables, there, faults, reasons, stops, others=born)
    return with_later_starts(offset, later)


def _places(options: SourceOptions, session: Session) -> dict[StartPoint, Position]:
    """Where each start is in the log; that of the pipeline too, which tables have that are created later."""
    tip = server.log_position(session).position
    named = {options.start_point: "source.start"}
    named = {**{start: start_name(pattern) for pattern, start in options.starts.items()}, **named}
    return {start: StartSearch(options, session, tip, start, name).position() for start, name in named.items()}


def _begun(
    options: SourceOptions,
    session: Session,
    floor: Floor,
    tables: Tables,
    start: Position,
    begins_here: Callable[[str], bool],
) -> tuple[Offset, _Survey]:
    """The offset at `start`, without tables, and what the log from there on says of those that begin there."""
    oldest = server.binary_logs(session)[0][0]
    offset = _offset_at(options, session, floor, tables, start, first=start.file)
    surveyed = _survey(options, session, tables, offset, begins_here)
    if (surveyed.foreign_xa or surveyed.hidden_xa) and start.file != oldest:
        offset = _offset_at(options, session, floor, tables, start, first=oldest)
        surveyed = _survey(options, session, tables, offset, begins_here)
    if surveyed.foreign_xa:
        raise gaps.xa_before_start(surveyed.foreign_xa)
    return offset, surveyed


def _offset_at(
    options: SourceOptions, session: Session, floor: Floor, tables: Tables, start: Position, *, first: str
) -> Offset:
    """The offset at `start`, by the log from the beginning of the file `first` on, without tables."""
    with Tail(
        options, Position(first, FIRST_EVENT), matches=tables.selection.matches, server=session.server_uuid
    ) as tail:
        tail.pass_header()
        tail.advance(start)
        mark = tail.mark(until=start)
        floor.saw(mark.position, mark.gtids, decided=tail.xa.decided(mark.position))
        floor.wait_for(mark.position)
        return offset_at(session, tail, mark, epoch=1)


def _survey(
    options: SourceOptions, session: Session, tables: Tables, offset: Offset, begins_here: Callable[[str], bool]
) -> _Survey:
    """Read the log from `offset` to its end, where the catalog says what the tables are that begin there."""
    start, mapped = offset.position, Mapped()
    with Tail(
        options, start, matches=begins_here, gtids=offset.gtids(), prepared=offset.prepared,
        mapped=mapped, server=session.server_uuid,
    ) as tail:  # fmt: skip
        end = server.log_position(session).position
        while True:
            tail.advance(end)
            catalog = read_catalog(session, tables.selection, options.choice)
            matching, unfit = tables.matching(session)
            schemas = {name: schema for name, schema in matching.items() if begins_here(name)}
            wait_for_ddl(session, schemas.values())
            listed = server.prepared_xids(session) or set()
            now = server.log_position(session).position
            tail.advance(now)
            if not tail.statements(after=end):
                break
            end = now  # DDL came meanwhile: what was read may be of before it
        statements = tail.statements(after=start)
        rows = first_rows(options, begins_here, tail, mapped, offset.prepared, statements)
        _require_readable(options, statements, rows, {*schemas, *catalog.uncaptured.all})
        there, unknown = dict(schemas), {}
        for name, schema in schemas.items():
            changes = [one for one in tail.naming(name, after=start) if not is_silent(one, schema, session)]
            if not changes:
                continue
            last = changes[-1]
            if _creates(last, name) and _is_after(rows.get(name), last.position):
                del there[name]
            else:
                unknown[name] = _not_known(name, last, options.start_named(name))
        return _Survey(
            schemas=there,
            faults={**{name: fault for name, fault in unfit.items() if name in there}, **unknown},
            born=frozenset(schemas.keys() - there.keys()),
            foreign_xa=tail.xa.first_unknown(after=start),
            hidden_xa=bool(listed - {p.xid for p in tail.xa.open_at(now)} - tail.xa.decided(now)),
        )


def _creates(logged: LoggedStatement, name: str) -> bool:
    """Whether a stream that comes to the statement follows the table from there on: not if it fills the table, too."""
    return any(effect.kind == "create" and effect.table == name for effect in logged.effects or ())


def _is_after(row: Position | None, position: Position) -> bool:
    return row is None or row >= position


def _require_readable(
    options: SourceOptions, statements: Iterable[LoggedStatement], rows: Mapping[str, Position], there: Iterable[str]
) -> None:
    """Raise DefiniteError where there are rows of a table that was dropped, renamed or replaced after them."""
    names, last = set(rows) - set(there), None
    for logged in statements:
        statement = logged.statement
        after = names_after(statement)
        gone = {name for name in statement.tables if after.get(name) != name}
        gone |= {name for name in rows if split(name)[0] in statement.databases}
        lost = {name for name in gone if name in rows and rows[name] < logged.position}
        names |= lost
        last = logged.position if lost else last
    if names:
        shown = ", ".join(sorted(names)[:_LISTED]) + (
            f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        )
        start = " and ".join([*dict.fromkeys(map(options.start_named, sorted(names)))][:_LISTED])
        later = f"set {start} to {{position: {last}}} or later; or " if last is not None else ""
        leave = ", ".join(f'"!{name}"' for name in sorted(names)[:_LISTED])
        raise codes.START_BEFORE_DROP.error(
            f"after {start} there are changes of tables that were dropped or renamed since: {shown}",
            where=start,
            hint=f"{later}leave them out: {leave} under source.tables",
        )


def _not_known(name: str, last: LoggedStatement, start: str) -> DefiniteError:
    return codes.SCHEMA_NOT_KNOWN.error(
        f"{name} was altered after the start, at {last.position}: its columns before are not known",
        where=name,
        hint=f"reset the pipeline and begin at {last.position} or later ({start}), or do without those changes",
    )
