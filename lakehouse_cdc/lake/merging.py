"""A MERGE into a Delta table, as one statement of SQL: the same on every session.

Delta's Python API does as much, but not on a session of Spark Connect, for which it needs a plugin of the server's.
What the commit says goes by the session's settings where it has its own, else into the statement: into a condition that
never holds, and that no planner can know (see `model.carried_note`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from lakehouse_cdc.lake.commits import application, committing, is_committed
from lakehouse_cdc.lake.failpoints import Door, commit_to
from lakehouse_cdc.lake.noting import noted
from lakehouse_cdc.lake.sessions import is_remote
from lakehouse_cdc.model.carried_note import carried
from lakehouse_cdc.model.table_layout import Table, literal

if TYPE_CHECKING:
    from lakehouse_cdc.model.commit_note import CommitNote

Values = Mapping[str, str]  # column -> SQL


@dataclass(frozen=True)
class Merge:
    """Of the rows of `source`, called `alias`, into a table, called t, where `on` holds. The clauses are in order.

    `any_value` is SQL of some value of a row of the source.
    """

    table: Table
    source: DataFrame
    on: str
    any_value: str = "s.seq"
    alias: str = "s"
    clauses: tuple[str, ...] = ()

    def when_matched_delete(self, condition: str | None = None) -> Merge:
        """With WHEN MATCHED ... DELETE."""
        return self._with(f"WHEN MATCHED{_only(condition)} THEN DELETE")

    def when_matched_update(self, condition: str | None, values: Values) -> Merge:
        """With WHEN MATCHED ... UPDATE."""
        return self._with(f"WHEN MATCHED{_only(condition)} THEN UPDATE SET {_set(values)}")

    def when_not_matched_insert(self, condition: str | None, values: Values) -> Merge:
        """With WHEN NOT MATCHED ... INSERT; other columns are NULL."""
        columns, given = ", ".join(values), ", ".join(values.values())
        return self._with(f"WHEN NOT MATCHED{_only(condition)} THEN INSERT ({columns}) VALUES ({given})")

    def when_not_matched_by_source_delete(self, condition: str) -> Merge:
        """With WHEN NOT MATCHED BY SOURCE ... DELETE."""
        return self._with(f"WHEN NOT MATCHED BY SOURCE{_only(condition)} THEN DELETE")

    def when_not_matched_by_source_update(self, condition: str, values: Values) -> Merge:
        """With WHEN NOT MATCHED BY SOURCE ... UPDATE."""
        return self._with(f"WHEN NOT MATCHED BY SOURCE{_only(condition)} THEN UPDATE SET {_set(values)}")

    def execute(self, session: SparkSession) -> None:
        """One commit. Of the note alone (`commits.noting`)."""
        note = noted(session)
        self._execute(session, self if note is None else self._carrying(carried(note.text())))

    def commit(self, session: SparkSession, note: CommitNote, step: str) -> None:
        """One commit, once for that step of the note's batch, and with the note."""
        if not is_remote(session):
            with committing(session, note, step):
                self._execute(session, self)
        elif not is_committed(session, self.table, note, step):
            self._execute(session, self._carrying(carried(note.text(), application(note, step))))

    def _carrying(self, text: str) -> Merge:
        never = f"WHEN MATCHED AND CAST({self.any_value} AS STRING) = {literal(text)} THEN DELETE"
        return replace(self, clauses=(never, *self.clauses))

    def _with(self, clause: str) -> Merge:
        return replace(self, clauses=(*self.clauses, clause))

    @staticmethod
    def _execute(session: SparkSession, merge: Merge) -> None:
        into = f"MERGE INTO {merge.table.sql} t USING {{source}} {merge.alias} ON {_braced(merge.on)}"
        with commit_to(Door.MERGE, merge.table.name):
            session.sql(f"{into} {' '.join(map(_braced, merge.clauses))}", source=merge.source)


def _only(condition: str | None) -> str:
    return "" if condition is None else f" AND {condition}"


def _set(values: Values) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def _braced(text: str) -> str:
    """As it is written where braces stand for what is put in."""
    return text.replace("{", "{{").replace("}", "}}")
