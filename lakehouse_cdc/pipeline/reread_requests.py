"""What a person, or `verify`, has read again: whole tables, rows that match a predicate, keys that differ.

Each is asked for by a file beside the schemas (see `source.requests`), and read by the current run or the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.table_name import matches
from lakehouse_cdc.model.table_state import Dropped
from lakehouse_cdc.mysql.estimates import estimates
from lakehouse_cdc.pipeline.context import PipelineContext
from lakehouse_cdc.pipeline.from_topics import of_server
from lakehouse_cdc.pipeline.report import VerifyReport
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.requests.repairs import pending
from lakehouse_cdc.source.requests.requests import Signals
from lakehouse_cdc.source.state.offset_codec import restored
from lakehouse_cdc.source.state.state_store import SchemaStore

if TYPE_CHECKING:
    from lakehouse_cdc.pipeline.start.redact import Redact
    from lakehouse_cdc.pipeline.start.reset import Reset

_END_FIRST = "end the run first (Ctrl-C); a pipeline that is paused runs, too"


class RereadRequests(PipelineContext):
    """A pipeline that can be asked to read tables, rows or keys again, and to begin again."""

    @property
    def signals(self) -> Signals:
        """What a person asks of this pipeline while it runs, or of its next run."""
        return Signals(self.schemas)

    def read_again(self, patterns: Sequence[str]) -> list[str]:
        """Have the captured tables that match be read again as of now, beside the stream; their names.

        What the pass does not find is deleted in silver, so it repairs whatever differs; a table that is quarantined is
        followed again, if it can be. Raises ConfigError for a pattern that no captured table matches, DefiniteError
        before the first run.
        """
        tables = self.followed(patterns)
        for name in tables:
            self.signals.request(name)
        return tables

    def followed(self, patterns: Sequence[str]) -> list[str]:
        """The captured tables that match, each pattern some; raises what `read_again` does."""
        return self._matching(self._begun(), patterns)

    def read_again_where(self, patterns: Sequence[str], predicate: str) -> dict[str, int]:
        """Have the rows of such tables that match a predicate be read again as of now: by table how many keys.

        It is SQL that MySQL and Spark both understand, of the source's names of columns, such as `status = 'paid'`.
        What either finds is read: what the source's table holds, and what silver's does. Raises what `read_again` does,
        and DefiniteError for a predicate that either refuses, for more than 10,000 rows of a table, and for tables in
        which single rows cannot be looked for, and TransientError while silver has not applied a change of a table's
        columns; then nothing has been asked for.
        """
        from lakehouse_cdc.verify.predicate import keys_where

        offset, store = self._begun(), SchemaStore(self.schemas)
        with self.failures():
            repairs = [
                keys_where(self.spark, self.layout, self._connection(), store, offset.tables[name], name, predicate)
                for name in self._matching(offset, patterns)
            ]
        for repair in repairs:
            if repair.keys:
                self.signals.request_repair(repair.table, store.put_repair(repair))
        return {repair.table: len(repair.keys) for repair in repairs}

    def pass_statements(self, positions: Sequence[str]) -> list[str]:
        """Have statements be passed, by where each ends in the binlog (FILE:POS): they change no captured table.

        Raises ConfigError for what is no position, DefiniteError for one that the stream has passed already.
        """
        offset = self._begun()
        asked = [Position.parse(text) for text in positions]
        for position in asked:
            if position <= offset.position:
                raise codes.MOMENT_INVALID.error(
                    f"the stream has passed {position}", hint="signal snapshot has a table read again as it is now"
                )
        for position in asked:
            self.signals.pass_statement(position, offset.epoch)
        return [str(position) for position in asked]

    def source_tables(self) -> list[str]:
        """The names of all tables that the source's user sees, captured or not."""
        of_server(self.config.source.kafka, "to add or drop tables")
        with self._session() as session:
            return sorted(estimates(session))

    def _begun(self) -> Offset:
        of_server(self.config.source.kafka, "to read again, to drop a table, to pass a statement or to redact")
        offset = self._offset()
        if offset is None:
            raise codes.BRONZE_EMPTY.error("nothing has been read yet", where=self.config.name, hint="run first")
        return offset

    def _matching(self, offset: Offset, patterns: Sequence[str]) -> list[str]:
        there = [name for name, state in offset.tables.items() if not isinstance(state.phase, Dropped)]
        for pattern in patterns:
            if not any(matches(name, pattern) for name in there):
                raise codes.TABLE_UNKNOWN.error(
                    f"no captured table matches '{pattern}'", hint=f"one of {', '.join(there)}"
                )
        return [name for name in there if any(matches(name, pattern) for pattern in patterns)]

    @contextmanager
    def resetting(self, *, keep_tables: bool = False) -> Iterator[Reset]:
        """What would have to be deleted to begin again, to be looked at and then executed, while no run can begin.

        These are the checkpoints and the tables of this pipeline; with `keep_tables` the checkpoints alone, and the
        next run begins a new epoch, in which every table is read again. Raises DefiniteError while a run is active.
        """
        from lakehouse_cdc.pipeline.start.reset import Reset, require_no_stream

        with self.failures(), self.writing(_END_FIRST):
            if (session := self._session_there()) is not None:
                require_no_stream(session, self.layout)
            yield Reset(lambda: self.spark, self.reader(), self.layout, self.folders, keep_tables=keep_tables)

    @contextmanager
    def redacting(self, patterns: Sequence[str] = ()) -> Iterator[Redact]:
        """What bronze and silver hold of columns that the configuration hides by now, to be looked at and then hidden.

        `patterns` are of the tables that are meant, none for all that there are; no run can begin meanwhile. Raises
        ConfigError for a pattern that no captured table matches, DefiniteError while a run is active, and where
        something has yet to be read.
        """
        from lakehouse_cdc.pipeline.start.redact import Redact
        from lakehouse_cdc.pipeline.start.silver_settings import SilverSettings
        from lakehouse_cdc.pipeline.start.source_comments import SourceComments

        with self.failures(), self.writing(_END_FIRST):
            offset = self._begun()
            names = self._matching(offset, patterns) if patterns else sorted(offset.tables)
            settings = SilverSettings(self.spark, self.layout, self.config, self.checkpoints, self.checkpoint("silver"))
            options = SourceOptions.parse(self.source_options())
            policy = SourceComments.of_pipeline(self).policy
            yield Redact(self.spark, self.layout, self.folders, options, policy, settings, offset, names)

    def repair(self, report: VerifyReport) -> dict[str, int | None]:
        """Have the keys that differ be read again as of now, beside the stream: by table how many.

        None means the whole table: too many keys differ, or one is none that the source can be asked for. Tables are
        left out that are being repaired already. What is read repairs silver in the current run or the next.
        """
        from lakehouse_cdc.verify.repair import stored

        asked: dict[str, int | None] = {}
        store = SchemaStore(self.schemas)
        for result in report.tables:
            if not result.differing or result.table in report.pending:  # nothing repairs what cannot be held
                continue
            name = stored(store, report.states[result.table], result.table, result.keys)
            if name is None:
                self.signals.request(result.table)
            else:
                self.signals.request_repair(result.table, name)
            asked[result.table] = None if name is None else len(result.keys or ())
        return asked

    def _pending(self, then: Offset) -> tuple[str, ...]:
        """The tables that are being repaired, since an offset that silver is at or before."""
        last = (self._offset() or then).tables
        noted = [self.signals.requests(), {name: seq for name, (_, seq) in self.signals.repairs().items()}]
        return tuple(
            name
            for name, state in sorted(then.captured.items())
            if name in last and pending([notes[name] for notes in noted if name in notes], state, last[name])
        )

    def _offset(self) -> Offset | None:
        """The source's last offset."""
        from lakehouse_cdc.lake.checkpoint import Checkpoint

        place = Checkpoint(self.checkpoint("bronze"))
        batch = place.last_offset()
        return None if batch is None else restored(place.offset(batch), SchemaStore(self.schemas))
