"""Hide, in rows that bronze holds, what is hidden by now: the rows of a table are written again, and its schemas.

Purpose: a mask or an exclusion that is configured for a table with rows hides what is read from then on. This hides it
in what was read before, and nothing else changes.

Invariant: afterwards each row is as `schema.redaction` says: its images without the values that are hidden, under the
schema that says so. Every other value, seq, position and time is what it was. Readers see a table's rows as they were
before, or as they are after it; readers of what is new in bronze see nothing.

Why it holds:

- Values that stay are copied as bytes (`model.variant.fields`); those that are masked are masked by the kernels' code.
- All files of a table are replaced in one commit that changes no data (`lake.direct.replacement`). A crash before it
  leaves bronze as it was, and files that no commit names, in which nothing is that is to be hidden.
- A row says by its schema's id whether it was redacted. So the same again changes nothing, and writes nothing.
- `<bronze>.schemas` comes second, also in one commit. Between the two it still says what the rows were, so that the
  work continues where it ended; a reader that looks for a schema which it lacks finds it in the rows of bronze.
- Delta's statistics are of columns without images (`model.bronze_row`), those of Parquet likewise.

The old files can be read, as older versions of the table, until VACUUM deletes them.

Guards: tests/bronze/test_redaction.py, tests/pipeline/test_redact.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from lakehouse_cdc.bronze.hidden_columns import parsed
from lakehouse_cdc.bronze.schema_registry import STATISTICS
from lakehouse_cdc.bronze.stored_rows import one_value, stored_rows
from lakehouse_cdc.bronze.tables import SCHEMAS
from lakehouse_cdc.images.hashing.stored_values import Masking, masked_text, masking
from lakehouse_cdc.lake.direct.change_files import written
from lakehouse_cdc.lake.direct.commit import DataFile
from lakehouse_cdc.lake.direct.replacement import LiveFile, Replacement
from lakehouse_cdc.lake.engines.direct import DirectEngine
from lakehouse_cdc.model.bronze_arrow import ARROW
from lakehouse_cdc.model.bronze_row import PARTITION
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.model.variant import decode, encode, fields, object_of
from lakehouse_cdc.schema.masks import NULL
from lakehouse_cdc.schema.redaction import REMOVED, RedactedEra, Redaction
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.type_registry import Kind
from lakehouse_cdc.schema.types import mapped
from lakehouse_cdc.sql.redaction import without_constants

Progress = Callable[[int, int], None]  # files that were looked at, of so many
_IMAGES = ("key", "before", "after")
_ROWS = (Op.READ.value, Op.INSERT.value, Op.UPDATE.value, Op.DELETE.value)
_NARROW = ("op", "schema_id", "seq")
_WIDE = (*_NARROW, *_IMAGES)
_CHANGING = ("schema_id", *_IMAGES)
_VARIANT = ARROW.field("after").type
_NOTHING = {"value": b"", "metadata": b""}


def redact_changes(layout: Layout, redaction: Redaction, salt: str, progress: Progress = lambda *_: None) -> int:
    """Write the rows of the table again that hold what is to be hidden; how many files that were. Done before: 0."""
    table, rewriter = layout.changes, Rewriter(redaction, salt)
    replacement = Replacement(table)
    files = replacement.files({PARTITION: redaction.table})
    old: list[LiveFile] = []
    new: list[DataFile] = []
    for n, file in enumerate(files):
        progress(n, len(files))
        if rewriter.may_change(file.place) and rewriter.changes(file.place):
            old.append(file)
            for line in written(rewriter.rows(file.place), str(table.path)):
                new += [DataFile(**entry) for entry in line.to_pylist()]
    if old:
        replacement.commit(old, new)
    progress(len(files), len(files))
    return len(old)


def redact_schemas(spark: SparkSession, layout: Layout, redaction: Redaction, salt: str) -> bool:
    """Write the schemas of the table again as the rows of bronze have them; False if that changes nothing."""
    rewriter = Rewriter(redaction, salt)

    def redacted(row: Mapping[str, Any]) -> Mapping[str, Any]:
        return rewriter.registered(row) if row[PARTITION] == redaction.table else row

    return DirectEngine(spark).rewrite(layout.schemas, SCHEMAS, redacted, STATISTICS)


class Rewriter:
    """What becomes of the rows of one table."""

    def __init__(self, redaction: Redaction, salt: str) -> None:
        self._redaction, self._salt = redaction, salt
        self._masks: dict[int, Mapping[str, Masking | None]] = {}
        self._stay = {era.new.id for era in redaction.eras} - {
            era.old.id for era in redaction.eras if era.old.id != era.new.id
        }

    def may_change(self, path: str) -> bool:
        """Whether a file has to be looked into: False where its statistics say that all its rows stay."""
        schema_id, op = one_value(path, "schema_id"), one_value(path, "op")
        return not (schema_id in self._stay and op not in (None, Op.SCHEMA.value))

    def changes(self, path: str) -> bool:
        """Whether any row of the file changes."""
        with pq.ParquetFile(path) as file:
            narrow = file.read(columns=list(_NARROW))
        has_schemas = False
        for op, schema_id, seq in zip(*(narrow.column(name).to_pylist() for name in _NARROW), strict=True):
            if op == Op.SCHEMA.value:
                has_schemas = True
            elif self._yet_to_change(schema_id, seq) is not None:
                return True
        return has_schemas and any(
            row["op"] == Op.SCHEMA.value and self._row(row) != row
            for batch in stored_rows(path, self._redaction.table)
            for row in batch.select(list(_WIDE)).to_pylist()
        )

    def rows(self, path: str) -> Iterator[pa.RecordBatch]:
        """All rows of the file, as they are to be."""
        for batch in stored_rows(path, self._redaction.table):
            columns = {name: batch.column(name).to_pylist() for name in _WIDE}
            for i in range(batch.num_rows):
                row = self._row({name: values[i] for name, values in columns.items()})
                for name in _CHANGING:
                    columns[name][i] = row[name]
            for name in _CHANGING:
                values = pa.array(columns[name]) if name not in _IMAGES else _images(columns[name])
                batch = batch.set_column(ARROW.get_field_index(name), ARROW.field(name), values)
            yield batch

    def registered(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """A row of `<bronze>.schemas`."""
        seq, after = int(row["seq"]), parsed(row["schema"])
        new = {**row, "statement": self._statement(row["statement"], seq)}
        if after is None:
            return {**new, "schema_id": self._redaction.era_of(row["schema_id"], seq).new.id}
        if (redacted := self._after(after, seq)) != after:
            new["schema"] = json.dumps(redacted, ensure_ascii=False, separators=(",", ":"))
        return {**new, "schema_id": TableSchema.from_dict(redacted).id}

    def _yet_to_change(self, schema_id: str, seq: Decimal) -> RedactedEra | None:
        """The era of a row, if the row is not as that era's are to be."""
        era = self._redaction.era_of(schema_id, int(seq))
        return era if schema_id == era.old.id != era.new.id else None

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row as it is to be."""
        if row["op"] == Op.SCHEMA.value:
            return self._schema_row(row)
        if (era := self._yet_to_change(row["schema_id"], row["seq"])) is None:
            return row
        images = {name: self._image(era, row[name]) for name in _IMAGES} if row["op"] in _ROWS else {}
        return {**row, **images, "schema_id": era.new.id}

    def _image(self, era: RedactedEra, image: Mapping[str, bytes] | None) -> Mapping[str, bytes] | None:
        if image is None:
            return None
        masks = self._masks_of(era)
        held = fields(image["value"], image["metadata"])
        if not masks.keys() & held.keys():
            return image
        kept = {}
        for name, value in held.items():
            mask = masks.get(name, _unchanged)
            if mask is not None:
                kept[name] = mask(value)
        value, metadata = object_of(kept)
        return {"value": value, "metadata": metadata}

    def _masks_of(self, era: RedactedEra) -> Mapping[str, Masking | None]:
        """What makes of the values of each hidden column what they are to be; None removes them."""
        if era.seq not in self._masks:
            columns = {column.name: column for column in era.old.columns}
            self._masks[era.seq] = {
                name: None if mask == REMOVED else masking(columns[name], mask, self._salt)
                for name, mask in era.hidden.items()
            }
        return self._masks[era.seq]

    def _schema_row(self, row: dict[str, Any]) -> dict[str, Any]:
        seq = int(row["seq"])
        before, after = (image and decode(image["value"], image["metadata"]) for image in (row["before"], row["after"]))
        if after.get("columns") is not None:
            new = self._after(after, seq)
            schema_id = TableSchema.from_dict(new).id
        else:
            new = {**after, "statement": self._statement(after.get("statement"), seq)}
            schema_id = self._redaction.era_of(row["schema_id"], seq).new.id
        old = before and {**before, **_plain(self._redaction.era_of(TableSchema.from_dict(before).id, seq).new)}
        images = {"before": (before, old), "after": (after, new)}
        changed = {name: _variant(now) for name, (was, now) in images.items() if was != now}
        return {**row, **changed, "schema_id": schema_id}

    def _after(self, after: Mapping[str, Any], seq: int) -> dict[str, Any]:
        """The schema that came into force at `seq`, with what is said of the change, as it is to be."""
        schema_id = TableSchema.from_dict(dict(after)).id
        era = self._redaction.era_of(schema_id, seq + 1)
        new = {**after, "statement": self._statement(after.get("statement"), seq)}
        if schema_id != era.new.id:  # it was not redacted yet
            new |= _plain(era.new)
            if "filled" in new:
                new["filled"] = dict(self._filled(era, new["filled"]))
        return new

    def _filled(self, era: RedactedEra, filled: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """What all rows held in new columns: of a hidden one what its mask makes of a text, and of others nothing."""
        columns = {column.name: column for column in era.old.columns}
        for name, text in filled.items():
            mask = era.hidden.get(name)
            if mask is None:
                yield name, text
            elif mask not in (REMOVED, NULL):
                kind = mapped(columns[name])
                if kind is not None and kind.kind is Kind.STRING:
                    yield name, masked_text(text, columns[name], mask, self._salt)

    def _statement(self, text: str | None, seq: int) -> str | None:
        """Constants may be values of a hidden column of the schema before the statement, or after it."""
        around = [era for era in self._redaction.eras if era.seq == seq]
        around += [era for era in self._redaction.eras if era.seq < seq][-1:]
        return text and (without_constants(text) if any(era.hidden for era in around) else text)


def _unchanged(value: bytes) -> bytes:
    return value


def _plain(schema: TableSchema) -> dict[str, Any]:
    """As VARIANT and JSON hold it."""
    data: dict[str, Any] = json.loads(schema.to_json())
    return data


def _variant(value: Any) -> dict[str, bytes]:
    content, metadata = encode(value)
    return {"value": content, "metadata": metadata}


def _images(images: Sequence[Mapping[str, bytes] | None]) -> pa.Array:
    """A VARIANT column; what is NULL has values all the same, as its fields cannot be NULL."""
    inner = [pa.array([(image or _NOTHING)[field.name] for image in images], field.type) for field in _VARIANT]
    mask = pa.array([image is None for image in images])
    return pa.StructArray.from_arrays(inner, fields=list(_VARIANT), mask=mask)
