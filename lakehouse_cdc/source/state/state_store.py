"""What offsets name: immutable files beside the checkpoint, named by their content, written before the offset is.

Most are schemas, and their changes; the others are the states of tables, which would make an offset large (see
`offset_codec`), and keys that are to be read again.

An offset may thus be replayed at any time: the file that it names is there, whole, and says what it said.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.failpoints import Door, commit_to
from lakehouse_cdc.model.key_repair import Repair
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.sql.references import References

_EPOCH = "epoch-"  # begins the names of files that say which server an epoch is of


class SchemaStore:
    """Schemas in one folder (a local path, or one that is mounted, such as a Databricks volume)."""

    def __init__(self, location: str) -> None:
        self._folder = mounted(location)
        self._schemas: dict[str, TableSchema] = {}

    def put(self, schema: TableSchema) -> str:
        """Store the schema, whole or not at all, and give its id."""
        self._write(self._path(schema.id), schema.to_json())
        return schema.id

    def get(self, schema_id: str) -> TableSchema:
        """The schema of that id. Raises DefiniteError if its file is gone or is not what its name says."""
        if schema_id not in self._schemas:
            path = self._path(schema_id)
            schema = TableSchema.from_json(self._read(path))
            if schema.id != schema_id:
                raise codes.CHECKPOINT_DAMAGED.error(
                    f"the file of schema {schema_id} was changed", where=str(path), hint="restore it"
                )
            self._schemas[schema_id] = schema
        return self._schemas[schema_id]

    def put_change(self, change: SchemaChange) -> str:
        """Store the change and the schema that it leads to, if any, and give the change's fingerprint."""
        self.put(change.schema)
        text = change.to_json()
        fingerprint = _digest(text)
        self._write(self._change(fingerprint), text)
        return fingerprint

    def change(self, fingerprint: str) -> SchemaChange:
        """The change of that fingerprint. Raises DefiniteError if its file is gone or is not what its name says."""
        return SchemaChange.from_json(self._checked(self._change(fingerprint), fingerprint, "schema change"))

    def put_states(self, states: Mapping[str, Any]) -> str:
        """Store the states of tables, as an offset holds them, and give their fingerprint."""
        text = json.dumps(states, sort_keys=True, separators=(",", ":"))
        fingerprint = _digest(text)
        self._write(self._states(fingerprint), text)
        return fingerprint

    def states(self, fingerprint: str) -> dict[str, Any]:
        """The states of that fingerprint. Raises DefiniteError if their file is gone or is not what its name says."""
        states: dict[str, Any] = json.loads(self._checked(self._states(fingerprint), fingerprint, "states"))
        return states

    def put_between(self, ends: Sequence[Mapping[str, Any]]) -> str:
        """Store the ends of a batch's stretches, as `offset_codec` holds them, and give their fingerprint."""
        text = json.dumps(ends, sort_keys=True, separators=(",", ":"))
        fingerprint = _digest(text)
        self._write(self._between(fingerprint), text)
        return fingerprint

    def between(self, fingerprint: str) -> list[dict[str, Any]]:
        """The ends of that fingerprint. Raises DefiniteError if their file is gone or is not what its name says."""
        ends: list[dict[str, Any]] = json.loads(self._checked(self._between(fingerprint), fingerprint, "stretches"))
        return ends

    def put_repair(self, repair: Repair) -> str:
        """Store keys that are to be read again, and give their fingerprint."""
        text = repair.to_json()
        fingerprint = _digest(text)
        self._write(self._repair(fingerprint), text)
        return fingerprint

    def repair(self, fingerprint: str) -> Repair:
        """The keys of that fingerprint. Raises DefiniteError if their file is gone or is not what its name says."""
        return Repair.from_json(self._checked(self._repair(fingerprint), fingerprint, "repair"))

    def put_references(self, references: References) -> str:
        """Store what leads to tables, and give its fingerprint."""
        text = references.to_json()
        fingerprint = _digest(text)
        self._write(self._references(fingerprint), text)
        return fingerprint

    def references(self, fingerprint: str) -> References:
        """The references of that fingerprint. Raises DefiniteError if their file is gone or was changed."""
        return References.from_json(self._checked(self._references(fingerprint), fingerprint, "references"))

    def put_settings(self, digest: str, text: str) -> None:
        """Store what a configuration says of tables; its digest names it, as it is in offsets."""
        self._write(self._settings(digest), text)

    def settings(self, digest: str) -> str | None:
        """That of the configuration with that digest; None where an earlier release planned under it."""
        path = self._settings(digest)
        return self._read(path) if path.exists() else None

    def put_offset(self, offset: Offset) -> str:
        """Store an offset, and give its fingerprint."""
        text = json.dumps(offset.to_json(), sort_keys=True, separators=(",", ":"))
        fingerprint = _digest(text)
        self._write(self._offset(fingerprint), text)
        return fingerprint

    def offset(self, fingerprint: str) -> Offset:
        """The offset of that fingerprint. Raises DefiniteError if its file is gone or is not what its name says."""
        offset = Offset.from_json(json.loads(self._checked(self._offset(fingerprint), fingerprint, "offset")))
        assert offset is not None
        return offset

    def mark_held(self, end: Mapping[str, Any]) -> None:
        """Remember that the rows of the batch with the stored end `end` are in its table, and are not read again."""
        write_whole(self._held(end), "")

    def has_held(self, end: Mapping[str, Any]) -> bool:
        """Whether that is remembered of the batch with the stored end `end`."""
        return self._held(end).exists()

    def mark_gap(self, offset: Offset) -> None:
        """Remember that the batch which ends at `offset` could not be read any more, before it is let pass empty."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._gap(offset).touch()

    def has_gap(self, offset: Offset) -> bool:
        """Whether the batch that ended at `offset` was such a one: the next must begin a new epoch."""
        return self._gap(offset).exists()

    def claimed_epoch(self, after: int, server: str) -> int:
        """The epoch after `after` in which a batch is executed on `server`; noted before, and then the same for it."""
        claims = self._claims()
        mine = [epoch for epoch, name in claims.items() if name == server and epoch > after]
        if mine:
            return max(mine)
        epoch = self.last_epoch(after) + 1
        write_whole(self._folder / f"{_EPOCH}{epoch}.json", json.dumps({"server": server}))
        return epoch

    def last_epoch(self, epoch: int) -> int:
        """`epoch`, or a later one in which rows may have been emitted."""
        return max([epoch, *self._claims()])

    def _claims(self) -> dict[int, str]:
        return {
            int(path.stem.removeprefix(_EPOCH)): str(json.loads(path.read_text(encoding="utf-8"))["server"])
            for path in self._folder.glob(f"{_EPOCH}*.json")
        }

    def _gap(self, offset: Offset) -> Path:
        return self._folder / f"gap-{offset.epoch}-{offset.position.file}-{offset.position.pos}"

    def _settings(self, digest: str) -> Path:
        return self._folder / f"settings-{digest}.json"

    def _offset(self, fingerprint: str) -> Path:
        return self._folder / f"offset-{fingerprint}.json"

    def _held(self, end: Mapping[str, Any]) -> Path:
        return self._folder / f"held-{_digest(json.dumps(end, sort_keys=True))}"

    def _path(self, schema_id: str) -> Path:
        return self._folder / f"{schema_id}.json"

    def _states(self, fingerprint: str) -> Path:
        return self._folder / f"states-{fingerprint}.json"

    def _between(self, fingerprint: str) -> Path:
        return self._folder / f"between-{fingerprint}.json"

    def _repair(self, fingerprint: str) -> Path:
        return self._folder / f"repair-{fingerprint}.json"

    def _references(self, fingerprint: str) -> Path:
        return self._folder / f"references-{fingerprint}.json"

    def _change(self, fingerprint: str) -> Path:
        return self._folder / f"change-{fingerprint}.json"

    def _checked(self, path: Path, fingerprint: str, what: str) -> str:
        text = self._read(path)
        if _digest(text) != fingerprint:
            raise codes.CHECKPOINT_DAMAGED.error(
                f"the file of {what} {fingerprint} was changed", where=str(path), hint="restore it"
            )
        return text

    def _read(self, path: Path) -> str:
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise codes.CHECKPOINT_DAMAGED.error(
                f"{path.name}, which the checkpoint names, is missing", where=str(path),
                hint="the folder of schemas belongs to the checkpoint: restore it, or start again with both",
            ) from error  # fmt: skip

    def _write(self, path: Path, text: str) -> None:
        """The whole file or none; content names it, so one that is there is this one."""
        if not path.exists():
            write_whole(path, text)


def mounted(location: str) -> Path:
    """The folder of a location, which may be written as Spark writes that of a file."""
    return Path(location.removeprefix("file:"))


def write_whole(path: Path, text: str) -> None:
    """Write a file, durably, so that a reader finds all of it, or what was there before.

    Where that fails, as on a full disk, nothing is left of the attempt.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        with commit_to(Door.FILE, path.name):
            os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
