"""The position of a pipeline, as its checkpoints and tables say, and how far that is behind its source.

Everything is read, nothing is written, so it may be asked while the pipeline runs. The numbers are of slightly
different moments then; positions are exact, each for itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from lakehouse_cdc.bronze.hidden_columns import redactions_of
from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.files.choice import Location
from lakehouse_cdc.model.bronze_row import PARTITION
from lakehouse_cdc.model.commit_note import SourcePoint
from lakehouse_cdc.model.log_retention import Headroom
from lakehouse_cdc.model.source_lag import Lag, lag
from lakehouse_cdc.model.table_layout import Layout, Table
from lakehouse_cdc.model.table_state import Cursor, Dropped, TableState
from lakehouse_cdc.model.way_out import silver_reason
from lakehouse_cdc.mysql.log_view import LogView
from lakehouse_cdc.ops.last_error import LastError
from lakehouse_cdc.ops.source_watch import caught_up_at
from lakehouse_cdc.schema.column_choice import Choice
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.tables.known_schemas import past_schemas, schemas_in_force
from lakehouse_cdc.silver.tables.names import SilverNames, own_table
from lakehouse_cdc.silver.tables.progress import applied
from lakehouse_cdc.silver.tables.properties import own_properties
from lakehouse_cdc.source.requests.requests import Signals
from lakehouse_cdc.source.state.offset_codec import restored
from lakehouse_cdc.source.state.state_store import SchemaStore

if TYPE_CHECKING:
    from lakehouse_cdc.lake.readers.port import TableReader

Snapshot = Literal["waiting", "running", "done", "dropped", "left out", "quarantined"]


@dataclass(frozen=True)
class TableStatus:
    """One table; `dropped` is one that the source has no more, `quarantined` one that is not followed, for that reason.

    `cursor` is the key below which a running snapshot has read; silver None: there is no such table. `ignored` are the
    source's columns that a frozen silver table does not hold. `asked`: the table, or some of its keys, is to be read
    again. `clear` are the columns that the configuration hides, and of which bronze has values from before. `engine` is
    what keeps the silver table, "" where there is none.
    """

    snapshot: Snapshot
    cursor: Cursor
    bronze_rows: int
    silver_rows: int | None
    quarantined: str = ""
    ignored: tuple[str, ...] = ()
    asked: bool = False
    clear: tuple[str, ...] = ()
    engine: str = ""


@dataclass(frozen=True)
class Status:
    """All of it; `bronze` and `silver` are None before their first batch, `lag` and `retention` where the source was
    not asked: bronze's lag, and how long the binlog is there that it still needs.

    `uncaptured` is what matches and is not captured, with the reasons; None where the source was not asked. `texts`
    counts the statements logged as text that were `passed_over`, and those for which tables were `read_again`.
    `passed` are the ends of statements that the user wants to be passed; `asked_patterns` are those of tables that
    signals have added, or left out (`!`). `last_error` ended the last run.
    Of a pipeline from topics: `unread` are the messages of each that bronze has not got, about, None where the brokers
    were not asked; `dead_letters` counts what was set aside, by reason.
    """

    pipeline: str
    bronze: SourcePoint | None = None
    silver: SourcePoint | None = None
    lag: Lag | None = None
    retention: Headroom | None = None
    tables: dict[str, TableStatus] = field(default_factory=dict)
    uncaptured: dict[str, str] | None = None
    texts: dict[str, int] = field(default_factory=dict)
    passed: tuple[str, ...] = ()
    asked_patterns: tuple[str, ...] = ()
    last_error: LastError | None = None
    unread: dict[str, int] | None = None
    dead_letters: dict[str, int] = field(default_factory=dict)
    of_topics: bool = False

    @property
    def healthy(self) -> bool:
        """Whether the last run ended by no error, and no table is quarantined."""
        return self.last_error is None and not any(table.quarantined for table in self.tables.values())

    def to_json(self) -> dict[str, Any]:
        """Plain data; `position` is bronze's."""
        data = asdict(self)
        return {"healthy": self.healthy, "position": data["bronze"], **data}


def status(
    reader: TableReader,
    layout: Layout,
    bronze_checkpoint: str,
    silver_checkpoint: str,
    schemas: str,
    logs: LogView | None,
    choice: Choice,
    policy: Callable[[str], Policy] = lambda _: Policy(),
    *,
    noted: Location | None = None,
) -> Status:
    """The state of the pipeline.

    `schemas` is the source's folder beside the checkpoints; `logs` is what the server says of its binlog (None: not
    known); `choice` is what the configuration hides; in the place `noted` runs note when there was nothing more.
    """
    place = Checkpoint(bronze_checkpoint)
    batch = place.last_commit()
    store = SchemaStore(schemas)
    offset = None if batch is None else restored(place.offset(batch), store)
    if batch is None or offset is None:
        return Status(layout.pipeline)
    point = SourcePoint.of_offset(place.offset(batch))
    # each row of schemas is one of changes, too, which was there first: so they are read first
    schema_rows = [*reader.rows(layout.schemas, [PARTITION, "seq", "schema"])]
    silver = applied(reader, layout, silver_checkpoint) if layout.silver is not None else None
    rows = Counter(reader.counts(layout.changes, PARTITION))
    rows.subtract(row[PARTITION] for row in schema_rows)
    signals = Signals(schemas)
    asked = {
        *signals.requests(),
        *signals.repairs(),
        *(name for name, state in offset.tables.items() if state.repair_asked),
    }
    hidden = redactions_of(schema_rows, choice)
    tables: dict[str, TableStatus] = {}
    for name, state in sorted(offset.tables.items()):
        clear = tuple(hidden[name].columns) if name in hidden else ()
        table = TableStatus(
            snapshot_of(state), state.cursor, rows[name], None, offset.quarantined.get(name, ""), clear=clear
        )
        tables[name] = replace(table, asked=name in asked)
    later = [name for start in offset.starts for name, schema in start.tables.items() if schema]
    tables |= {name: TableStatus("waiting", [], 0, None) for name in sorted(later)}
    if layout.silver is not None:
        tables = with_silver(reader, layout, tables, policy)
    if logs is not None and logs.server != point.server_uuid:
        logs = None  # positions of one server mean nothing on another
    seen = 0.0 if noted is None else caught_up_at(noted, point)
    lagging = None if logs is None else lag(point, logs.sizes, logs.now, caught_up_at=seen)
    kept = None
    if logs is not None:
        with suppress(CdcError):  # a file may be purged while it is asked for
            kept = logs.headroom(offset.oldest_needed.file)
    texts = dict(zip(("passed_over", "read_again"), offset.texts, strict=True))
    silver_point = None if silver is None else silver.source_point
    passed = tuple(map(str, sorted(signals.passed(offset.epoch))))
    return Status(
        layout.pipeline, point, silver_point, lagging, kept, tables, texts=texts, passed=passed,
        asked_patterns=signals.patterns,
    )  # fmt: skip


def snapshot_of(state: TableState) -> Snapshot:
    """How far a table is, in a word."""
    if not state.captured:
        return "dropped" if isinstance(state.phase, Dropped) else "quarantined"
    if state.complete:
        return "done"
    return "running" if state.begun else "waiting"


def with_silver(
    reader: TableReader, layout: Layout, tables: Mapping[str, TableStatus], policy: Callable[[str], Policy]
) -> dict[str, TableStatus]:
    """The same with what silver has of each table, or why it has none."""
    names = SilverNames(layout, tables, policy)
    places = {name: own_table(reader, layout, name) for name in tables}
    wanted = [name for name, one in tables.items() if one.bronze_rows and not one.quarantined]
    lacking = [name for name in wanted if places[name] is None and tables[name].snapshot != "dropped"]
    in_force = schemas_in_force(reader, layout, lacking) if lacking else {}
    met = {name: schemas for name, known in in_force.items() if (schemas := past_schemas(known))}
    refused = {name: names.without(reader, schemas) for name, schemas in met.items()}
    with_silver = {}
    for name, table in tables.items():
        if (place := places[name]) is not None:
            table = _held(reader, layout, name, place, table)
        elif (reason := refused.get(name)) is not None:
            table = replace(table, quarantined=silver_reason(reason))
        with_silver[name] = table
    return with_silver


def _held(reader: TableReader, layout: Layout, name: str, place: Table, table: TableStatus) -> TableStatus:
    held = own_properties(reader, layout, name)
    rows = reader.count(place, held.form.ended(place.own))
    if held.quarantine is not None and not table.quarantined and table.snapshot != "dropped":
        table = replace(table, snapshot="quarantined", quarantined=held.quarantine.reason)
    ignored = held.frozen.ignored if held.frozen is not None else ()
    return replace(table, silver_rows=rows, ignored=ignored, engine=held.engine)
