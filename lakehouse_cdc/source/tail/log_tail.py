"""The driver's own look at the binlog: where transactions end, what they hold, which statements concern us.

One dump is kept open from the stream's position on and scanned up to the tip that the server reported, never beyond it,
so that what a batch may contain has been delivered before it is offered. Rows are not decoded here. Transactions are
remembered from the last committed offset (`origin`) on, which lets a batch be cut at any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import numpy.typing as npt

from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.images.rows.decode import count_rows
from lakehouse_cdc.model.gtid import GtidSet, gtid_text
from lakehouse_cdc.model.position import FIRST_EVENT, Position, file_name
from lakehouse_cdc.model.table_name import split
from lakehouse_cdc.model.xa import Prepared
from lakehouse_cdc.mysql.binlog.boundary import Cutter
from lakehouse_cdc.mysql.binlog.compression.columns import countable
from lakehouse_cdc.mysql.binlog.dump import BinlogDump
from lakehouse_cdc.mysql.binlog.file_age import made_at
from lakehouse_cdc.mysql.binlog.scan import LoggedStatement, Scan, gtid_set
from lakehouse_cdc.mysql.binlog.scanner import BinlogScanner
from lakehouse_cdc.mysql.connection.session import connect
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.source.identity import connected_to
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.tail.text_mentions import TextHistory
from lakehouse_cdc.source.tail.xa_history import XaHistory

_PIECES = 12  # of a stretch of log
_LEAST_PIECE, _MOST_PIECE = 16 << 20, 64 << 20  # bytes of one; for each the server sends some MB past its end
_FIELDS = ("file", "end", "source", "number", "commit_us", "rows", "bytes")
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Mark:
    """A transaction boundary: all GTIDs up to it, its last transaction, and the captured rows since the origin.

    `anonymous`: the last transaction after the origin has no GTID, though there are such.

    Where no option limits the rows of a batch they are not counted, and each event with captured rows stands for one.
    """

    position: Position
    gtids: GtidSet
    last_gtid: str
    commit_ts: int
    rows: int
    anonymous: bool = False


@dataclass(frozen=True)
class Transaction:
    """One that ended after the origin: where, its GTID (source "" for none), its commit time in microseconds."""

    end: Position
    source: str
    number: int
    commit_us: int


class Mapped(dict[str, TableSchema]):
    """Captures nothing, and notes which tables have rows: of each the position where the first ones are, in `first`.

    A scanner asks a mapping for the name in each table map whose bytes it has not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first: dict[str, Position] = {}
        self.scanned: Callable[[], Position]

    def __contains__(self, name: object) -> bool:
        self.first.setdefault(str(name), self.scanned())
        return False


class _Ended:
    """The transactions that ended after the origin; one array a field, in log order."""

    def __init__(self) -> None:
        self._pieces: list[Mapping[str, Ints]] = []
        self.rows = self.bytes = 0

    def append(self, more: Mapping[str, Ints]) -> None:
        self._pieces.append(more)
        self.rows += int(more["rows"].sum())
        self.bytes += int(more["bytes"].sum())

    def columns(self) -> Mapping[str, Ints]:
        """All of them."""
        empty = np.empty(0, np.int64)
        if len(self._pieces) != 1:
            merged = {name: np.concatenate([empty, *(p[name] for p in self._pieces)]) for name in _FIELDS}
            self._pieces = [merged]
        return self._pieces[0]

    def drop(self, first: int) -> None:
        rest = {name: values[first:] for name, values in self.columns().items()}
        self._pieces, self.rows, self.bytes = [], 0, 0
        self.append(rest)

    def until(self, position: Position) -> int:
        """How many ended at or before a position."""
        files, ends = self.columns()["file"], self.columns()["end"]
        number = position.number
        return int(np.count_nonzero((files < number) | ((files == number) & (ends <= position.pos))))


class Tail:
    """The binlog from `origin` on, scanned as far as `advance` was asked to. A context manager.

    `schemas` are the captured tables by name; without them nothing is counted, and statements on tables for which
    `matches` is true are found all the same. `prepared` are the XA transactions that the offset at `origin` lists.
    What happens to such transactions is kept in `xa`. `mapped` is for a tail without schemas: it learns which tables
    have rows, and where. `server` is the uuid of the one whose log it is; '' for any.
    """

    def __init__(
        self,
        options: SourceOptions,
        origin: Position,
        *,
        matches: Callable[[str], bool],
        gtids: GtidSet | None = None,
        schemas: Sequence[TableSchema] = (),
        prepared: Sequence[Prepared] = (),
        mapped: Mapped | None = None,
        server: str = "",
    ) -> None:
        self.origin = origin
        self._origin_gtids = gtids
        self._open_rows = 0  # of the transaction that the last buffer ended in
        self._ended = _Ended()
        self._statements: list[LoggedStatement] = []  # that concern us, or name a captured table
        self.texts = TextHistory()
        self.schema_ids = {schema.id for schema in schemas}
        self.xa = XaHistory(prepared, counted=bool(schemas))
        self._counts_rows = options.max_rows_per_trigger is not None
        self._sources: tuple[str, ...] = ()
        self._rest: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self._created: dict[int, int] = {}
        self._programs: ProgramSet | None = None
        session = connected_to(options, server) if server else connect(options.connection)
        self.server = session.server_uuid
        self._lower_case = session.lower_case
        self._names = {self._cased(schema.name) for schema in schemas}
        self._scanner = BinlogScanner(
            origin,
            {s.name: s for s in schemas} if mapped is None else mapped,
            watched=matches,
            gtids=gtids,
            lower_case=self._lower_case,
            checked=False,
        )
        if mapped is not None:
            mapped.scanned = lambda: self._scanner.position
        try:
            self._dump = BinlogDump(session.connection, origin, server_id=options.server_ids[0])
            self._created[origin.number] = self._first_format()
        except BaseException:
            session.close()
            raise

    # ------------------------------------------------------------------ reading

    def advance(self, tip: Position, *, max_rows: int | None = None, max_bytes: int | None = None) -> None:
        """Scan until `tip`, or until the transactions after the origin reach a limit. Blocks until it is delivered."""
        while self._scanner.position < tip and not self._full(max_rows, max_bytes):
            here = self._scanner.position
            file_end = here.next_file
            if not self._rest.size:
                self._rest = self._dump.read()
            part = Cutter(here, min(tip, file_end)).cut(self._rest)
            self._rest = self._rest[part.size :]
            for scan in self._scanner.scans(part):
                self._take(scan)
            if self._scanner.created is not None:
                self._created[here.number] = self._scanner.created

    def pass_header(self) -> Position:
        """Read a file's first events, for a tail that begins with it: what was executed before is known then."""
        while not self._scanner.gtids_complete:
            here = self._scanner.position
            self.advance(Position(here.file, here.pos + 1))  # to the end of the next event
        return self._scanner.position

    def _full(self, max_rows: int | None, max_bytes: int | None) -> bool:
        return (max_rows is not None and self._ended.rows >= max_rows) or (
            max_bytes is not None and self._ended.bytes >= max_bytes
        )

    def _take(self, scan: Scan) -> None:
        self._sources = scan.sources
        self._statements += [
            s for s in scan.statements if s.concerns or s.unknown or self._names & set(s.statement.tables)
        ]
        done, txns = scan.ended, scan.transactions
        numbers = np.array([Position(name, 0).number for name in scan.files], np.int64)
        rows, size = self._rows(scan), txns.end - txns.begin
        self.texts.take([s for s in scan.statements if not s.within_xa], self.xa.take(scan, rows, size))
        self._ended.append(
            {
                "file": numbers[txns.file[:done]],
                "end": txns.end[:done],
                "source": txns.source[:done],
                "number": txns.number[:done],
                "commit_us": txns.commit_us[:done],
                "rows": rows[:done],
                "bytes": size[:done],
            }
        )

    def _rows(self, scan: Scan) -> Ints:
        """The captured rows of each transaction, or the events that hold them, whichever buffers they came in."""
        rows = np.zeros(len(scan.transactions), np.int64)
        if len(scan.rows) and not self._counts_rows:
            rows += np.bincount(scan.rows.txn, minlength=len(rows))
        elif len(scan.rows):
            if self._programs is None or len(self._programs.schemas) != len(scan.tables):
                self._programs = ProgramSet.of([countable(t) for t in scan.tables], [t.types for t in scan.tables])
            np.add.at(rows, scan.rows.txn, count_rows(scan.buffer, scan.rows, self._programs))
        if len(rows):
            rows[0] += self._open_rows
            self._open_rows = int(rows[-1]) if len(rows) > scan.ended else 0
        return rows

    def _first_format(self) -> int:
        """When the file of the origin was made: the header time of its format description, which comes first."""
        while (seconds := made_at(self._rest)) is None:
            self._rest = np.concatenate((self._rest, self._dump.read()))
        return seconds

    # ------------------------------------------------------------------ what is known

    def mark(self, *, max_rows: int | None = None, max_bytes: int | None = None, until: Position | None = None) -> Mark:
        """The furthest boundary within the limits: at least one transaction after the origin, if there is one.

        None that is after `until`, in any case. One past 4 GiB in its file, where no dump can start, gives way to
        the beginning of the next file, with what is in between, where that is before `until`.
        """
        ended = self._ended.columns()
        total = len(ended["end"])
        count = total if until is None else self._ended.until(until)
        for limit, name in ((max_rows, "rows"), (max_bytes, "bytes")):
            if limit is not None and total:
                count = min(count, int(np.searchsorted(np.cumsum(ended[name]), limit)) + 1)
        position = self._position_of(count - 1) if count else self.origin
        boundary = self._scanner.boundary
        if count == total and boundary.pos != FIRST_EVENT and (until is None or boundary <= until):
            position = boundary
        if not position.startable and self._scanner.position > position.next_file:
            next_file = position.next_file
            if until is None or next_file <= until:
                count, position = self._ended.until(next_file), next_file
        # a scan that began with a file learns there what was executed before
        gtids = self._scanner.gtids if self._origin_gtids is None else self._gtids_until(count)
        last = self._gtid_of(count - 1) if count else ""
        commit_ts = int(ended["commit_us"][count - 1]) if count else 0
        return Mark(
            position, gtids, last, commit_ts, int(ended["rows"][:count].sum()),
            anonymous=bool(count) and not last and bool(gtids),
        )  # fmt: skip

    def transactions(self, first: int = 0) -> Iterator[Transaction]:
        """Those that ended after the origin, in their order, but for the first ones."""
        columns = self._ended.columns()
        fields = (columns[name][first:].tolist() for name in ("file", "end", "source", "number", "commit_us"))
        for file, end, source, number, commit_us in zip(*fields, strict=True):
            name = self._sources[source] if source >= 0 else ""
            yield Transaction(Position(file_name(self.origin.base, file), end), name, number, commit_us)

    @property
    def scanned(self) -> Position:
        """Where the scan is."""
        return self._scanner.position

    def reached(self, tip: Position) -> bool:
        """Whether everything up to `tip` has been scanned."""
        return self._scanner.position >= tip

    def statements(self, after: Position) -> list[LoggedStatement]:
        """The statements after a position that concern a captured table, or may; none that changes rows alone."""
        return [s for s in self._statements if (s.concerns or s.unknown) and s.position > after]

    def naming(self, table: str, after: Position) -> list[LoggedStatement]:
        """The statements after `after` that name the table, or may mean it; also those that are proven harmless."""
        name, database = self._cased(table), self._cased(split(table)[0])
        later = [s for s in self._statements if s.position > after]
        return [
            s
            for s in later
            if {name, database} & {*s.statement.tables, *s.statement.databases}
            or (s.names is not None and s.names.mentions(table))
        ]

    def _cased(self, name: str) -> str:
        return name.lower() if self._lower_case else name

    def stop_before(self, statement: LoggedStatement) -> Position:
        """Where a batch must end at the latest: after a statement whose effects are known, else before it."""
        return statement.position if statement.effects is not None else self.end_before(statement)

    def end_before(self, statement: LoggedStatement) -> Position:
        """Where the last transaction in front of a statement ends."""
        count = self._ended.until(statement.position)
        if count and self._position_of(count - 1) == statement.position:
            count -= 1
        return self._position_of(count - 1) if count else self.origin

    def created(self, position: Position) -> int:
        """When the position's file was made, in seconds since 1970."""
        return self._created[position.number]

    def continues(self, position: Position) -> bool:
        """Whether the stream is at the origin, or at a boundary after it, which then becomes the origin."""
        if position == self.origin:
            return True
        count = self._ended.until(position)
        if position != self._scanner.boundary and (not count or self._position_of(count - 1) != position):
            return False
        self._origin_gtids = self._gtids_until(count)
        self._ended.drop(count)
        self._statements = [s for s in self._statements if s.position > position]
        self.xa.begin_at(position)
        self.texts.begin_at(position)
        self.origin = position
        return True

    def cuts(self, end: Position, size: int | None) -> list[Position]:
        """Boundaries between the origin and `end` that lie at least `size` bytes apart, and all files' first bytes.

        Without a size, so many that tasks can share the pieces evenly: where a transaction makes one longer, those
        after it are shorter.
        """
        cuts: list[Position] = []
        columns = self._ended.columns()
        left, pieces = int(columns["bytes"][: self._ended.until(end)].sum()), _PIECES
        for number in range(self.origin.number, end.number + 1):
            file = file_name(self.origin.base, number)
            if number > self.origin.number:
                cuts.append(Position(file, FIRST_EVENT))
            ends = columns["end"][columns["file"] == number]
            last = self.origin.pos if number == self.origin.number else FIRST_EVENT
            stop = end.pos if number == end.number else int(ends[-1]) if len(ends) else 0
            while True:
                least = size or min(max(left // max(pieces, 1), _LEAST_PIECE), _MOST_PIECE)
                i = int(np.searchsorted(ends, last + least))
                if i == len(ends) or int(ends[i]) >= stop or not Position(file, int(ends[i])).startable:
                    break
                left, pieces, last = left - (int(ends[i]) - last), pieces - 1, int(ends[i])
                cuts.append(Position(file, last))
            left -= max(stop - last, 0)
        return cuts

    def _gtids_until(self, count: int) -> GtidSet:
        ended, known = self._ended.columns(), self._origin_gtids
        assert known is not None  # only a tail that knew the set at its origin is asked for one in between
        return known.union(gtid_set(self._sources, ended["source"][:count], ended["number"][:count]))

    def _position_of(self, index: int) -> Position:
        ended = self._ended.columns()
        return Position(file_name(self.origin.base, int(ended["file"][index])), int(ended["end"][index]))

    def _gtid_of(self, index: int) -> str:
        ended = self._ended.columns()
        source = int(ended["source"][index])
        return gtid_text(self._sources[source], int(ended["number"][index])) if source >= 0 else ""

    def close(self) -> None:
        """End the dump."""
        self._dump.close()

    def __enter__(self) -> Tail:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
