"""What a report of a pipeline shows: gathered from its metrics table, bronze's schemas, its checkpoint and its notes.

Nothing is written, and the source is not asked. A statement is shown without its constants, which may be values of
rows.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.files.choice import Location
from lakehouse_cdc.lake.readers.port import TableReader
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.seq import unpack
from lakehouse_cdc.model.table_layout import Layout, Table
from lakehouse_cdc.ops import last_error, verify_history
from lakehouse_cdc.ops.status import snapshot_of
from lakehouse_cdc.source.state.offset_codec import restored
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.sql.redaction import without_constants
from lakehouse_cdc.telemetry.report.history import Check, Ddl, Entry, History, TableLine

_DAY = 86_400.0
_METRICS = (
    "at", "layer", "position", "seconds", "lag_seconds", "lag_bytes", "retention_seconds", "ops", "tables",
)  # fmt: skip
_SCHEMAS = ("source_table", "seq", "position", "statement")
_SHOWN = {"running": "reading"}  # the word of `status`: that of a report


def gathered(
    layout: Layout, reader: TableReader, state: Location, schemas: str, bronze: str, source: str, days: float
) -> History:
    """The last `days` of a pipeline: of what each batch was, where the metrics table says it, and of its tables now.

    `state` is the place of its checkpoints, `bronze` that of bronze's, `schemas` the source's; `source` is what the
    page calls the source.
    """
    until = time.time()
    since = until - days * _DAY
    entries, notes = _entries(layout, reader, since), []
    if not entries:
        notes.append(
            f"No batches of the last {days:g} days are known: set target.metrics to true, and run. Tables, schema"
            " changes and results of verify are shown all the same."
        )
    offset = _offset(Checkpoint(bronze), schemas)
    stopped = last_error.read(state)
    checks = [
        Check(one.at, one.layer, one.verified, one.rows, one.tables, one.unequal, one.not_compared)
        for one in verify_history.read(state)
        if one.at >= since
    ]
    point = None if offset is None else offset.position
    return History(
        layout.pipeline, source, version("lakehouse-cdc"), since, until, "" if point is None else str(point),
        entries, [*_tables(offset)], _ddl(layout, reader, entries), checks,
        "" if stopped is None else stopped.sentence, notes,
    )  # fmt: skip


def _offset(place: Checkpoint, schemas: str) -> Offset | None:
    batch = place.last_commit()
    return None if batch is None else restored(place.offset(batch), SchemaStore(schemas))


def _entries(layout: Layout, reader: TableReader, since: float) -> list[Entry]:
    recent = [row for row in _rows(reader, layout.metrics, _METRICS) if row["at"].timestamp() >= since]
    # what verify has compared is at no position
    return sorted((_entry(row) for row in recent if row["position"] is not None), key=lambda one: one.at)


def _rows(reader: TableReader, table: Table, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """None where there is no table."""
    return reader.rows(table, columns) if reader.exists(table) else iter(())


def _entry(row: Mapping[str, Any]) -> Entry:
    place = row["position"]
    return Entry(
        row["at"].timestamp(), row["layer"], (place["epoch"], place["file"], place["pos"]), row["seconds"],
        row["lag_seconds"], row.get("lag_bytes"), row.get("retention_seconds"),
        dict(row["ops"] or ()), dict(row["tables"] or ()),
    )  # fmt: skip


def _tables(offset: Offset | None) -> Iterator[TableLine]:
    if offset is None:
        return
    for name, state in sorted(offset.tables.items()):
        word = snapshot_of(state)
        yield TableLine(name, _SHOWN.get(word, word), offset.quarantined.get(name, ""))


def _ddl(layout: Layout, reader: TableReader, entries: list[Entry]) -> list[Ddl]:
    """The statements, newest first, with the time of the first batch of bronze that reached them."""
    batches = sorted((_order(entry.place), entry.at) for entry in entries if entry.layer == "bronze")
    statements = []
    for row in sorted(_rows(reader, layout.schemas, _SCHEMAS), key=lambda row: row["seq"], reverse=True):
        if not row["statement"]:
            continue
        place = row["position"]
        at = _reached(batches, _order((unpack(int(row["seq"])).epoch, place["file"], place["pos"])))
        what = without_constants(row["statement"])
        statements.append(Ddl(at, row["source_table"], what, f"{place['file']}:{place['pos']}"))
    return statements


def _order(place: tuple[int, str, int]) -> tuple[int, int, int]:
    epoch, file, pos = place
    return epoch, Position(file, pos).number, pos


def _reached(batches: list[tuple[tuple[int, int, int], float]], place: tuple[int, int, int]) -> float | None:
    """When; None where that was before the first batch that is known, or is not known."""
    index = bisect.bisect_left(batches, (place, 0.0))
    return batches[index][1] if 0 < index < len(batches) else None
