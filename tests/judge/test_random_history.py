"""Whatever happens to tables that take each other's places: bronze is the source, live and as a backlog."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lakehouse_cdc.testing import MySqlServer
from tests.judge.judge import Verdict, judged, tally
from tests.judge.random_history import SETUP, random_history
from tests.support.servers import row_metadata

pytestmark = pytest.mark.every_server


def check(server: MySqlServer, folder: Path, seed: int, *, histories: int, length: int) -> None:
    rng = random.Random(seed)
    for n in range(histories):
        units = random_history(rng, length)
        with row_metadata(server, rng.choice(["FULL", "least"])):
            findings = judged(server, f"history_{n}", folder / str(n), SETUP, units)
        print(n, tally(findings))
        failed = [str(finding) for finding in findings if finding.failed]
        assert not failed, [units, failed]


def test_a_random_history(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    check(any_server, tmp_path, seed, histories=1, length=10)


@pytest.mark.long
def test_many_random_histories(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    check(any_server, tmp_path, seed, histories=20, length=25)


def test_a_name_that_passes_on_twice_is_not_quarantined(any_server: MySqlServer, tmp_path: Path) -> None:
    """By the time a backlog's swap is read, the catalog has no table of that name: it was renamed after it."""
    units = ["RENAME TABLE p TO tmp, a TO p, tmp TO a", "ALTER TABLE a RENAME TO c", "INSERT INTO c (id) VALUES (20)"]
    findings = judged(any_server, "passed_on", tmp_path, SETUP, units)
    assert not [str(f) for f in findings if f.failed or f.verdict in (Verdict.QUARANTINED, Verdict.UNSEEN)]
