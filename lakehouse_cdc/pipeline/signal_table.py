"""Requests as rows of `<bronze>.signals`, from a job, a notebook or SQL, and the answers to them, in the same table.

Purpose: who may write to the table asks what the command `signal` asks, without a shell beside the checkpoints.

Invariant: each `id` is answered once, and what it asks for is done, in the order of `asked_at`; a row that asks for
nothing that can be done is refused in its answer, and ends nothing.

Why it holds: only what has no answer is looked at, by the run that holds the pipeline's lock or is the only one to keep
its streams. The answer is appended after the deed, so a process that dies in between does it again, which changes
nothing (see `requests`). Where the deed cannot be done for now, as the source is away, there is no answer, and later
requests wait, for their order may matter. Two rows of one `id` are one request, the first.

Guards: tests/pipeline/test_signal_table.py.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.errors import CdcError, TransientError
from lakehouse_cdc.lake.spark_errors import first_line
from lakehouse_cdc.lake.table_state import Columns
from lakehouse_cdc.lake.tables import append, create, exists, require_ours
from lakehouse_cdc.pipeline.requests import Action, Answer, Request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_cdc.lake.readers.port import TableReader
    from lakehouse_cdc.model.table_layout import Layout

COLUMNS: Columns = (
    ("id", "string"),  # chosen by who asks; in both rows
    ("asked_at", "timestamp"),  # in both rows
    ("action", "string"),  # one of `Action`
    ("what", "array<string>"),
    ("where", "string"),
    ("answer", "string"),  # done or refused; NULL in a request
    ("text", "string"),  # what was done, or why not
    ("answered_at", "timestamp"),
)
_REQUIRED = {"id", "asked_at"}
_DDL = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS)
_EVERY = 10.0  # seconds between two looks
_log = logging.getLogger(__name__)


class SignalTable:
    """That of one run, which makes the table where it is missing; `tick` looks, if it is time to.

    `ask` does what is asked, and raises a CdcError where that cannot be done. Raises DefiniteError, when it is made,
    where the table is somebody else's.
    """

    def __init__(
        self,
        spark: SparkSession,
        layout: Layout,
        reader: Callable[[], TableReader],
        ask: Callable[[Request], Answer],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spark, self._table, self._reader = spark, layout.signals, reader
        self._ask, self._clock = ask, clock
        self._looked = -float("inf")
        self._version = -1
        if exists(spark, self._table):
            require_ours(spark, self._table, COLUMNS, pipeline=layout.pipeline)
        else:
            create(
                spark,
                self._table,
                [(name, f"{kind} NOT NULL" if name in _REQUIRED else kind) for name, kind in COLUMNS],
                pipeline=layout.pipeline,
                comment="Append a row (id, asked_at, action, what) to ask something; the answer is appended, too.",
                properties={"delta.autoOptimize.autoCompact": "true"},
            )

    def tick(self) -> None:
        """Answer what has no answer yet, if the last look is long enough ago. What goes wrong is logged."""
        now = self._clock()
        if now - self._looked < _EVERY:
            return
        self._looked = now
        try:
            self._look()
        except Exception as error:  # whatever it is, the streams are not to end by it
            _log.warning("%s cannot be looked at now: %s", self._table, first_line(error))

    def _look(self) -> None:
        reader = self._reader()  # which sees the table as it is now
        version = next(commit.version for commit in reader.commits(self._table))
        if version == self._version:
            return
        for asked in self._unanswered(reader):
            try:
                answer, text = "done", self._done(asked)
            except TransientError as error:
                _log.warning("the signal %s is tried again: %s", asked["id"], error)
                return
            except CdcError as error:
                answer, text = "refused", f"{error.what}; {error.hint}" if error.hint else error.what
            row = (asked["id"], asked["asked_at"], None, None, None, answer, text, datetime.now(timezone.utc))
            append(self._spark.createDataFrame([row], _DDL).coalesce(1), self._table, {})
            _log.info("the signal %s (%s): %s, %s", asked["id"], asked["action"], answer, text)
        self._version = version  # what was appended since is looked at next

    def _unanswered(self, reader: TableReader) -> list[Mapping[str, Any]]:
        rows = list(reader.rows(self._table, [name for name, _ in COLUMNS]))
        answered = {row["id"] for row in rows if row["answer"] is not None}
        requests = sorted((row for row in rows if row["answer"] is None), key=lambda row: (row["asked_at"], row["id"]))
        first: dict[str, Mapping[str, Any]] = {}
        for row in requests:
            first.setdefault(row["id"], row)
        return [row for name, row in first.items() if name not in answered]

    def _done(self, asked: Mapping[str, Any]) -> str:
        action = Action.of(asked["action"] or "")
        return self._ask(Request(action, tuple(asked["what"] or ()), asked["where"] or "")).sentence
