"""Schemas beside the checkpoint: immutable files, named by their content, written before the offset that names them.

An offset may thus be replayed at any time: the file that it names is there, whole, and says what it said.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.schema.table import TableSchema


class SchemaStore:
    """Schemas in one folder (a local path, or one that is mounted, such as a Databricks volume)."""

    def __init__(self, location: str) -> None:
        self._folder = Path(location.removeprefix("file:"))

    def put(self, schema: TableSchema) -> str:
        """Store the schema, whole or not at all, and give its id."""
        path = self._path(schema.id)
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self._folder, prefix=".writing-")
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write(schema.to_json())
                out.flush()
                os.fsync(out.fileno())
            os.replace(temporary, path)
        return schema.id

    def get(self, schema_id: str) -> TableSchema:
        """The schema of that id. Raises DefiniteError if its file is gone or is not what its name says."""
        path = self._path(schema_id)
        try:
            schema = TableSchema.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise DefiniteError(
                f"schema {schema_id}, which the checkpoint names, is missing", where=str(path),
                hint="the folder of schemas belongs to the checkpoint: restore it, or start anew with both",
            ) from error  # fmt: skip
        if schema.id != schema_id:
            raise DefiniteError(f"the file of schema {schema_id} was changed", where=str(path), hint="restore it")
        return schema

    def mark_gap(self, offset: Offset) -> None:
        """Remember that the batch which ends at `offset` could not be read any more, before it is let pass empty."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._gap(offset).touch()

    def has_gap(self, offset: Offset) -> bool:
        """Whether the batch that ended at `offset` was such a one: the next must begin a new epoch."""
        return self._gap(offset).exists()

    def _gap(self, offset: Offset) -> Path:
        return self._folder / f"gap-{offset.epoch}-{offset.position.file}-{offset.position.pos}"

    def _path(self, schema_id: str) -> Path:
        return self._folder / f"{schema_id}.json"
