"""What silver held when: for each batch the version of every silver table, and the place in the source.

A row is appended as the last step of a batch, tied to it: a crash before that has the batch repeated, which changes no
table any more and appends the row; a crash after it has it repeated, too, and the row is skipped. So no batch that is
complete lacks its row. A batch that comes again from an older checkpoint, where the tables hold more by now, adds none.
A table's version is the newest when the batch was in; nobody else changes its rows, so whatever a user's OPTIMIZE adds
in between holds the same. `reading` are the tables that are being read there (see `CommitNote`), NULL if nobody said.
`bounds` are the marks of `model.clock`, one for each commit of bronze in the batch; `commit_ts` is that of the last
transaction, or, where no clock could have said that yet, the time that is known in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from pyspark.sql import SparkSession

from lakehouse_cdc.lake.commits import newest_version
from lakehouse_cdc.lake.engines.choice import engine_of
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.tables import alter, create, held_columns, table_id
from lakehouse_cdc.model.clock import Mark
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.silver.tables.ledger_table import BOUNDS, BRONZE, COLUMNS, require_ledger
from lakehouse_cdc.silver.tables.names import known_source_tables, own_table

STATISTICS = ("seq", "gtid_set", "commit_ts", "bronze_version", "query", "batch")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def last_seq(spark: SparkSession, layout: Layout) -> int:
    """That of the newest row of the ledger, which is there; 0 where it has none."""
    newest = engine_of(spark, layout.ledger).greatest(layout.ledger, "seq", ["seq"])
    return 0 if newest is None else int(newest["seq"])


class Ledger:
    """The ledger of one pipeline, and its only writer; remembers the versions of tables between batches."""

    def __init__(self, spark: SparkSession, layout: Layout) -> None:
        self._spark, self._layout = spark, layout
        self._opened: Future[Mapping[str, Any] | None] | None = None  # its last row
        self._last: int | None = None  # the newest row's seq; 0: there is none
        self._versions: dict[str, int] = {}

    def prepare(self) -> None:
        """Begin to make it, or to see that it is ours, while the batch is being applied; `enter` waits for it."""
        if self._opened is None:
            pool = ThreadPoolExecutor(1, thread_name_prefix="ledger")
            self._opened = pool.submit(self._open)
            pool.shutdown(wait=False)

    def enter(
        self,
        note: CommitNote,
        reading: Mapping[str, int] | None,
        touched: Iterable[str],
        marks: Iterable[Mark] = (),
        versions: Mapping[str, int] | None = None,
    ) -> None:
        """Append the row of the batch that is now in, and has touched those tables.

        `marks` are those of bronze's commits in it; `versions` of tables are those that need not be asked for.
        Raises DefiniteError where the ledger is somebody else's.
        """
        if self._last is None:
            self._last = self._begin()
        at = note.source_point
        if at.seq <= self._last:
            return
        known = versions or {}
        self._versions |= known
        self._see(name for name in touched if name not in known)
        row = (
            Decimal(at.seq),
            {"epoch": at.epoch, "server_uuid": at.server_uuid, "file": at.file, "pos": at.pos}, at.gtid,
            _moment(at.time), note.bronze_version, self._versions,
            None if reading is None else {name: Decimal(since) for name, since in reading.items()},
            note.query, note.batch,
            [
                {"seq": Decimal(mark.seq), "after": _moment(mark.bounds.after), "by": _moment(mark.bounds.by)}
                for mark in marks if mark.bounds.by
            ],
        )  # fmt: skip
        values = {name: value for (name, _), value in zip(COLUMNS, row, strict=True)}
        table = self._layout.ledger
        engine_of(self._spark, table).append(table, COLUMNS, [values], note, "ledger", STATISTICS)
        self._last = at.seq

    def _begin(self) -> int:
        """The seq of its last row, whose versions continue to count."""
        self.prepare()
        assert self._opened is not None
        if (last := self._opened.result()) is not None:
            self._versions = dict(last["tables"])
            return int(last["seq"])
        self._see(sorted(known_source_tables(SparkReader(self._spark), self._layout)))
        return 0

    def _open(self) -> Mapping[str, Any] | None:
        """Make it, or see that it is ours; its last row."""
        table, layout = self._layout.ledger, self._layout
        if require_ledger(SparkReader(self._spark), layout):
            if all(name != BOUNDS for name, _ in held_columns(self._spark, table)):
                added = f"{BOUNDS} {dict(COLUMNS)[BOUNDS]}"
                alter(self._spark, table, f"ALTER TABLE {table.sql} ADD COLUMNS ({added})")
            return engine_of(self._spark, table).greatest(table, "seq", ["seq", "tables"])
        create(
            self._spark, table, COLUMNS, pipeline=layout.pipeline,
            properties={
                "delta.autoOptimize.autoCompact": "true", "delta.appendOnly": "true",
                BRONZE: table_id(self._spark, layout.changes),
            },
            comment="For each batch of silver its place in the source, and the version of each table with it.",
        )  # fmt: skip
        return None

    def _see(self, names: Iterable[str]) -> None:
        for name in names:
            # one may have been refused before it was made
            if name in self._versions or own_table(SparkReader(self._spark), self._layout, name) is not None:
                self._versions[name] = newest_version(self._spark, self._layout.silver_table(name))


def _moment(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)
