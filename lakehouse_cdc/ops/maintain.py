"""Put the files of a pipeline's tables together and, if that is asked for, take away those that no version needs.

A pipeline writes small files, batch by batch. OPTIMIZE, or for tables that deltalake commits to a replacement of files
(`lake.direct.replacement`), makes few of many; it changes no row, and its commits carry no note, so nobody takes them
for a batch: silver's stream finds no row in them, positions come from the notes of the others, and the ledger's
versions stay readable.

- **Bronze** by source table, each partition in a commit of its own. It is only appended to, and an append and an
  OPTIMIZE do not conflict.
- **Silver** in the order of the key (Z-order), since a MERGE reads the files whose range of the key can hold its
  changes: files that are put together as they come, by their size, would each have all keys. That rewrites the whole
  table, so it is done only where there are many more files than its bytes need. A table that is clustered by columns
  is put in order by Delta itself, and only what is new.
- **Tombstones, schemas and the ledger** as they come.

Beside a running pipeline one of two commits to one table may fail: a MERGE or ALTER and an OPTIMIZE that read the same
files. Delta refuses the later one, whole. Then the OPTIMIZE is tried again, and at last the table is left for the next
time, which the result says; the pipeline, too, does its part again (see `silver.apply.applier`), and continues.

VACUUM deletes what was taken out of a table longer ago than Delta keeps it (seven days, unless the table says
otherwise; Delta's own check stays on). Older versions cannot be read any more, so `as_of` of them ends there. Bronze's
commits are read by version, by readers that have not applied them yet: its files stay while silver, or a table that
silver has set aside, is so far behind that it may need one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import partial

from pyspark.sql import SparkSession

from lakehouse_cdc.bronze.compaction import FILE, put_together
from lakehouse_cdc.bronze.schema_registry import STATISTICS as OF_SCHEMAS
from lakehouse_cdc.lake.catalog_folder import by_folder
from lakehouse_cdc.lake.commit_log import Commit
from lakehouse_cdc.lake.direct.newest_version import can_commit
from lakehouse_cdc.lake.engines.direct import DirectEngine
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.sessions import session_with
from lakehouse_cdc.lake.spark_errors import is_conflict
from lakehouse_cdc.lake.tables import alter, described_history, detail, exists, read, require_owner
from lakehouse_cdc.model.bronze_row import PARTITION
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Layout, Table, literal, quoted
from lakehouse_cdc.ops.reach import require_begun
from lakehouse_cdc.schema.type_registry import Kind
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.tables.ledger import STATISTICS as OF_LEDGER
from lakehouse_cdc.silver.tables.names import own_table
from lakehouse_cdc.silver.tables.progress import applied
from lakehouse_cdc.silver.tables.properties import CLUSTERED, own_properties
from lakehouse_cdc.sinks.schema_cache import Schemas

_SPARE = 8  # so many files, and twice those that its bytes need, are few enough for a silver table
_SETTINGS = {
    "spark.databricks.delta.optimize.maxFileSize": str(FILE),
    "spark.databricks.delta.optimize.minFileSize": str(FILE // 2),
    # VACUUM lists folders in so many tasks, of which there would be 10,000
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
}
Step = Callable[[], object]
_TRIES = 4
_REST_SECONDS = 2.0  # before the second try; before later ones longer
_KEEPS = timedelta(days=7)  # what Delta keeps of files that were taken out, unless a table says otherwise
_KEPT = "delta.deletedFileRetentionDuration"
_MARGIN = timedelta(days=1)
_UNORDERED = (Kind.BINARY, Kind.BOOLEAN, Kind.FLOATS, Kind.JSON)


@dataclass(frozen=True)
class Maintained:
    """One table. `conflicts` counts the tries that failed beside a running pipeline.

    `left` says why it was left as it was, or its old files were; "" where all was done. `since`: versions of it, and
    so `as_of` that rests on them, go back to there at least (binlog position and time), "" where nothing is vacuumed.
    """

    table: str
    files_before: int
    files: int
    conflicts: int = 0
    left: str = ""
    since: str = ""


def maintain(spark: SparkSession, layout: Layout, silver_checkpoint: str, *, vacuum: bool = False) -> list[Maintained]:
    """Every table of the pipeline that is there. Raises DefiniteError before the first run, and for others' tables."""
    require_begun(SparkReader(spark), layout)
    session = compacting(spark)
    jobs = list(_jobs(session, layout))
    for table, _ in jobs:
        require_owner(session, table, layout.pipeline)
    needed = _needed(session, layout, silver_checkpoint) if vacuum else ""
    results = []
    for table, steps in jobs:
        kept = needed if table == layout.changes else ""
        results.append(_table(session, table, steps, vacuum=vacuum, kept=kept))
    return results


def compacting(spark: SparkSession) -> SparkSession:
    """A session in which OPTIMIZE makes files of the right size."""
    return session_with(spark, _SETTINGS)


def _jobs(spark: SparkSession, layout: Layout) -> Iterator[tuple[Table, list[Step]]]:
    """Each table with what is to be done to it."""
    names = sorted(row[0] for row in read(spark, layout.schemas).select(PARTITION).distinct().collect())
    yield layout.changes, [partial(optimize_changes, spark, layout, name) for name in names]
    others: dict[Table, Step] = {layout.schemas: partial(optimize, spark, layout, layout.schemas)}
    if layout.silver is not None:
        others[layout.ledger] = partial(optimize, spark, layout, layout.ledger)
        beside = (layout.tombstones(name) for name in names)
        others |= {table: partial(alter, spark, table, f"OPTIMIZE {table.sql}") for table in beside}
        # a table that several go into comes once
        own = ((own_table(SparkReader(spark), layout, name), name) for name in names)
        whole = {replace(table, part=None): name for table, name in own if table is not None}
        for table, name in whole.items():
            yield table, [partial(alter, spark, table, statement) for statement in _in_order(spark, layout, name)]
    for table, step in others.items():
        if exists(spark, table):
            yield table, [step]


def optimize_changes(
    spark: SparkSession, layout: Layout, source_table: str, given_up: Callable[[], bool] = lambda: False
) -> None:
    """Put the small files of that source table in bronze together, by what the stream's commits are made by."""
    table = by_folder(spark, layout.changes)
    if can_commit(spark, table):
        put_together(table, source_table, given_up)
    else:
        alter(spark, table, f"OPTIMIZE {table.sql} WHERE {PARTITION} = {literal(source_table)}")


def optimize(spark: SparkSession, layout: Layout, table: Table) -> None:
    """The same for the table of schemas, or the ledger."""
    placed = by_folder(spark, table) if table == layout.schemas else table
    if can_commit(spark, placed):
        DirectEngine(spark).put_together(placed, OF_SCHEMAS if table == layout.schemas else OF_LEDGER)
    else:
        alter(spark, table, f"OPTIMIZE {table.sql}")


def _in_order(spark: SparkSession, layout: Layout, name: str) -> list[str]:
    """What puts a silver table into the order of its key; nothing where it has about as few files as it needs."""
    table = layout.silver_table(name)
    if CLUSTERED in require_owner(spark, table, layout.pipeline):
        return [f"OPTIMIZE {table.sql}"]
    size, files = size_of(spark, table)
    if files <= _SPARE + 2 * (1 + size // FILE):
        return []
    says = own_properties(SparkReader(spark), layout, name)
    shape = says.frozen.schema_id if says.frozen is not None else says.schema_id
    if shape is None:
        return [f"OPTIMIZE {table.sql}"]
    schemas = Schemas(layout)
    schemas.learn(spark, [shape], lambda: read(spark, layout.changes).limit(0))
    schema = says.transform.renamed(schemas[shape])
    key = [quoted(c.name) for c in schema.key_columns if require(c, schema.name).kind not in _UNORDERED]
    key += [quoted(table.own.row_hash)] if says.form.counts_copies else []
    return [f"OPTIMIZE {table.sql}" + (f" ZORDER BY ({', '.join(key)})" if key else "")]


def _table(spark: SparkSession, table: Table, steps: Sequence[Step], *, vacuum: bool, kept: str) -> Maintained:
    before = size_of(spark, table)[1]
    conflicts, left = 0, ""
    for step in steps:
        failed = patiently(step)
        conflicts += failed
        if failed == _TRIES:
            left = "the pipeline wrote to it each time; it comes next time"
    since = ""
    if vacuum and not kept:
        spark.sql(f"VACUUM {table.sql}").collect()
        since = _readable_since(spark, table)
    return Maintained(str(table), before, size_of(spark, table)[1], conflicts, left or kept, since)


def patiently(do: Callable[[], object]) -> int:
    """How often it failed because of somebody else's commit: `_TRIES` times, and it is not done."""
    for failed in range(_TRIES):
        if failed:
            time.sleep(_REST_SECONDS * failed)
        if _goes_through(do):
            return failed
    return _TRIES


def _goes_through(do: Callable[[], object]) -> bool:
    try:
        do()
    except Exception as error:
        if not is_conflict(error):
            raise
        return False
    return True


def size_of(spark: SparkSession, table: Table) -> tuple[int, int]:
    """Its bytes and its files."""
    of_table = detail(spark, table)
    return int(of_table["sizeInBytes"] or 0), int(of_table["numFiles"] or 0)


def _readable_since(spark: SparkSession, table: Table) -> str:
    """Where the version is that was the newest when what VACUUM keeps begins, as far as its commits say."""
    horizon = _horizon(spark, table)
    noted = [(at, note) for _, at, note in _noted(spark, table)]
    older = [one for one in noted if one[0] <= horizon]
    if not noted:
        return ""
    at, note = older[0] if older else noted[-1]
    return f"{note.source_point.file}:{note.source_point.pos} ({at.isoformat(timespec='seconds')})"


def _needed(spark: SparkSession, layout: Layout, silver_checkpoint: str) -> str:
    """Why bronze's old files must stay, "" where they need not."""
    if layout.silver is None:
        return ""
    silver = applied(SparkReader(spark), layout, silver_checkpoint)
    if silver is None:
        return "silver has applied nothing yet"
    horizon = _horizon(spark, layout.changes) + _MARGIN
    versions = {version: at for version, at, _ in _noted(spark, layout.changes)}
    needed = {"silver": silver.bronze_version}
    for row in read(spark, layout.schemas).select(PARTITION).distinct().collect():
        if own_table(SparkReader(spark), layout, row[0]) is not None:
            quarantine = own_properties(SparkReader(spark), layout, row[0]).quarantine
            if quarantine is not None and quarantine.after is not None:
                needed[row[0]] = quarantine.after
    for who, version in sorted(needed.items()):
        if any(at <= horizon for later, at in versions.items() if later > version):
            return f"{who} has not applied all that is as old as what would go"
    return ""


def _horizon(spark: SparkSession, table: Table) -> datetime:
    """What was taken out of the table before that may be deleted."""
    setting = (detail(spark, table)["properties"] or {}).get(_KEPT)
    if setting is None:
        return datetime.now(timezone.utc) - _KEEPS
    [row] = spark.sql(f"SELECT current_timestamp() - {setting}").collect()  # Delta takes only an interval there
    horizon: datetime = row[0]
    return horizon.astimezone(timezone.utc)


def _noted(spark: SparkSession, table: Table) -> list[tuple[int, datetime, CommitNote]]:
    """The commits of the pipeline's, newest first: version, time and note."""
    said = described_history(spark, table).select("version", "timestamp", "userMetadata", "operationParameters")
    commits = [(row[1].astimezone(timezone.utc), Commit.of(row[0], row[2], None, row[3])) for row in said.collect()]
    return [(one.version, at, one.note) for at, one in commits if one.note is not None]
