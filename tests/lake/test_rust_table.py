"""A bare table as deltalake writes it: each batch once, beside whoever else writes; and what a MERGE here means."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from lakehouse_cdc.lake.direct.rust_table import MANY, Merge, Once, RustTable, Upsert, literal, of_source, of_target
from lakehouse_cdc.lake.failpoints import Door, Moment
from tests.support.crash_points import Crash, failing_at, hooked

SEQ = pa.decimal128(38, 0)
COLUMNS = pa.schema([("k", pa.int64()), ("Größe", pa.string()), ("_seq", SEQ)])
ROWS = COLUMNS.append(pa.field("gone", pa.bool_()))
Model = dict[int, tuple[str | None, int]]


def made(folder: Path, *rows: tuple[int, str, int], bounded: str | None = None) -> RustTable:
    """A table with a file for each of the rows."""
    properties = {"delta.checkpointInterval": "10", "delta.dataSkippingStatsColumns": bounded}
    DeltaTable.create(str(folder), COLUMNS, configuration={k: v for k, v in properties.items() if v is not None})
    for row in rows:
        write_deltalake(str(folder), pa.Table.from_pylist([as_row(*row)], schema=COLUMNS), mode="append")
    return opened(folder)


def opened(folder: Path) -> RustTable:
    return RustTable(str(folder), folder.name)


def as_row(key: int, value: str | None, seq: int) -> dict[str, Any]:
    return {"k": key, "Größe": value, "_seq": Decimal(seq)}


def merge_of(*changes: tuple[int, str | None, int], below: int = 0) -> Merge:
    """Changes by key; the value None is a delete."""
    rows = pa.Table.from_pylist([as_row(*one) | {"gone": one[1] is None} for one in changes], schema=ROWS)
    keys = [key for key, _, _ in changes]
    within = ("k", literal(min(keys), pa.int64()), literal(max(keys), pa.int64())) if keys else None
    return Merge(rows, ["k"], "_seq", "gone", within, below)


def once(batch: int) -> Once:
    return Once("lakehouse_cdc:p:q:rows", batch, f'{{"note": {batch}}}')


def held(folder: Path) -> Model:
    rows = opened(folder).rows(["k", "Größe", "_seq"]).to_pylist()
    found = {row["k"]: (row["Größe"], int(row["_seq"])) for row in rows}
    assert len(found) == len(rows), "a key is there twice"
    return found


def test_a_merge_is_what_the_model_says_whatever_it_is_given(tmp_path: Path) -> None:
    """Updates and deletes where the seq is greater, inserts, and what a barrier takes away."""
    rng, model = random.Random(3), dict[int, tuple[str | None, int]]()
    made(tmp_path / "t")
    for batch in range(60):
        keys = rng.sample(range(12), rng.randrange(5))
        changes = [(key, rng.choice(["a", "it's", None]), rng.randrange(1, 10**30)) for key in keys]
        below = rng.choice([0, 0, 0, rng.randrange(1, 10**30)])
        changes = [one for one in changes if one[2] >= below]
        opened(tmp_path / "t").merge(merge_of(*changes, below=below), once(batch))
        given = {key for key, _, _ in changes}
        model = {key: row for key, row in model.items() if key in given or row[1] >= below}
        for key, value, seq in changes:
            if key not in model or seq > model[key][1]:
                model.pop(key, None)
                model |= {} if value is None else {key: (value, seq)}
        assert held(tmp_path / "t") == model, batch


def upsert_of(*changes: tuple[int, str | None, int]) -> Upsert:
    """Of rows that are older than the change: None takes the seq alone. Others are inserted."""
    rows = merge_of(*changes)
    gone, columns = of_source("gone"), ["k", "Größe", "_seq"]
    older = f"{of_target('_seq')} < {of_source('_seq')}"
    return Upsert(rows.rows, ["k"], older, [(f"NOT {gone}", columns), (gone, ["_seq"])], (f"NOT {gone}", columns))


def test_an_upsert_takes_the_first_update_whose_condition_holds_of_rows_that_match(tmp_path: Path) -> None:
    table = made(tmp_path / "t", (1, "a", 5), (2, "b", 10**30), (3, "c", 5))
    table.upsert(upsert_of((1, "z", 6), (2, None, 10**30 + 1), (4, "d", 6), (5, None, 6)), once(0))
    assert held(tmp_path / "t") == {1: ("z", 6), 2: ("b", 10**30 + 1), 3: ("c", 5), 4: ("d", 6)}


def test_an_upsert_that_changes_nothing_is_a_commit_as_well(tmp_path: Path) -> None:
    table = made(tmp_path / "t", (1, "a", 5))
    before = table.version
    table.upsert(upsert_of((7, None, 9)), once(0))
    assert (table.version, opened(tmp_path / "t").version) == (before + 1, before + 1)
    assert opened(tmp_path / "t").has(once(0))
    [last, *_] = DeltaTable(str(tmp_path / "t")).history()
    assert last["userMetadata"] == once(0).note
    table.upsert(upsert_of((1, "z", 6)), once(0))
    assert held(tmp_path / "t") == {1: ("a", 5)}


def test_rows_that_a_merge_wrote_are_read_by_their_texts(tmp_path: Path) -> None:
    table = made(tmp_path / "t", (1, "a", 5), (2, "b", 5))
    table.merge(merge_of((1, "c", 6), (3, "d", 6)), once(0))
    among = "Größe", pa.array(["b", "c", "x"])
    assert sorted(opened(tmp_path / "t").rows(["k", "Größe"], None, among).column("k").to_pylist()) == [1, 2]


def test_a_batch_is_committed_once_and_says_what_it_is(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.merge(merge_of((1, "a", 5)), once(4))
    table.merge(merge_of((1, "b", 9), (2, "b", 9)), once(4))
    opened(tmp_path / "t").merge(merge_of((2, "b", 9)), once(3))
    assert held(tmp_path / "t") == {1: ("a", 5)}
    opened(tmp_path / "t").append(pa.Table.from_pylist([as_row(3, "c", 1)], schema=COLUMNS), once(4))
    assert (held(tmp_path / "t"), opened(tmp_path / "t").version) == ({1: ("a", 5)}, 1)
    [last, _] = DeltaTable(str(tmp_path / "t")).history()
    assert last["userMetadata"] == '{"note": 4}'


def test_a_merge_that_changes_nothing_writes_no_version(tmp_path: Path) -> None:
    table = made(tmp_path / "t", (1, "a", 5))
    before = table.version
    table.merge(merge_of((1, "b", 4), (7, None, 9)), once(0))
    table.merge(merge_of(), once(1))
    assert opened(tmp_path / "t").version == before


@pytest.mark.parametrize("key", [1, 2], ids=["updated", "inserted"])
def test_of_two_who_do_the_same_batch_at_once_one_is_refused(tmp_path: Path, key: int) -> None:
    made(tmp_path / "t", (1, "a", 5))
    one, two = opened(tmp_path / "t"), opened(tmp_path / "t")
    one.merge(merge_of((key, "b", 6)), once(0))
    with pytest.raises(CommitFailedError):
        two.merge(merge_of((key, "b", 6)), once(0))
    assert held(tmp_path / "t")[key] == ("b", 6)
    rows = pa.Table.from_pylist([as_row(9, "c", 7)], schema=COLUMNS)
    one, two = opened(tmp_path / "t"), opened(tmp_path / "t")
    one.append(rows, once(1))
    with pytest.raises(CommitFailedError):
        two.append(rows, once(1))
    assert held(tmp_path / "t")[9] == ("c", 7)


def test_a_table_that_is_altered_meanwhile_refuses_what_was_begun_before(tmp_path: Path) -> None:
    table = made(tmp_path / "t", (1, "a", 5))
    DeltaTable(str(tmp_path / "t")).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
    with pytest.raises(CommitFailedError):
        table.merge(merge_of((1, "b", 6)), once(0))
    assert held(tmp_path / "t") == {1: ("a", 5)}


def test_a_table_that_got_a_feature_is_not_bare(tmp_path: Path) -> None:
    assert made(tmp_path / "t").bare
    DeltaTable.create(str(tmp_path / "dv"), COLUMNS, configuration={"delta.enableDeletionVectors": "true"})
    assert not opened(tmp_path / "dv").bare


def test_bounds_of_large_decimals_are_wrong_so_no_table_of_ours_has_them(tmp_path: Path) -> None:
    """When this fails, `table_definition.indexed` may keep more."""
    made(tmp_path / "t", (1, "a", 10**30))
    lines = (tmp_path / "t/_delta_log" / f"{1:020}.json").read_text().splitlines()
    [added] = [line for line in lines if '"add":' in line]
    stats = json.loads(json.loads(added)["add"]["stats"])
    assert stats["minValues"]["_seq"] == 2**63 - 1
    table = made(tmp_path / "bare", (1, "a", 10**30), bounded="k")
    table.merge(merge_of((1, "b", 10**31), (2, "b", 10**31)), once(0))
    for log in (tmp_path / "bare/_delta_log").glob("*.json"):
        for line in map(json.loads, log.read_text().splitlines()):
            assert json.loads(line["add"]["stats"])["minValues"].keys() == {"k"} if "add" in line else True
    assert opened(tmp_path / "bare").bounded == "k"


def test_files_out_of_the_range_of_the_keys_are_not_read(tmp_path: Path) -> None:
    table = made(tmp_path / "t", *((key, "a", 5) for key in (-(2**63), 1, 2, 2**63 - 1)))
    table.merge(merge_of((1, "b", 6), (2, "b", 6)), once(0))
    metrics = DeltaTable(str(tmp_path / "t")).history()[0]["operationMetrics"]
    assert (metrics["num_target_files_skipped_during_scan"], metrics["num_target_rows_updated"]) == (2, 2)


@pytest.mark.parametrize("moment", Moment)
def test_a_crash_at_a_commit_is_one_before_or_after_it(tmp_path: Path, moment: Moment) -> None:
    table = made(tmp_path / "t")
    with failing_at(Door.MERGE, moment, "t", error=Crash), pytest.raises(Crash):
        table.merge(merge_of((1, "a", 5)), once(0))
    assert opened(tmp_path / "t").has(once(0)) == (moment is Moment.AFTER)
    opened(tmp_path / "t").merge(merge_of((1, "a", 5)), once(0))
    assert held(tmp_path / "t") == {1: ("a", 5)}


def test_many_small_files_become_few_in_a_commit_that_is_no_batch(tmp_path: Path) -> None:
    table, met = made(tmp_path / "t", *((key, "a", 5) for key in range(MANY - 1))), []
    before = held(tmp_path / "t")
    with hooked(lambda *at: met.append(at)):
        table.put_together()
        assert met == []
        table.merge(merge_of((99, "z", 9)), once(0))
        table.put_together()
    assert len(opened(tmp_path / "t").sizes()) == 1
    assert held(tmp_path / "t") == before | {99: ("z", 9)}
    assert DeltaTable(str(tmp_path / "t")).history()[0].get("userMetadata") is None
    assert opened(tmp_path / "t").has(once(0))
    assert list((tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet"))


def test_what_the_library_is_taken_for(tmp_path: Path) -> None:
    """A transaction that another application commits in between is no conflict of an append."""
    made(tmp_path / "t")
    table = opened(tmp_path / "t")
    other = CommitProperties(app_transactions=[Transaction("other", 1)])
    rows = pa.Table.from_pylist([as_row(8, "c", 7)], schema=COLUMNS)
    write_deltalake(str(tmp_path / "t"), rows, mode="append", commit_properties=other)
    table.append(pa.Table.from_pylist([as_row(9, "c", 7)], schema=COLUMNS), once(0))
    assert held(tmp_path / "t").keys() == {8, 9}
