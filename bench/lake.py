"""A lakehouse on disk in which a table is brought from batch to batch as a running pipeline does it.

Bronze's batches are written by the sink's own function, with a checkpoint beside it; silver's by its `Applier` and
`Ledger`, which live as long as the lake is open, as they do within a stream.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.rows import ORDERS, UUID
from lakehouse_cdc.bronze.sink import write_batch
from lakehouse_cdc.bronze.tables import create_bronze
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.commits import history
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Layout, Table
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.forms import CURRENT, HISTORY
from lakehouse_cdc.silver.tables.ledger import Ledger

_QUERY = "bench"


@dataclass(frozen=True)
class Batch:
    """What one batch of silver took: seconds, and the versions (first, last] of the table that it made."""

    seconds: float
    first: int
    last: int


class Lake:
    """The tables of one pipeline in `folder`; `scd` says what silver keeps of the one table's rows."""

    def __init__(self, spark: SparkSession, folder: Path, scd: int) -> None:
        self._spark, self._folder = spark, folder
        self.layout = Layout("bench", bronze="bronze", silver=f"silver{scd}", path=str(folder / "lake"))
        self._checkpoint = Checkpoint(str(folder / "checkpoint"))
        policy = Policy(form=HISTORY if scd == 2 else CURRENT)
        self._applier = Applier(spark, self.layout, policy=lambda _: policy)
        self._ledger = Ledger(spark, self.layout)

    @property
    def silver(self) -> Table:
        """The silver table."""
        return self.layout.silver_table(ORDERS.name)

    def begin(self) -> None:
        """Make bronze's tables, and the checkpoint."""
        (self._folder / "checkpoint" / "offsets").mkdir(parents=True)
        (self._folder / "checkpoint" / "metadata").write_text(json.dumps({"id": _QUERY}))
        create_bronze(self._spark, self.layout)

    def write_bronze(self, rows: DataFrame, pos: int) -> None:
        """Append a batch that ends at a position; positions count the batches."""
        offset = {"epoch": 1, "server_uuid": UUID, "file": "binlog.000001", "pos": pos, "gtid": "", "commit_ts": 7}
        (self._folder / "checkpoint" / "offsets" / str(pos)).write_text("v1\n{}\n" + json.dumps(offset))
        write_batch(self._spark, rows, pos, self.layout, self._checkpoint)

    def write_silver(self, *, first: bool = False) -> Batch:
        """Bring silver up to bronze's newest commit, the only one that it lacks (`first`: it lacks all)."""
        commit = history(self._spark, self.layout.changes, 1)[0]
        assert commit.note is not None
        before = -1 if first else self.newest
        versions = Versions(None if first else commit.version - 1, commit.version)
        note = CommitNote("bench", _QUERY, commit.note.batch, commit.note.source_point, commit.version)
        began = time.monotonic()
        touched = self._applier.apply(versions, note)
        self._ledger.enter(note, {}, touched)
        return Batch(time.monotonic() - began, before, self.newest)

    @property
    def newest(self) -> int:
        """The newest version of the silver table."""
        return history(self._spark, self.silver, 1)[0].version


def copy(source: Path, target: Path) -> None:
    """A lake as it is, to be changed: data files, which nobody changes, are shared with it."""

    def take(file: str, to: str) -> None:
        if file.endswith((".parquet", ".bin")) and "_delta_log" not in file:
            os.link(file, to)
        else:
            shutil.copy2(file, to)

    shutil.copytree(source, target, copy_function=take)
