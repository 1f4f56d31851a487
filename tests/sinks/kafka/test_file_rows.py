"""The rows that tasks read of files are those that are in them, in the order of seq, path and place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_cdc.images.typed.columns import NotOurs
from lakehouse_cdc.lake.direct.file_listing import Listed
from lakehouse_cdc.sinks.kafka.file_order import File, pieces
from lakehouse_cdc.sinks.kafka.file_rows import looked_at, rows_of
from lakehouse_cdc.sinks.kafka.task_records import ROW
from tests.support.bronze_rows import random_rows
from tests.support.rounds import rounds

Placed = tuple[int, str, int, dict[str, Any]]  # seq, path of the file, place in it, the row

_SAME = ("op", "key", "before", "after", "schema_id")
_LEAST = (5, 2**70, 10**36)  # of which both halves count


def file_in(folder: Path, chosen: Random, path: str) -> tuple[File, list[Placed]]:
    """A file of rows in no order, in row groups of any length."""
    rows = random_rows(chosen, chosen.randrange(1, 80))
    least, width = chosen.choice(_LEAST), chosen.choice((0, 3, 10**20))
    seqs = [least + chosen.randrange(width + 1) for _ in range(rows.num_rows)]
    columns = {name: rows.column(name) for name in rows.schema.names if name != "source_table"}
    columns["seq"] = pa.array(map(Decimal, seqs), pa.decimal128(38, 0))
    table = pa.table(columns, pa.schema([rows.schema.field(name) for name in columns]))
    (folder / path).parent.mkdir(exist_ok=True)
    pq.write_table(table, folder / path, row_group_size=chosen.choice((1, 7, 1000)), store_schema=False)
    placed = [(seq, path, place, row) for place, (seq, row) in enumerate(zip(seqs, table.to_pylist(), strict=True))]
    return File(path, "shop.t", len(seqs), table.nbytes, min(seqs), max(seqs)), placed


def as_sent(placed: Placed) -> dict[str, Any]:
    seq, _, _, row = placed
    position: Mapping[str, Any] = row["position"] or {}
    at = row["commit_ts"]
    return {
        "seq": str(seq), "source_table": "shop.t", **{name: row[name] for name in _SAME},
        "commit_us": None if at is None else pa.scalar(at, pa.timestamp("us", "UTC")).value,
        **{name: position.get(name) for name in ("file", "pos", "gtid")},
    }  # fmt: skip


def test_rows_of_files_are_in_order(tmp_path: Path, seed: int) -> None:
    chosen = Random(seed)
    for number in range(rounds(30)):
        made = [file_in(tmp_path, chosen, f"source_table=shop.t/{number}-{n}") for n in range(chosen.randrange(1, 5))]
        files, placed = [file for file, _ in made], [row for _, rows in made for row in rows]
        cut = pieces(files, rows=chosen.choice((1, 5, 30, 1000)), size=10**9, most=10**6)
        assert cut is not None
        batches = [batch for piece in cut for batch in rows_of(str(tmp_path), piece)]
        assert {tuple(batch.schema.names) for batch in batches} == {ROW}
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert rows == [as_sent(one) for one in sorted(placed, key=lambda one: one[:3])]


def listed(folder: Path, ops: str, without: str = "", bounds: tuple[Any, Any] = (1, 9)) -> Listed:
    """A file of such rows, as Delta's log has it; without a column."""
    rows = random_rows(Random(1), len(ops)).drop_columns(["source_table"])
    rows = rows.set_column(1, "op", pa.array([*ops]))
    pq.write_table(pa.table(rows).drop_columns([without] if without else []), folder / "file", store_schema=False)
    stats = {"minValues": {"seq": bounds[0]}, "maxValues": {"seq": bounds[1]}}
    return Listed("file", len(ops), {"source_table": "shop.t"}, stats)


def test_what_tasks_can_read(tmp_path: Path) -> None:
    """The tables and schemas are those of row changes alone."""
    one = listed(tmp_path, "s")
    files, changes = looked_at(str(tmp_path), [one])
    assert [(file.table, file.rows, file.least, file.greatest) for file in files] == [("shop.t", 1, 1, 9)]
    assert files[0].size > 100
    assert not changes
    files, changes = looked_at(str(tmp_path), [listed(tmp_path, "srcud" * 5)])
    assert changes == {("shop.t", "a"), ("shop.t", "b")}
    by_statistics = {"op": "r", "schema_id": "z"}
    ours = replace(one, stats={key: {**one.stats[key], **by_statistics} for key in one.stats})
    assert looked_at(str(tmp_path), [ours])[1] == {("shop.t", "z")}


@pytest.mark.parametrize(
    ("ops", "without", "bounds"),
    [
        ("rt", "", (1, 9)),
        ("x", "", (1, 9)),
        ("rr", "", (None, 9)),
        ("rr", "", (1.5, 9.5)),
        *(("rr", column, (1, 9)) for column in ("seq", "op", "key", "after", "commit_ts", "position", "schema_id")),
    ],
)
def test_what_tasks_cannot_read(tmp_path: Path, ops: str, without: str, bounds: tuple[Any, Any]) -> None:
    with pytest.raises((NotOurs, KeyError)):
        looked_at(str(tmp_path), [listed(tmp_path, ops, without, bounds)])
