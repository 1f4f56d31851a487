"""Tables that cannot be read any further at a position: each is quarantined there, and the others continue.

An error that is about one row or one table is met while a batch is executed, when the batch's end has been decided
already, and a batch is a function of its two offsets. So who runs the stream notes here where the table failed, drops
the planned batch, of which bronze has nothing, and has it planned again. The planner then ends a batch before that
position, and its end offset quarantines the table: all of the table's rows up to there are exact, and a replay of that
batch gives the same rows, whatever has become of the file here.

Invariant: a note is `open` until a batch begins at an offset in which the table is quarantined. From then on it is
`applied`, and it is `over` when the table is captured again; neither is acted on by the planner, so a note is applied
once. One that is open where the log has been passed is over, too: the table was born in the batch that failed, and when
that was planned again its birth was not followed, so it is read where it was met. Steps that a crash leaves undone are
done by the next planner, since each follows from the start of its batch.

What failed may be gone from the table by now: then reading the table again makes it exact. That is asked for at once,
and then after pauses that grow to an hour, unless `on_error` says otherwise. Under another configuration the table is
tried again when a run begins.

Guards: tests/source/test_set_aside.py, tests/pipeline/test_table_failures.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Literal
from urllib.parse import quote

from lakehouse_cdc.errors import CdcError, DefiniteError, Scope
from lakehouse_cdc.lake.files.choice import files_at
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.path_element import fitted
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.way_out import reason
from lakehouse_cdc.source.requests.requests import Signals

REREAD_PAUSES = (0, 60, 300, 900, 3600)  # seconds before each further try within a day; the last one is repeated
_DAY = 86_400
_KIND = "aside-"


@dataclass(frozen=True)
class Note:
    """Where in the binlog `table` cannot be read any further, and why.

    `digest` is that of the configuration under which it failed. `rereads` are the times of the last day, in seconds
    since 1970, at which the table was asked to be read again.
    """

    table: str
    file: str
    pos: int
    reason: str
    digest: str
    state: Literal["open", "applied", "over"] = "open"
    rereads: tuple[float, ...] = ()

    @property
    def position(self) -> Position:
        """Rows of the table at or after it are not to be read."""
        return Position(self.file, self.pos)

    def reread_due(self, now: float) -> bool:
        """Whether it is time to have the table read again."""
        recent = [at for at in self.rereads if at > now - _DAY]
        pause = REREAD_PAUSES[min(len(recent), len(REREAD_PAUSES) - 1)]
        return now >= max(recent, default=0.0) + pause


class SetAside:
    """The notes of one pipeline, beside its signals."""

    def __init__(self, schema_folder: str, *, clock: Callable[[], float] = time.time) -> None:
        self._files = files_at(schema_folder).within("signals").glancing()
        self._signals = Signals(schema_folder)
        self._clock = clock

    def note(self, error: CdcError, digest: str) -> bool:
        """Note that the table of `error` is to be quarantined at its position.

        The tasks of a batch fail in any order, so a table may fail at an earlier position after a later one was noted.
        False where the error is about no single table, or where that position, or an earlier one, was noted and has
        not helped.
        """
        if not isinstance(error, DefiniteError) or error.code.scope is Scope.PIPELINE:
            return False
        file, _, pos = error.position.rpartition(":")
        if not error.table or not file:
            return False
        before = self.notes().get(error.table)
        if before is not None and before.state == "open" and before.position <= Position(file, int(pos)):
            return False
        self._signals.drop(error.table)  # else it would be taken up, and fail, again and again
        rereads = before.rereads if before is not None else ()
        self._write(
            Note(
                error.table,
                file,
                int(pos),
                reason(error.code, error.what, error.hint, error.table),
                digest,
                rereads=rereads,
            )
        )
        return True

    def notes(self) -> dict[str, Note]:
        """By table."""
        notes = {}
        for name in self._files.names(_KIND):
            if (text := self._files.read(name)) is not None:
                data = json.loads(text)
                notes[data["table"]] = Note(**{**data, "rereads": tuple(data["rereads"])})
        return notes

    def open(self) -> list[Note]:
        """Those that no batch has applied yet."""
        return [note for note in self.notes().values() if note.state == "open"]

    def follow(self, start: Offset, *, rereads: Callable[[str], bool]) -> list[Note]:
        """Bring the notes up to an offset that a batch begins at, and ask for the re-reads that are due.

        `rereads`: whether a table is to be read again by itself. Gives those that the batch has to apply, once it has
        come to where their tables are captured: one may come into being in it.
        """
        to_apply = []
        for table, note in self.notes().items():
            if note.state == "open" and table in start.tables and table not in start.captured:
                note = replace(note, state="applied")
                self._write(note)
            elif (note.state == "applied" and table in start.captured) or (
                note.state == "open" and note.position < start.position
            ):
                note = replace(note, state="over")
                self._write(note)
            now = self._clock()
            if note.state == "applied" and table in start.quarantined and rereads(table) and note.reread_due(now):
                recent = tuple(at for at in note.rereads if at > now - _DAY)
                self._write(replace(note, rereads=(*recent, now)))
                self._signals.retry(table)
            to_apply += [note] if note.state == "open" else []
        return to_apply

    def forget_open(self) -> None:
        """The stream continues on another server, where their positions mean nothing.

        What fails there as well is noted once more.
        """
        for note in self.open():
            self._write(replace(note, state="over"))

    def under(self, digest: str) -> None:
        """Under another configuration than it failed under, a table is tried again."""
        for table, note in self.notes().items():
            if note.state == "applied" and note.digest != digest:
                self._write(replace(note, digest=digest))
                self._signals.retry(table)

    def _write(self, note: Note) -> None:
        self._files.write(fitted(f"{_KIND}{quote(note.table, safe='')}"), json.dumps(asdict(note)))
