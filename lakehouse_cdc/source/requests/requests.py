"""What a person asks of a pipeline, as files beside its schemas: read a table, or some keys of it, again; follow it, or
leave it out; pass a statement; pause; stop when the snapshot is done.

A request must be honoured once, though the process may die at any moment. So the planner notes in the request's file
the seq at which the new pass begins, before it offers the offset that holds the same seq. A request whose seq is in
the offset that a later batch starts from has been taken up for good, and is dropped; any other one is taken up again.

A file is called after its table, which its second line names, too: names may be longer than those of files.

That a statement is to be passed stays said, also when the stream has passed it. So do the patterns of tables, which
are taken as if the configuration ended with them.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from lakehouse_cdc.lake.files.choice import files_at
from lakehouse_cdc.lake.refused_writes import writable
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.path_element import fitted
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.state_machine import advance
from lakehouse_cdc.model.table_events import RereadAsked
from lakehouse_cdc.model.table_state import Dropped, Streaming

_REQUEST = "snapshot-"
_REPAIR = "repair-"
_PAUSED = "paused"
_PASSED = "passed-"
_RETRY = "retry"
_PATTERN, _ADDED, _LEFT_OUT = "tables-", "added", "left out"
_STOP = "stop"


class Signals:
    """The signals of one pipeline, in a place of its own inside that of the schemas."""

    def __init__(self, schema_folder: str) -> None:
        self._files = files_at(schema_folder).within("signals").glancing()

    @property
    def seconds_between_looks(self) -> float:
        """Seconds that who waits for a signal should let pass; 0 where a look costs nothing."""
        return self._files.pause

    def request(self, table: str) -> None:
        """Ask for `database.table` to be read again, as of now."""
        self._note(table, "")

    def retry(self, table: str) -> None:
        """Ask for a quarantined table to be tried again. Where there are no snapshots, none is taken of it, either."""
        self._note(table, _RETRY)

    def drop(self, table: str) -> None:
        """The request is void."""
        self._files.delete(_name(table))

    def requests(self) -> dict[str, str]:
        """The tables to be read again, each with the seq that was noted, or ''."""
        return self._noted(_REQUEST)

    def wanted(self, start: Offset) -> bool:
        """Whether there is a request that the offset `start` has not taken up."""
        noted = self.requests()
        states = {name: state for name, state in start.tables.items() if not isinstance(state.phase, Dropped)}
        keys = {name: seq for name, (_, seq) in self.repairs().items()}
        return any(
            (name in noted and noted[name] != str(state.since)) or (name in keys and keys[name] != str(state.repaired))
            for name, state in states.items()
        )

    def to_retry(self, offset: Offset) -> set[str]:
        """The quarantined tables that are to be tried again."""
        return self.requests().keys() & offset.quarantined.keys()

    def taken_up(self, start: Offset, offset: Offset, *, near: bool) -> Offset:
        """`offset`, which follows `start`, with a new pass for the tables asked for.

        A table that is just being read has to be complete first; a request for one that is not captured is void, and
        so is, at the end of the log (`near`), where it was tried, one for a table that still cannot be. One that was
        quarantined and is not read by itself is read in the next batch.
        """
        for name, noted in self.requests().items():
            state, before = offset.tables.get(name), start.tables.get(name)
            done = before is not None and noted == str(before.since) and before.captured
            refused = name in offset.quarantined
            if state is None or isinstance(state.phase, Dropped) or done or (refused and near):
                self._files.delete(_name(name))
            elif name in start.quarantined and not refused:
                if noted == _RETRY or not isinstance(state.phase, Streaming):
                    self._note(name, str(state.since))  # it is read again as it is
            elif state.done and state.captured and (before is None or before.complete):
                seq = offset.next_reading(state)
                self._note(name, str(seq))
                offset = offset.with_table(name, advance(state, RereadAsked(seq)))
        return offset

    def request_repair(self, table: str, fingerprint: str) -> None:
        """Ask for some keys of `database.table` to be read again: those of a stored repair."""
        self.note_repair(table, fingerprint, "")

    def repairs(self) -> dict[str, tuple[str, str]]:
        """The tables with keys to be read again, each with its repair's fingerprint and the seq noted, or ''."""
        repairs = {}
        for table, text in self._noted(_REPAIR).items():
            fingerprint, _, noted = text.partition(" ")
            repairs[table] = fingerprint, noted
        return repairs

    def note_repair(self, table: str, fingerprint: str, noted: str) -> None:
        """Note the seq at which a request is taken up."""
        self._note(table, f"{fingerprint} {noted}", _REPAIR)

    def drop_repair(self, table: str) -> None:
        """The request is void, or has been taken up for good."""
        self._files.delete(_name(table, _REPAIR))

    def pass_statement(self, position: Position, epoch: int) -> None:
        """Let the stream pass the statement that ends there in the binlog of an epoch: it changes no captured table."""
        self._files.write(f"{_PASSED}{epoch}-{quote(str(position), safe='')}", f"{epoch} {position}")

    def passed(self, epoch: int) -> frozenset[Position]:
        """The ends of all statements that are to be passed, or have been, in an epoch."""
        texts = self._texts(f"{_PASSED}{epoch}-").values()
        return frozenset(Position.parse(text.partition(" ")[2]) for text in texts)

    @property
    def patterns(self) -> tuple[str, ...]:
        """Patterns of tables, to be taken after those of the configuration; with a `!` before what is left out."""
        return tuple(
            pattern if choice == _ADDED else f"!{pattern}" for pattern, choice in sorted(self._noted(_PATTERN).items())
        )

    def add(self, pattern: str) -> None:
        """Follow tables that match, too; that they were left out by a signal is void."""
        self._note(pattern, _ADDED, _PATTERN)

    def leave_out(self, pattern: str) -> None:
        """Follow tables that match no more; that they were added by a signal is void."""
        self._note(pattern, _LEFT_OUT, _PATTERN)

    @property
    def paused(self) -> bool:
        """Whether the pipeline shall rest."""
        return self._files.exists(_PAUSED)

    def pause(self) -> None:
        """Let the pipeline rest until `resume`. Raises what `writable` does where its folder cannot be written."""
        self._mark(_PAUSED)

    def resume(self) -> None:
        """Let it continue."""
        self._files.delete(_PAUSED)

    @property
    def stopping(self) -> bool:
        """Whether the run shall end when no table is being read any more."""
        return self._files.exists(_STOP)

    def stop(self) -> None:
        """Let the run end, this one or the next, when no table is being read. Raises the errors of `pause`."""
        self._mark(_STOP)

    def stopped(self) -> None:
        """A run has ended in which no table was being read."""
        self._files.delete(_STOP)

    def _mark(self, name: str) -> None:
        with writable(self._files.where):
            self._files.write(name, "")

    def _note(self, table: str, text: str, kind: str = _REQUEST) -> None:
        self._files.write(_name(table, kind), f"{text}\n{table}")

    def _noted(self, kind: str) -> dict[str, str]:
        """The first line of each file, by the table that it is about; earlier releases wrote no second one."""
        notes = {}
        for name, content in self._texts(kind).items():
            text, _, table = content.partition("\n")
            notes[table or unquote(name.removeprefix(kind))] = text
        return notes

    def _texts(self, prefix: str) -> dict[str, str]:
        """The contents of the files that begin so, by name; one that is deleted meanwhile is left out."""
        return {name: text for name in self._files.names(prefix) if (text := self._files.read(name)) is not None}


def _name(table: str, kind: str = _REQUEST) -> str:
    return fitted(f"{kind}{quote(table, safe='')}")
