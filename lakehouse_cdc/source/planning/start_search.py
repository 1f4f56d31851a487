"""The position in the log that an option `start` names, between two transactions.

- The oldest event: where the header of the oldest file ends.
- A position: as it is given, if two transactions meet there.
- A time: before the first transaction, in the order of the log, that says that it was committed then or later. It is
  looked for from the last file on that was made before that time.
- A GTID set: where the log holds just its transactions. The file is the last one that begins with a part of the set;
  in it all are passed that are in the set, up to the first one that is not. That must be the whole set, or else some of
  its transactions come later, or are not there: which ones is said, and nothing is read twice or left out.

Of MariaDB's GTIDs a set names the last one of each domain. Numbers rise within a domain, and a file begins with a list
of the last number of each domain and server, so "in the set" is "not above the number of its domain" (MariaDB
documentation, "Global Transaction ID").

Files are looked for by halves. Their lists of GTIDs only grow, and they were made one after the other.

Guards: tests/source/test_start.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.clock import believable
from lakehouse_cdc.model.gtid import GtidSet, is_mariadb
from lakehouse_cdc.model.position import FIRST_EVENT, Position
from lakehouse_cdc.model.start_point import StartPoint
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.tail.log_tail import Tail, Transaction

_STEP = 64 << 20  # bytes of transactions that are looked at before more is read
_OLDEST = "set it to earliest, which is as far back as the log reaches"
_SHOWN = 500  # characters of a GTID set in an error


class StartSearch:
    """Looks for one start, which the option `named` gives, in the log up to `tip`.

    Raises DefiniteError (START_UNAVAILABLE) where there is none.
    """

    def __init__(
        self, options: SourceOptions, session: Session, tip: Position, asked: StartPoint, named: str = "source.start"
    ) -> None:
        self._options, self._session, self._tip = options, session, tip
        self._asked, self._named = asked, named
        self._files = [file for file, _ in server.binary_logs(session) if Position(file, 0).number <= tip.number]

    def position(self) -> Position:
        """Where the stream begins."""
        match self._asked.kind:
            case "earliest":
                return self._header_end(self._files[0])
            case "position":
                return self._given(self._asked.position)
            case "time":
                return self._of_time(self._asked.micros)
            case "gtid":
                return self._of_gtids(self._asked.gtids)
            case _:
                return self._tip

    @contextmanager
    def _from(self, file: str) -> Iterator[Tail]:
        """The log from a file's beginning on, its header read."""
        begin, reached = Position(file, FIRST_EVENT), self._session.server_uuid
        with Tail(self._options, begin, matches=lambda _: False, server=reached) as tail:
            tail.pass_header()
            yield tail

    def _header_end(self, file: str) -> Position:
        with self._from(file) as tail:
            return tail.scanned

    def _given(self, asked: Position) -> Position:
        if asked.file not in self._files:
            raise self._unavailable(f"the server has no file {asked.file}", _OLDEST)
        if asked > self._tip:
            raise self._unavailable(f"the log ends at {self._tip}", "set it to now")
        with self._from(asked.file) as tail:
            if asked <= tail.scanned:
                return tail.scanned
            tail.advance(asked)
            here = tail.mark(until=asked).position
            if here != asked:
                raise self._unavailable(
                    "that is no place between two transactions", f"set it to {{position: {here}}}, the last one before"
                )
        return asked

    def _last_file(self, begins_before: Callable[[Tail], bool]) -> str | None:
        """The last file of which that is true; it is true of none, or of all up to one."""
        low, high = 0, len(self._files)
        while low < high:
            middle = (low + high) // 2
            with self._from(self._files[middle]) as tail:
                if begins_before(tail):
                    low = middle + 1
                else:
                    high = middle
        return self._files[low - 1] if low else None

    def _before(self, tail: Tail, is_later: Callable[[Transaction], bool]) -> Position:
        """Where the last transaction ends before the first one that is later, or the log as far as it is read."""
        last, seen, limit = tail.scanned, 0, _STEP
        while True:
            tail.advance(self._tip, max_bytes=limit)
            for transaction in tail.transactions(seen):
                if is_later(transaction):
                    return last
                last, seen = transaction.end, seen + 1
            if tail.reached(self._tip):
                return tail.mark(until=self._tip).position
            limit += _STEP

    # ------------------------------------------------------------------ by time

    def _of_time(self, asked: int) -> Position:
        now = believable(server.clock_us(self._session), _now_us())
        if asked > now:
            raise self._unavailable(f"it is {_time(now)} on the server", "set it to now")
        made = {}

        def begins_before(tail: Tail) -> bool:
            made[tail.origin.file] = (tail.created(tail.origin) + 1) * 1_000_000  # by then: it says a whole second
            return made[tail.origin.file] <= asked

        file = self._last_file(begins_before)
        if file is None:
            raise self._unavailable(f"the oldest file was made by {_time(made[self._files[0]])}", _OLDEST)
        with self._from(file) as tail:
            return self._before(tail, lambda transaction: transaction.commit_us >= asked)

    # ------------------------------------------------------------------ by GTID

    def _of_gtids(self, asked: GtidSet) -> Position:
        if any(is_mariadb(source) != self._session.is_mariadb for source in asked.sources):
            raise self._unavailable("these are GTIDs of another kind of server", "set it to a position or a time")
        domains = _domains(asked)

        def holds(source: str, number: int) -> bool:
            if self._session.is_mariadb:
                return number <= domains.get(_domain(source), 0)
            return any(first <= number < end for first, end in asked.sources.get(source, ()))

        def holds_all(gtids: GtidSet) -> bool:
            if self._session.is_mariadb:
                return all(holds(source, spans[-1][1] - 1) for source, spans in gtids.sources.items())
            return asked.contains(gtids)

        file = self._last_file(lambda tail: holds_all(tail.mark().gtids))
        if file is None:
            with self._from(self._files[0]) as tail:
                lacking = tail.mark().gtids.minus(asked)
            raise self._unavailable(
                f"the server has purged transactions that the set does not hold: {str(lacking)[:_SHOWN]}",
                f"add them, if they are not wanted; {_OLDEST}",
            )
        with self._from(file) as tail:
            position = self._before(tail, lambda transaction: not holds(transaction.source, transaction.number))
        with self._from(file) as tail:
            tail.advance(position)
            reached = tail.mark(until=position).gtids
        if not reached.contains(asked):
            raise self._no_state(asked.minus(reached), position)
        return position

    def _no_state(self, lacking: GtidSet, position: Position) -> DefiniteError:
        """The error for a set of which the log before `position` lacks some, and the next transaction is not in it."""
        with self._from(self._files[-1]) as tail:
            tail.advance(self._tip)
            missing = lacking.minus(tail.mark(until=self._tip).gtids)
        if missing:
            return self._unavailable(
                f"the server has not executed {str(missing)[:_SHOWN]}",
                "wait for them, or set it to what the server has executed",
            )
        return self._unavailable(
            f"{str(lacking)[:_SHOWN]} come after transactions that the set does not hold",
            f"set it to {{position: {position}}}, which reads them again",
        )

    # ------------------------------------------------------------------ errors

    def _unavailable(self, what: str, hint: str) -> DefiniteError:
        return codes.START_UNAVAILABLE.error(
            f"{self._named} is not in the log: {what}", where=f"{self._named}, {self._asked}"[:_SHOWN], hint=hint
        )


def _domain(source: str) -> str:
    return source.partition("-")[0]


def _domains(asked: GtidSet) -> dict[str, int]:
    """The last number of each domain of MariaDB's."""
    numbers: dict[str, int] = {}
    for source, spans in asked.sources.items():
        numbers[_domain(source)] = max(numbers.get(_domain(source), 0), spans[-1][1] - 1)
    return numbers


def _now_us() -> int:
    return int(datetime.now(timezone.utc).timestamp() * 1_000_000)


def _time(micros: int) -> str:
    return datetime.fromtimestamp(micros // 1_000_000, timezone.utc).isoformat()
