"""One commit that gives a bare table other columns and properties and, where its rows change by that, other files.

Purpose: a change of a table's schema in hundredths of a second, for which Spark takes several commits and features of
Delta's (column mapping, type widening) that close the table to other engines.

Invariant: readers see the table as it was or as it is to be, never with the columns of one and the rows of the other.

Why it holds: columns, properties, the files that go and the file that takes their place are the actions of one commit.
It is put on top of the very version whose rows were read (see `newest_version`); where another commit comes first,
whatever it did, all is read and written again from the version that is the newest then. Files that were written for a
commit that was refused are deleted; those that a crash leaves are part of no table, and go with the next VACUUM.

Guards: tests/lake/test_redefinition.py.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.direct.commit import action
from lakehouse_cdc.lake.direct.data_file import FileWriter, NewFile, delete
from lakehouse_cdc.lake.direct.newest_version import Action, NewestVersion, OvertakenError
from lakehouse_cdc.lake.direct.statistics import Path
from lakehouse_cdc.lake.failpoints import Door, commit_to
from lakehouse_cdc.lake.opened import opened
from lakehouse_cdc.lake.parquet import parquet_file
from lakehouse_cdc.lake.table_state import Field
from lakehouse_cdc.model.table_layout import Table

_TRIES = 20  # commits of others that may come in between
_GROUP_ROWS = 200_000


@dataclass(frozen=True)
class Definition:
    """What the table is to be: its columns as Delta's schema has them, and properties that it gets.

    `rows` makes of all rows, in the table's columns, those that take their place; None: files stay as they are.
    `bounded` are the columns of which the file that is written has statistics.
    """

    fields: Sequence[Field]
    properties: Mapping[str, str]
    rows: Callable[[pa.Table], pa.Table] | None
    bounded: Sequence[Path]


class Whole:
    """All of a bare table at one version."""

    def __init__(self, newest: NewestVersion) -> None:
        self._table = opened(newest.folder, newest.state.version)
        self._folder = newest.folder
        self._files: list[dict[str, Any]] = pa.table(self._table.get_add_actions()).to_pylist()

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(int(file["size_bytes"]) for file in self._files)

    @property
    def schema(self) -> pa.Schema:
        """Its columns, in Arrow's types."""
        return pa.schema(self._table.schema().to_arrow())

    def rows(self) -> pa.Table:
        """All rows. Raises pa.ArrowException where a file holds something else than the table says."""
        schema = self.schema
        return pa.concat_tables([schema.empty_table(), *(self._rows(file["path"], schema) for file in self._files)])

    def _rows(self, path: str, schema: pa.Schema) -> pa.Table:
        with parquet_file(os.path.join(self._folder, unquote(path))) as file:
            rows = file.read()
        lacking = [pa.nulls(len(rows), field.type) for field in schema]
        columns = [
            rows.column(field.name).cast(field.type) if field.name in rows.column_names else nulls
            for field, nulls in zip(schema, lacking, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=schema)

    def removals(self) -> list[Action]:
        """The actions that take its files away."""
        now = round(time.time() * 1000)
        return [
            {
                "remove": {
                    "path": file["path"], "deletionTimestamp": now, "dataChange": True, "extendedFileMetadata": True,
                    "partitionValues": {}, "size": int(file["size_bytes"]),
                }
            }
            for file in self._files
        ]  # fmt: skip


def redefine(table: Table, define: Callable[[NewestVersion, Whole], Definition | None], note: str) -> int | None:
    """Commit what `define` makes of the newest version, with that note; the version. None where it makes nothing of it.

    Raises DefiniteError where the log does not say what the table is, or others commit all the time.
    """
    for _ in range(_TRIES):
        newest = NewestVersion(table)
        whole = Whole(newest)
        if (wanted := define(newest, whole)) is None:
            return None
        files = _written(newest.folder, wanted, whole)
        try:
            with commit_to(Door.STATEMENT, table.name):
                version = newest.put(_info(note), [_metadata(newest, wanted), *_replaced(wanted, whole, files)])
        except OvertakenError:
            delete(newest.folder, files)
            continue
        newest.keep_log_short(version)
        return version
    raise codes.DELTA_FAILED.error(
        f"others have committed {_TRIES} times in between", where=str(table), hint="run again"
    )


def _written(folder: str, wanted: Definition, whole: Whole) -> list[NewFile]:
    """The file of all rows; none where they stay, or there are none."""
    if wanted.rows is None:
        return []
    rows = wanted.rows(whole.rows())
    if not len(rows):
        return []
    writer = FileWriter(folder, "", wanted.bounded, store_decimal_as_integer=True)
    try:
        for at in range(0, len(rows), _GROUP_ROWS):
            writer.write(rows.slice(at, _GROUP_ROWS))
        return [writer.end()]
    except BaseException:
        writer.discard()
        raise


def _replaced(wanted: Definition, whole: Whole, files: Sequence[NewFile]) -> list[Action]:
    return [] if wanted.rows is None else [*whole.removals(), *map(action, files)]


def _metadata(newest: NewestVersion, wanted: Definition) -> Action:
    schema = {"type": "struct", "fields": [dict(field) for field in wanted.fields]}
    held = {**newest.metadata, "schemaString": json.dumps(schema, ensure_ascii=False)}
    return {"metaData": {**held, "configuration": {**newest.state.properties, **wanted.properties}}}


def _info(note: str) -> dict[str, Any]:
    """What the commit says of itself (protocol, "Commit Provenance Information")."""
    return {"operation": "REPLACE COLUMNS", "operationParameters": {}, "isBlindAppend": False, "userMetadata": note}
