"""The rows of a table as `verify` reads them from the source, and as the loader does, in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.spark.stream import MySqlCdcSource
from lakehouse_cdc.source.state.offset_codec import restored
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.verify.reading import BY_IMAGE, Texts, unheld
from lakehouse_cdc.verify.settling import settled
from lakehouse_cdc.verify.text_source import MySqlTextReader
from tests.support.source.driver import COLUMNS, Driver
from tests.support.source.stage import Stage

Rows = list[dict[str, Any]]


def offset_of(stage: Stage, driver: Driver, table: str = "t") -> Offset:
    """Where the stream stands, of one table alone, settled."""
    options = SourceOptions.parse(stage.options())
    found = restored(driver.offset, SchemaStore(options.schema_folder))
    assert found is not None
    name = stage.name(table)
    return settled(replace(found, tables={name: found.tables[name]}), options)


def printed(stage: Stage, offset: Offset, between: Callable[[], None] = lambda: None, **more: str) -> Rows:
    """The rows at the offset as the server prints them; `between` is called when the chunks are planned."""
    given = stage.options(chunkRows="1000", **more) | {"asOf": json.dumps(offset.to_json())}
    reader = MySqlTextReader(given)
    parts = reader.partitions()
    between()
    return named(reader.texts, [batch for part in parts for batch in reader.read(part)])


def loaded(stage: Stage, offset: Offset, **more: str) -> Rows:
    """The rows at the offset as the loader reads them, in the same form."""
    given = stage.options(chunkRows="1000", **more) | {"asOf": json.dumps(offset.to_json())}
    reader = MySqlCdcSource(given).reader(COLUMNS)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    images = [row["after"] for batch in batches for row in batch.to_pylist()]
    return imaged(stage, offset, [decode(image["value"], image["metadata"]) for image in images])


def imaged(stage: Stage, offset: Offset, images: list[dict[str, Any]]) -> Rows:
    """Decoded images in the same form."""
    options = SourceOptions.parse(stage.options())
    [state] = offset.tables.values()
    texts = Texts(SchemaStore(options.schema_folder).get(state.schema), options.mask_salt, exact_json=False)
    return named(texts, [texts.of_images(images)])


def named(texts: Texts, batches: list[pa.RecordBatch]) -> Rows:
    """Rows by the columns' names, in the order of the first column, if that is a number."""
    names = [c.name for c in texts.schema.captured]
    rows = [row for batch in batches for row in batch.to_pylist()]
    found = [
        {**{name: row[f"c{i}"] for i, name in enumerate(names)}, BY_IMAGE: row[BY_IMAGE],
         "not representable": sorted(name for i, name in enumerate(names) if row.get(unheld(i)))}
        for row in rows
    ]  # fmt: skip
    return sorted(found, key=lambda row: (str(row[names[0]]).zfill(20), str(row)))


def differing(one: Rows, other: Rows) -> set[str]:
    """The columns in which two lists of the same rows differ."""
    assert len(one) == len(other)
    return {name for a, b in zip(one, other, strict=True) for name in a if name != BY_IMAGE and a[name] != b[name]}
