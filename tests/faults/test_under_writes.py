"""1,000 faults around a running pipeline, in one run, and 300 on MariaDB: see `tests.faults.under_writes`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.testing import Version
from tests.faults.under_writes import can_mount, kinds_of, play
from tests.support.servers import start_or_skip

FAULTS: dict[Version, int] = {"mysql-8.0": 1000, "mariadb-11": 300}


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("version", FAULTS)
def test_nothing_is_lost_and_nothing_there_twice(
    version: Version, tmp_path: Path, seed: int, request: pytest.FixtureRequest
) -> None:
    def session() -> SparkSession:
        spark: SparkSession = request.getfixturevalue("spark")
        return spark

    with start_or_skip(version) as server:
        outcome = play(server, tmp_path, faults=FAULTS[version], seed=seed, session=session, seconds=float("inf"))
    print(outcome)
    if not can_mount():
        print("no fault of the disk was made: only root may mount a file system, on Linux")
    assert outcome.wrong == []
    assert outcome.tally.made.total() >= FAULTS[version]
    assert {one.name for one in kinds_of(version, mounts=can_mount())} == set(outcome.tally.made)
