"""The port through which rows come into a Delta table, and out of it, without a word of how.

Purpose: a table's caller says what is to be committed; what writes the files and makes the commit depends on where the
table is, and on what it needs.

Invariant: whatever engine makes a commit, the table is the same afterwards: rows, note, transaction and bounds.

Why it holds: each engine keeps the contract below, and both leave everything in the table alone. So the engine of a
table may change between any two commits.

Guards: `tests/lake/engines/test_contract.py` runs the same tests over every engine, and over tables of which commits
are made by both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from pyspark.sql.types import DataType, StructField, StructType

from lakehouse_cdc.lake.table_state import Columns
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Table

Row = Mapping[str, Any]


def struct_of(columns: Columns) -> StructType:
    """The type of a row of these columns."""
    return StructType([StructField(name, DataType.fromDDL(kind)) for name, kind in columns])


class Engine(Protocol):
    """Writes and reads one kind of table. Engines keep these promises:

    1. `append` makes one commit, which holds just these rows, the note, and the transaction (step, batch) of its query.
    2. A batch that a query has committed to the table in that step, by whatever engine, is not committed again.
    3. An `append` that fails has added nothing that a reader sees.
    4. `read` gives all rows of the newest version, of every writer, in no order.
    5. Values are those of Spark SQL's types: a decimal keeps its digits, a timestamp its microseconds and a zone. They
       are read in Arrow's Python forms: a struct is a dict, a map a list of pairs.
    """

    def append(
        self,
        table: Table,
        columns: Columns,
        rows: Sequence[Row],
        note: CommitNote,
        step: str,
        statistics: Iterable[str],
    ) -> None:
        """Append rows, which name all `columns`. `statistics`: the columns of which Delta keeps bounds."""

    def read(self, table: Table, columns: Sequence[str]) -> list[dict[str, Any]]:
        """These columns of all rows. For tables of few rows: all of them come to the driver."""

    def greatest(self, table: Table, by: str, columns: Sequence[str]) -> dict[str, Any] | None:
        """These columns of the row that has the greatest value in the column `by`; None where none has a value."""
