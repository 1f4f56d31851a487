"""A few rows into a table of ours, or all rows of a small one, without a job of Spark's.

A job takes a third of a second however little it does, and each batch would have several. The files are written and
read by Arrow, and committed by Delta's own library (see `commit`); where that cannot be asked, or the table's columns
go by other names in its files, Spark does the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

from lakehouse_cdc.lake import delta_log
from lakehouse_cdc.lake.commits import writer_options
from lakehouse_cdc.lake.delta_log import APPENDED
from lakehouse_cdc.lake.direct.commit import add_files
from lakehouse_cdc.lake.direct.data_file import FileWriter
from lakehouse_cdc.lake.direct.file_listing import LONG, files_of
from lakehouse_cdc.lake.direct.statistics import Path
from lakehouse_cdc.lake.tables import Columns, append, read
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Table


def append_small(
    spark: SparkSession,
    table: Table,
    columns: Columns,
    rows: Sequence[Mapping[str, Any]],
    note: CommitNote,
    step: str,
    statistics: Iterable[Path],
) -> None:
    """Append rows in one commit, once, with its note. `statistics` are the columns that Delta keeps bounds of."""
    kinds = StructType([StructField(name, DataType.fromDDL(kind)) for name, kind in columns])
    state = delta_log.state(spark, table)
    if state is None or not state.plain:
        frame = spark.createDataFrame([tuple(row[name] for name, _ in columns) for row in rows], kinds)
        append(frame, table, writer_options(note, step))
        return
    writer, schema = FileWriter(str(table.path), "", statistics), to_arrow_schema(kinds, timezone="UTC")
    maps = {field.name for field in schema if pa.types.is_map(field.type)}
    said = [{k: list(v.items()) if k in maps and v is not None else v for k, v in row.items()} for row in rows]
    writer.write(pa.Table.from_pylist(said, schema=schema))
    add_files(spark, table, [writer.end()], note, step, APPENDED)


def read_small(spark: SparkSession, table: Table, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Those columns of all rows of a table that has few."""
    state = delta_log.state(spark, table)
    if state is not None and state.plain and state.version < LONG:
        files = files_of(table, Versions(None, state.version), {})
        if files is not None:
            found: list[dict[str, Any]] = []
            for file in files:
                with pq.ParquetFile(os.path.join(str(table.path), file.path)) as data:
                    found += data.read(columns=list(columns), use_threads=False).to_pylist()
            return found
    return [row.asDict() for row in read(spark, table).select(*columns).collect()]
