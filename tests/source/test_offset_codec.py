"""Stored offsets: the same at any later time, small however many tables there are, and few files for that."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.offset import Identity, Offset
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.table_state import Complete, FirstPass, Reading, TableState, Waiting
from lakehouse_cdc.model.table_state_json import from_json
from lakehouse_cdc.source.state.offset_codec import restored, stored
from lakehouse_cdc.source.state.state_store import SchemaStore
from tests.support.offset_json import STATES
from tests.support.source.stage import Stage

# a batch: which of forty tables have another state afterwards, or are no more
_moves = st.dictionaries(st.integers(0, 39), st.none() | st.builds(from_json, STATES), max_size=40)
WAITING, DONE = TableState("c" * 16, Waiting()), TableState("c" * 16, Complete(FirstPass()))


def offset(tables: dict[str, TableState], pos: int = 4) -> Offset:
    position = Position("bin.000001", pos)
    return Offset(1, Identity("uuid", "bin.000001", 5), position, position, tables=tables)


def plain(data: dict[str, Any]) -> dict[str, Any]:
    """As Spark keeps it."""
    result: dict[str, Any] = json.loads(json.dumps(data))
    return result


@given(st.lists(_moves, max_size=12))
def test_an_offset_means_the_same_for_ever(tmp_path_factory: pytest.TempPathFactory, batches: list[Any]) -> None:
    store = SchemaStore(str(tmp_path_factory.mktemp("states")))
    tables: dict[str, TableState] = {}
    before: dict[str, Any] = {}
    kept = []
    for n, moves in enumerate(batches):
        changed = {**tables, **{f"db.t{i}": state for i, state in moves.items()}}
        tables = {name: state for name, state in changed.items() if state is not None}
        before = plain(stored(offset(tables, 4 + n), before, store))
        kept.append((before, offset(tables, 4 + n)))
    assert [restored(data, store) for data, _ in kept] == [meant for _, meant in kept]


@given(st.lists(_moves, min_size=1, max_size=8), st.booleans())
def test_the_ends_of_stretches_are_kept(
    tmp_path_factory: pytest.TempPathFactory, moves: list[Any], first: bool
) -> None:
    store = SchemaStore(str(tmp_path_factory.mktemp("states")))
    tables = {f"db.t{n}": WAITING for n in range(40)}
    before = {} if first else plain(stored(offset(tables), {}, store))
    ends = []
    for n, changed in enumerate(moves):
        after = {**tables, **{f"db.t{i}": state for i, state in changed.items()}}
        tables = {name: state for name, state in after.items() if state is not None}
        ends.append(offset(tables, 5 + n))
    meant = replace(ends[-1], between=tuple(ends[:-1]))
    data = plain(stored(meant, before, store))
    assert restored(data, store) == meant
    assert data["version"] == (2 if ends[:-1] else 1)  # else a release that does not know of them would miss rows


def test_a_snapshot_of_a_thousand_tables_has_small_offsets_and_few_files(tmp_path: Path) -> None:
    store = SchemaStore(str(tmp_path))
    tables = {f"db.t{n}": WAITING for n in range(1000)}
    data: dict[str, Any] = {}
    sizes = []
    for first in range(0, 1000, 20):  # twenty tables are read at a time, in two batches
        now = [f"db.t{n}" for n in range(first, first + 20)]
        for state in (TableState("c" * 16, Reading(FirstPass(), [1])), DONE):
            tables = {**tables, **dict.fromkeys(now, state)}
            data = plain(stored(offset(tables), data, store))
            sizes.append(len(json.dumps(data)))
    assert restored(data, store) == offset(tables)
    whole = len(json.dumps(offset(tables).to_json()))
    assert max(sizes) < whole / 10
    files = [path.stat().st_size for path in tmp_path.iterdir()]
    assert sum(files) < 20 * whole


def test_few_tables_need_no_file(tmp_path: Path) -> None:
    tables = {f"db.t{n}": DONE for n in range(16)}
    data = stored(offset(tables), {}, SchemaStore(str(tmp_path)))
    assert data == offset(tables).to_json()
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_gone_or_was_changed_stops_the_stream(tmp_path: Path) -> None:
    store = SchemaStore(str(tmp_path))
    data = stored(offset({f"db.t{n}": WAITING for n in range(40)}), {}, store)
    (path,) = tmp_path.iterdir()
    path.write_text(path.read_text().replace("db.t7", "db.t8"))
    with pytest.raises(DefiniteError, match="was changed"):
        restored(data, store)
    path.unlink()
    with pytest.raises(DefiniteError, match="is missing"):
        restored(data, store)


def test_a_stream_over_many_tables(stage: Stage) -> None:
    names = [f"t{n}" for n in range(40)]
    for n, name in enumerate(names):
        stage.create(name, rows=n % 12)
    driver = stage.driver(chunksPerTrigger="6")
    store = SchemaStore(str(stage.folder))
    chance = random.Random(11)
    held = []
    for _ in range(60):
        for name in chance.sample(names, 5):
            stage.run(f"INSERT INTO {name} VALUES ({chance.randrange(10**9)}, 1)")
            stage.run(f"UPDATE {name} SET v = v + 1 LIMIT 3")
        assert driver.batch(between=lambda: stage.run("DELETE FROM t9 LIMIT 1"))
        now = restored(driver.offset, store)
        assert now is not None
        held.append(now)
        if all(state.done for state in now.tables.values()):
            break
    else:
        raise AssertionError("the snapshot does not end")
    assert len(driver.offset["tables"]) <= 16 + 6  # those that were read just now, too
    stage.drain(driver)
    stage.same(driver, *names)
    assert all(len(now.tables) == 40 for now in held)
    assert replace(held[-1], tables={}) != replace(held[0], tables={})


def test_what_is_read_at_the_beginning_of_a_binlog_file_is_dated_by_it(stage: Stage) -> None:
    stage.create(rows=3)
    before = time.time()
    stage.run("FLUSH BINARY LOGS")
    driver = stage.driver()
    assert driver.plan()
    rows = [row for batch in driver.read() for row in batch.to_pylist()]
    assert len([row for row in rows if row["op"] == "r"]) == 3
    assert all(before - 2 < row["commit_ts"].timestamp() < time.time() for row in rows)
