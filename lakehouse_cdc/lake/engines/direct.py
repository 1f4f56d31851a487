"""The engine for a plain table whose files this process reads and writes: Arrow's files, committed beside Spark.

A job of Spark's takes a third of a second however little it does, and each batch would have several.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.direct.commit import add_files
from lakehouse_cdc.lake.direct.data_file import FileWriter, NewFile
from lakehouse_cdc.lake.direct.file_listing import live_files
from lakehouse_cdc.lake.direct.newest_version import can_commit
from lakehouse_cdc.lake.direct.replacement import Replacement
from lakehouse_cdc.lake.engines.port import Row, struct_of
from lakehouse_cdc.lake.engines.spark import SparkEngine
from lakehouse_cdc.lake.parquet import parquet_file
from lakehouse_cdc.lake.refused_writes import writing_to
from lakehouse_cdc.lake.table_state import Columns
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Table


def _read(path: str, schema: pa.Schema) -> pa.Table:
    """A file in the table's types. Columns that were added to the table after the file was written are NULL in it."""
    with writing_to(path), parquet_file(path) as data:
        known = data.schema_arrow.names
        rows = data.read(columns=[name for name in schema.names if name in known], use_threads=False)
    for field in schema:
        if field.name not in known:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows.select(schema.names).cast(schema)


def _written(table: Table, columns: Columns, rows: Sequence[Row], statistics: Iterable[str]) -> NewFile:
    """Rows as a file of the table that is yet to be committed."""
    schema = to_arrow_schema(struct_of(columns), timezone="UTC")
    maps = {field.name for field in schema if pa.types.is_map(field.type)}
    plain = [{k: list(v.items()) if k in maps and v is not None else v for k, v in row.items()} for row in rows]
    with writing_to(str(table.path)):
        writer = FileWriter(str(table.path), "", [(name,) for name in statistics])
        writer.write(pa.Table.from_pylist(plain, schema=schema))
        return writer.end()


class DirectEngine:
    """See `port.Engine`. What only Spark reads (deleted rows, a log that was cleaned up) is read by Spark."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @staticmethod
    def has(spark: SparkSession, table: Table) -> bool:
        """Whether it can write the table, as the table is now."""
        return can_commit(spark, table)

    def append(
        self,
        table: Table,
        columns: Columns,
        rows: Sequence[Row],
        note: CommitNote,
        step: str,
        statistics: Iterable[str],
    ) -> None:
        """See `port.Engine`."""
        add_files(table, [_written(table, columns, rows, statistics)], note, step)

    def rewrite(self, table: Table, columns: Columns, change: Callable[[Row], Row], statistics: Iterable[str]) -> bool:
        """Give each row of a table of few rows the values that `change` says, in one commit that is no change of data.

        False where that changes nothing; then nothing is written.
        """
        replacement = Replacement(table)
        old = replacement.files({})
        schema = to_arrow_schema(struct_of(columns), timezone="UTC")
        rows = [row for file in old for row in _read(file.place, schema).to_pylist()]
        changed = [change(row) for row in rows]
        if changed == rows:
            return False
        replacement.commit(old, [_written(table, columns, changed, statistics)])
        return True

    def put_together(self, table: Table, statistics: Iterable[str]) -> bool:
        """Make one file of a table of few rows, in one commit that is no change of data; False where it is one."""
        replacement = Replacement(table)
        old = replacement.files({})
        if len(old) < 2:
            return False
        state = delta_log.state(self._spark, table)
        assert state is not None, table
        schema = to_arrow_schema(struct_of(state.columns), timezone="UTC")
        writer = FileWriter(str(table.path), "", [(name,) for name in statistics])
        writer.write(pa.concat_tables([_read(file.place, schema) for file in old]))
        replacement.commit(old, [writer.end()])
        return True

    def read(self, table: Table, columns: Sequence[str]) -> list[dict[str, Any]]:
        """See `port.Engine`."""
        rows = self._rows(table, columns)
        if rows is None:
            return SparkEngine(self._spark).read(table, columns)
        return [row for each in rows for row in each.to_pylist()]

    def greatest(self, table: Table, by: str, columns: Sequence[str]) -> dict[str, Any] | None:
        """See `port.Engine`."""
        rows = self._rows(table, list(dict.fromkeys([by, *columns])))
        if rows is None:
            return SparkEngine(self._spark).greatest(table, by, columns)
        ends = [row for each in rows if (row := _greatest(each, by)) is not None]
        row = max(ends, key=lambda row: row[by], default=None)
        return None if row is None else {name: row[name] for name in columns}

    def _rows(self, table: Table, columns: Sequence[str]) -> Iterator[pa.Table] | None:
        """Those of each file; None where only Spark reads them."""
        state = delta_log.state(self._spark, table)
        files = live_files(table, state.version) if state is not None and state.plain else None
        if state is None or files is None:
            return None
        kinds = StructType.fromJson({"type": "struct", "fields": list(state.fields)})
        schema = to_arrow_schema(StructType([kinds[name] for name in columns]), timezone="UTC")
        return (_read(os.path.join(str(table.path), file.path), schema) for file in files)


def _greatest(rows: pa.Table, by: str) -> dict[str, Any] | None:
    """The row with the greatest value in that column, None where it has none."""
    greatest = pc.max(rows.column(by))
    if not greatest.is_valid:
        return None
    [row] = rows.slice(pc.index(rows.column(by), greatest).as_py(), 1).to_pylist()
    return dict(row)
