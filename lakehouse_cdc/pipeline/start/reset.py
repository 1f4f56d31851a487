"""Begin again: delete what a pipeline has made, or its checkpoints alone, and nothing that is anybody else's.

Tables are this pipeline's if their first commit says so (see `lake.tables`), whatever the configuration names by now:
so tables of sources that were dropped, or renamed, go with the others.

The order is such that a crash at any moment leaves something from which `run` or `reset` can continue. The checkpoint
goes first: a run then begins a new epoch over the tables. Silver goes from the ledger on, each table before its
tombstones: a run then builds again from bronze what is gone. Bronze goes last, the change table after all others. Each
folder is renamed before it is deleted, so none is ever there in part. In a bucket it says that it is being deleted (see
`lake.files.bucket`), which is brought to its end before anything else is looked at.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.lake.cleanup.trash import empty_trash, throw_away
from lakehouse_cdc.lake.files.choice import parted
from lakehouse_cdc.model.place import is_url
from lakehouse_cdc.model.table_layout import PIPELINE, Layout, Table, quoted
from lakehouse_cdc.ops import source_watch, verify_history
from lakehouse_cdc.pipeline.context import Folders
from lakehouse_cdc.pipeline.start import comment_memory, last_look

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_cdc.lake.readers.port import TableReader


_FILES = (comment_memory.NAME, last_look.NAME, verify_history.NAME, source_watch.NAME)


@dataclass(frozen=True)
class Deletion:
    """One thing to delete: a place of checkpoints (`table` is None), or a table.

    `size` is in bytes, of all files in the place, or of the table's newest version where it has no folder here.
    """

    kind: str  # checkpoint, silver or bronze
    where: str
    size: int
    rows: int | None = None
    table: Table | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"kind": self.kind, "where": self.where, "bytes": self.size, "rows": self.rows}


class Reset:
    """What is to be deleted, in this order. To be used under the pipeline's lock, while this process runs no stream.

    `reader` looks at the tables; `spark` is asked for where a catalog has them.
    """

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        reader: TableReader,
        layout: Layout,
        folders: Folders,
        *,
        keep_tables: bool,
    ) -> None:
        self._spark = spark
        self._state = parted(folders.bronze)[0]
        every = (folders.bronze, folders.silver, folders.schemas, *folders.sinks)
        sizes = {location: self._state.size(parted(location)[1]) for location in every}
        self.deletions = [
            Deletion("checkpoint", location, size) for location, size in sizes.items() if size is not None
        ]
        if not keep_tables:
            self.deletions += _tables(spark, reader, layout)
        self._places = _folders(layout, keep_tables)
        in_store = is_url(layout.path) and not keep_tables
        self._store_places = [f"{layout.path}/{schema}" for schema in _schemas(layout)] if in_store else []
        self._folders_in_store = [*self._store_places, *filter(is_url, [self._state.where])]

    def execute(self) -> None:
        """Delete it, and what is remembered of the settings and the comments of silver's tables, of what
        `verify` found, and of when the source was caught up with."""
        for name in _FILES:
            self._state.delete(name)
        for one in self.deletions:
            if one.table is None:
                self._state.throw_away(parted(one.where)[1])
            elif _is_in_folder(one.table):
                throw_away(one.where)
            else:
                from lakehouse_cdc.lake.tables import delete

                delete(self._spark(), one.table)
        self._state.empty_trash()
        for place in self._places:
            empty_trash(place)
        for place in self._store_places:
            _finish_deletions(self._spark(), place)
        for place in self._folders_in_store:
            _delete_folder_object(self._spark(), place)


def require_no_stream(spark: SparkSession, layout: Layout) -> None:
    """The lock is of a process; this one may be running the pipeline itself."""
    from lakehouse_cdc.lake.micro_batches import active

    names = [*active(), *(query.name or "" for query in spark.streams.active)]
    if any(name.startswith(f"{layout.pipeline}: ") for name in names):
        raise codes.PIPELINE_RUNNING.error(
            "the pipeline is running", where=layout.pipeline,
            hint="end the run first: interrupt it, or stop the queries in spark.streams.active",
        )  # fmt: skip


def _folders(layout: Layout, keep_tables: bool) -> list[str]:
    if layout.path is None or is_url(layout.path) or keep_tables:
        return []
    return [os.path.join(layout.path, schema) for schema in _schemas(layout)]


def _schemas(layout: Layout) -> list[str]:
    """Silver's first."""
    return list(dict.fromkeys(schema for schema in (layout.silver, layout.bronze) if schema is not None))


def _tables(spark: Callable[[], SparkSession], reader: TableReader, layout: Layout) -> list[Deletion]:
    """The tables of the pipeline, in the order in which they are deleted."""

    def ours(schema: str) -> Iterator[Table]:
        if is_url(layout.path):
            return _in_store(spark(), reader, layout, schema)
        if layout.path is not None:
            return _in_folder(reader, layout, Path(layout.path, schema))
        return _in_catalog(spark(), layout, schema)

    last = [layout.changes]
    first = [layout.ledger] if layout.silver is not None else []
    existing = [table for schema in _schemas(layout) for table in sorted(ours(schema), key=str)]
    ordered = [t for t in first if t in existing] + [t for t in existing if t not in first and t not in last]
    ordered += [t for t in last if t in existing]
    return [_deletion(spark, reader, layout, table) for table in ordered]


def _deletion(spark: Callable[[], SparkSession], reader: TableReader, layout: Layout, table: Table) -> Deletion:
    kind = "silver" if table.schema == layout.silver else "bronze"
    size = _bytes(str(table.path)) if _is_in_folder(table) else _bytes_by_spark(spark(), table)
    return Deletion(kind, str(table), size, reader.count(table), table)


def _in_folder(reader: TableReader, layout: Layout, folder: Path) -> Iterator[Table]:
    names: Sequence[str] = [p.name for p in folder.iterdir() if p.is_dir()] if folder.is_dir() else []
    for name in names:
        table = Table(folder.name, unquote(name), root=layout.path)
        if table.path == str(folder / name) and _is_ours(reader, layout, table):
            yield table


def _is_in_folder(table: Table) -> bool:
    return table.path is not None and not is_url(table.path)


def _in_store(spark: SparkSession, reader: TableReader, layout: Layout, schema: str) -> Iterator[Table]:
    from lakehouse_cdc.lake.object_store import ObjectStore

    store, place = ObjectStore(spark), f"{layout.path}/{schema}"
    for name in store.names(place):
        table = Table(schema, unquote(name.rstrip("/")), root=layout.path)
        if name.endswith("/") and f"{table.path}/" == f"{place}/{name}" and _is_ours(reader, layout, table):
            yield table


def _finish_deletions(spark: SparkSession, place: str) -> None:
    """As `empty_trash` does for a folder."""
    from lakehouse_cdc.lake.object_store import ObjectStore

    store = ObjectStore(spark)
    for name in store.names(place):
        store.finish_deletion(f"{place}/{name.rstrip('/')}")


def _delete_folder_object(spark: SparkSession, place: str) -> None:
    from lakehouse_cdc.lake.object_store import ObjectStore

    ObjectStore(spark).delete_folder_object(place)


def _is_ours(reader: TableReader, layout: Layout, table: Table) -> bool:
    try:
        return reader.exists(table) and reader.properties(table).get(PIPELINE) == layout.pipeline
    except DefiniteError:  # something else lies there, which is nobody's table
        return False


def _in_catalog(spark: SparkSession, layout: Layout, schema: str) -> Iterator[Table]:
    from lakehouse_cdc.lake.tables import detail

    known = f"{quoted(layout.catalog or '')}.{quoted(schema)}"
    for row in spark.sql(f"SHOW TABLES IN {known}").collect():
        if not row["isTemporary"]:
            table = Table(schema, row["tableName"], catalog=layout.catalog)
            of_table = detail(spark, table)
            if of_table["format"] == "delta" and of_table["properties"].get(PIPELINE) == layout.pipeline:
                yield table


def _bytes_by_spark(spark: SparkSession, table: Table) -> int:
    from lakehouse_cdc.lake.tables import detail

    return int(detail(spark, table)["sizeInBytes"])


def _bytes(folder: str) -> int:
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)
