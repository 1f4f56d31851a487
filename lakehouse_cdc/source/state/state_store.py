"""What offsets name: immutable files beside the checkpoint, named by their content, written before the offset is.

Most are schemas, and their changes; the others are the states of tables, which would make an offset large (see
`offset_codec`), and keys that are to be read again.

An offset may thus be replayed at any time: the file that it names is there, whole, and says what it said.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.files.choice import files_at
from lakehouse_cdc.model.key_repair import Repair
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.sql.references import References

_EPOCH = "epoch-"  # begins the names of files that say which server an epoch is of


class SchemaStore:
    """Schemas in one place (see `lake.files`)."""

    def __init__(self, location: str) -> None:
        self._files = files_at(location)
        self._schemas: dict[str, TableSchema] = {}

    def put(self, schema: TableSchema) -> str:
        """Store the schema, whole or not at all, and give its id."""
        self._write(self._name(schema.id), schema.to_json())
        return schema.id

    def get(self, schema_id: str) -> TableSchema:
        """The schema of that id. Raises DefiniteError if its file is gone or is not what its name says."""
        if schema_id not in self._schemas:
            name = self._name(schema_id)
            schema = TableSchema.from_json(self._read(name))
            if schema.id != schema_id:
                raise codes.CHECKPOINT_DAMAGED.error(
                    f"the file of schema {schema_id} was changed", where=self._where(name), hint="restore it"
                )
            self._schemas[schema_id] = schema
        return self._schemas[schema_id]

    def put_change(self, change: SchemaChange) -> str:
        """Store the change and the schema that it leads to, if any, and give the change's fingerprint."""
        self.put(change.schema)
        text = change.to_json()
        return self._put("change", text)

    def change(self, fingerprint: str) -> SchemaChange:
        """The change of that fingerprint. Raises DefiniteError if its file is gone or is not what its name says."""
        return SchemaChange.from_json(self._checked(_named("change", fingerprint), fingerprint, "schema change"))

    def put_states(self, states: Mapping[str, Any]) -> str:
        """Store the states of tables, as an offset holds them, and give their fingerprint."""
        text = json.dumps(states, sort_keys=True, separators=(",", ":"))
        return self._put("states", text)

    def states(self, fingerprint: str) -> dict[str, Any]:
        """The states of that fingerprint. Raises DefiniteError if their file is gone or is not what its name says."""
        states: dict[str, Any] = json.loads(self._checked(_named("states", fingerprint), fingerprint, "states"))
        return states

    def put_between(self, ends: Sequence[Mapping[str, Any]]) -> str:
        """Store the ends of a batch's stretches, as `offset_codec` holds them, and give their fingerprint."""
        text = json.dumps(ends, sort_keys=True, separators=(",", ":"))
        return self._put("between", text)

    def between(self, fingerprint: str) -> list[dict[str, Any]]:
        """The ends of that fingerprint. Raises DefiniteError if their file is gone or is not what its name says."""
        ends: list[dict[str, Any]] = json.loads(self._checked(_named("between", fingerprint), fingerprint, "stretches"))
        return ends

    def put_repair(self, repair: Repair) -> str:
        """Store keys that are to be read again, and give their fingerprint."""
        text = repair.to_json()
        return self._put("repair", text)

    def repair(self, fingerprint: str) -> Repair:
        """The keys of that fingerprint. Raises DefiniteError if their file is gone or is not what its name says."""
        return Repair.from_json(self._checked(_named("repair", fingerprint), fingerprint, "repair"))

    def put_references(self, references: References) -> str:
        """Store what leads to tables, and give its fingerprint."""
        text = references.to_json()
        return self._put("references", text)

    def references(self, fingerprint: str) -> References:
        """The references of that fingerprint. Raises DefiniteError if their file is gone or was changed."""
        return References.from_json(self._checked(_named("references", fingerprint), fingerprint, "references"))

    def put_settings(self, digest: str, text: str) -> None:
        """Store what a configuration says of tables; its digest names it, as it is in offsets."""
        self._write(_named("settings", digest), text)

    def settings(self, digest: str) -> str | None:
        """That of the configuration with that digest; None where an earlier release planned under it."""
        return self._files.read(_named("settings", digest))

    def put_offset(self, offset: Offset) -> str:
        """Store an offset, and give its fingerprint."""
        text = json.dumps(offset.to_json(), sort_keys=True, separators=(",", ":"))
        return self._put("offset", text)

    def offset(self, fingerprint: str) -> Offset:
        """The offset of that fingerprint. Raises DefiniteError if its file is gone or is not what its name says."""
        offset = Offset.from_json(json.loads(self._checked(_named("offset", fingerprint), fingerprint, "offset")))
        assert offset is not None
        return offset

    def mark_held(self, end: Mapping[str, Any]) -> None:
        """Remember that the rows of the batch with the stored end `end` are in its table, and are not read again."""
        self._files.write(self._held(end), "")

    def has_held(self, end: Mapping[str, Any]) -> bool:
        """Whether that is remembered of the batch with the stored end `end`."""
        return self._files.exists(self._held(end))

    def mark_gap(self, offset: Offset) -> None:
        """Remember that the batch which ends at `offset` could not be read any more, before it is let pass empty."""
        self._files.write(self._gap(offset), "")

    def has_gap(self, offset: Offset) -> bool:
        """Whether the batch that ended at `offset` was such a one: the next must begin a new epoch."""
        return self._files.exists(self._gap(offset))

    def claimed_epoch(self, after: int, server: str) -> int:
        """The epoch after `after` in which a batch is executed on `server`; noted before, and then the same for it."""
        claims = self._claims()
        mine = [epoch for epoch, name in claims.items() if name == server and epoch > after]
        if mine:
            return max(mine)
        epoch = self.last_epoch(after) + 1
        self._files.write(f"{_EPOCH}{epoch}.json", json.dumps({"server": server}))
        return epoch

    def last_epoch(self, epoch: int) -> int:
        """`epoch`, or a later one in which rows may have been emitted."""
        return max([epoch, *self._claims()])

    def _claims(self) -> dict[int, str]:
        claims = {name.removesuffix(".json"): self._read(name) for name in self._files.names(_EPOCH)}
        return {int(name.removeprefix(_EPOCH)): str(json.loads(text)["server"]) for name, text in claims.items()}

    def _gap(self, offset: Offset) -> str:
        return f"gap-{offset.epoch}-{offset.position.file}-{offset.position.pos}"

    def _held(self, end: Mapping[str, Any]) -> str:
        return f"held-{_digest(json.dumps(end, sort_keys=True))}"

    def _name(self, schema_id: str) -> str:
        return f"{schema_id}.json"

    def _put(self, kind: str, text: str) -> str:
        fingerprint = _digest(text)
        self._write(_named(kind, fingerprint), text)
        return fingerprint

    def _checked(self, name: str, fingerprint: str, what: str) -> str:
        text = self._read(name)
        if _digest(text) != fingerprint:
            raise codes.CHECKPOINT_DAMAGED.error(
                f"the file of {what} {fingerprint} was changed", where=self._where(name), hint="restore it"
            )
        return text

    def _read(self, name: str) -> str:
        if (text := self._files.read(name)) is None:
            raise codes.CHECKPOINT_DAMAGED.error(
                f"{name}, which the checkpoint names, is missing", where=self._where(name),
                hint="the folder of schemas belongs to the checkpoint: restore it, or start again with both",
            )  # fmt: skip
        return text

    def _where(self, name: str) -> str:
        return f"{self._files.where}/{name}"

    def _write(self, name: str, text: str) -> None:
        """The whole file or none; content names it, so one that is there is this one."""
        if not self._files.exists(name):
            self._files.write(name, text)


def _named(kind: str, digest: str) -> str:
    return f"{kind}-{digest}.json"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
