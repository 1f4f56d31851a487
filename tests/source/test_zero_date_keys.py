"""Keys of dates that no calendar has: captured where they are carried as text, refused by name where they are not."""

from __future__ import annotations

import json
import random

import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.changelog import fold, invalid
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage

_DAYS = ("0000-00-00", "2024-00-00", "2024-00-10", "2024-02-00", "0000-01-01", "1999-12-31", "2024-02-29")
_KINDS = {
    "DATE": _DAYS,
    "DATETIME(2)": tuple(f"{day} {clock}" for day in _DAYS for clock in ("00:00:00.00", "12:30:00.25")),
    "TIMESTAMP(3)": ("0000-00-00 00:00:00.000", "1970-01-02 00:00:01.000", "2024-02-29 12:30:00.125"),
}


@pytest.mark.one_server
@pytest.mark.parametrize("kind", _KINDS)
def test_rows_are_exact_through_chunks_and_events(any_stage: Stage, kind: str, seed: int) -> None:
    stage, rng, keys = any_stage, random.Random(seed), _KINDS[kind]
    stage.run("SET sql_mode = '', time_zone = '+00:00'")
    stage.run(f"CREATE TABLE t (d {kind} NOT NULL DEFAULT '2000-01-01', n INT NOT NULL, v INT, PRIMARY KEY (d, n))")
    for n in range(3):
        stage.run(f"INSERT INTO t VALUES {', '.join(f'({key!r}, {n}, 0)' for key in rng.sample(keys, len(keys) - 1))}")
    driver = stage.driver(types=json.dumps({stage.name(): {"d": "text"}}), chunkRows="3", chunksPerTrigger="1")
    for _ in range(12):
        driver.batch(between=lambda: write(stage, rng, keys))
    stage.snapshot(driver)
    write(stage, rng, keys)
    stage.drain_twice(driver)
    assert found(driver) == {(str(d), n): v for d, n, v in stage.run("SELECT CAST(d AS CHAR), n, v FROM t")}
    assert invalid(driver.log) is None


def write(stage: Stage, rng: random.Random, keys: tuple[str, ...]) -> None:
    key, other = rng.sample(keys, 2)
    n = rng.randrange(4)
    stage.run(f"REPLACE INTO t VALUES ('{key}', {n}, {rng.randrange(100)})")
    stage.run(f"UPDATE t SET v = v + 1 WHERE d <= '{other}'")
    stage.run(f"DELETE FROM t WHERE d = '{other}' AND n = {n}")
    stage.run(f"UPDATE IGNORE t SET d = '{other}' WHERE d = '{key}' AND n = {(n + 1) % 4}")


def found(driver: Driver) -> dict[tuple[str, int], int]:
    rows = [dict(image) for _, image in fold(driver.log).values()]
    return {(row["d"], row["n"]): row["v"] for row in rows}


def test_one_that_is_not_carried_as_text_is_refused_by_name(stage: Stage) -> None:
    stage.run("SET sql_mode = ''")
    stage.run("CREATE TABLE t (d DATE PRIMARY KEY)")
    stage.run("INSERT INTO t VALUES ('0000-00-00')")
    driver = stage.driver()
    with pytest.raises(DefiniteError, match=r"column d of .* holds a zero date"):
        stage.snapshot(driver)
