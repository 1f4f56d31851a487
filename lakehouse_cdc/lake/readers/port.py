"""The port through which tables are looked at: what is asked of them, without a word of who answers.

Purpose: `status` and the like look at many tables, and decide nothing by it that a commit relies on. Where a table lies
in a folder here, no session of Spark's has to be started for that; where a catalog keeps it, Spark is the only one to
know. What follows from the answers is written once, for either.

Invariant: whichever reader answers, the answer is the same, of the same version of the table.

Why it holds: each reader keeps the contract below. One that does not know a feature of a table (see `choice`) does not
answer in part: it raises, and another is asked.

Guards: `tests/lake/readers/test_contract.py` asks every reader the same of tables with all features that ours have;
`tests/ops/test_without_spark.py` holds beside each other what `status` prints by either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from lakehouse_cdc.lake.commit_log import Commit
from lakehouse_cdc.model.table_layout import Table


class TableReader(Protocol):
    """Looks at tables. All but `exists` are asked of a table that is there; of a part of one, as of a whole."""

    def exists(self, table: Table) -> bool:
        """Whether the Delta table is there. Raises DefiniteError where something else lies in its place."""

    def properties(self, table: Table) -> Mapping[str, str]:
        """Those of the whole table, a part's own among them (see `ownership.owned`)."""

    def id(self, table: Table) -> str:
        """What Delta called the table when it was made; one that is made again in its place has another."""

    def columns(self, table: Table) -> list[tuple[str, str]]:
        """Names, and Spark's names of their types, in order."""

    def commits(self, table: Table) -> Iterator[Commit]:
        """Newest first, as far as the log goes back; of a part, those that are not about others."""

    def rows(self, table: Table, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Those columns of all rows, in no order, in Arrow's Python forms: a struct is a dict, a map a list of pairs.

        Columns that the table has not are left out: tables of earlier releases lack some.
        """

    def count(self, table: Table, null: str | None = None) -> int:
        """How many rows it has; with `null`, a column or the field of one (`a.b`), those in which that is NULL."""

    def counts(self, table: Table, by: str) -> Mapping[str, int]:
        """How many rows it has by value of a partition column of texts, of which none is NULL."""
