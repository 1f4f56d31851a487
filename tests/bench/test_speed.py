"""The speeds are measured as they are said to be, and a row that arrives otherwise than it was sent ends a run."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import ours
from bench.contests import QUICK, Bar, Contender, Contest, Course
from bench.logs import write_bulk
from bench.process import Run, run
from bench.speed import Measured, hold, judged, ratio
from bench.tables import BULK, DATABASE, TEXT
from lakehouse_cdc.testing import MySqlServer
from tests.support.servers import connected


def test_decoding_is_timed_and_compared(mysql: MySqlServer, tmp_path: Path) -> None:
    contest = Course(mysql, tmp_path, QUICK).decode(TEXT, QUICK.text)
    found = {one.name: one for one in hold(contest, 1)}
    assert set(found) == {"ours", "socket drain", "PyMySQL"}
    assert {one.runs[0].rows for one in found.values()} == {QUICK.text}
    assert all(one.rate > 0 and one.runs[0].seconds > 0 for one in found.values())
    with closing(connected(mysql)) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {DATABASE}")


def test_a_log_that_tells_of_other_rows_than_the_table_has_ends_the_run(mysql: MySqlServer) -> None:
    BULK.create(mysql, 0)
    log = write_bulk(mysql, 3_000)
    assert (log.inserted, log.updated, log.deleted, log.changes) == (3_000, 1_500, 300, 4_800)
    changes, seconds = ours.decode_log(mysql.port, BULK.name, log.start, log.end)
    assert (changes, seconds > 0) == (log.changes, True)
    with closing(connected(mysql)) as connection, connection.cursor() as cursor:
        cursor.execute(f"UPDATE {BULK.name} SET c_login = 'else' WHERE c_customer_sk = 998")
        with pytest.raises(AssertionError, match="998"):
            ours.decode_log(mysql.port, BULK.name, log.start, log.end)
        cursor.execute(f"DROP DATABASE {DATABASE}")


@pytest.mark.process
def test_a_run_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="it went wrong"):
        run([sys.executable, "-c", "raise SystemExit('it went wrong')"])


@pytest.mark.process
def test_memory_is_that_of_all_processes_of_a_run_and_of_its_workers() -> None:
    child = "import time; held = bytearray(200 << 20); time.sleep(2)"
    said = json.dumps({"rows": 1, "seconds": 1})
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}]); print({said!r})"
    assert 200 < (found := run([sys.executable, "-c", parent])).peak_mb < 400
    assert found.workers_mb == 0
    worker = parent.replace(f"{child!r}]", f"{child!r}, 'lakehouse_cdc.workers.daemon']")
    assert 200 < (found := run([sys.executable, "-c", worker])).workers_mb < found.peak_mb
    assert 0 < found.driver_mb < 100


def test_ratios_are_within_a_round() -> None:
    def measured(name: str, *seconds: float) -> Measured:
        return Measured("c", "about", name, tuple(Run(100, s, 10) for s in seconds))

    # the machine was four times slower in the second round, for both
    fast, slow = measured("ours", 1.0, 4.0, 1.0), measured("theirs", 2.0, 8.0, 3.0)
    assert ratio(fast, slow) == 2.0
    assert ratio(fast, measured("theirs", 5.0)) == 5.0  # who ran in the first round alone
    contest = Contest("c", "about", [Contender("ours", list), Contender("theirs", list)], [Bar("ours", "theirs", 1, 3)])
    assert judged(contest, [fast, slow]) == [{"ours": "ours", "theirs": "theirs", "least": 1, "aim": 3, "ratio": 2.0}]


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_contest_is_held(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.speed", "--quick", "--json", "--write", str(tmp_path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    data = json.loads(done.stdout)
    assert [one["contest"] for one in data["contests"]] == [
        "decode-customer", "decode-wide", "decode-text", "snapshot", "bulk", "small", "memory", "catalog",
    ]  # fmt: skip
    assert all(contender["rate"] > 0 for one in data["contests"] for contender in one["contenders"])
    assert sum(len(one["bars"]) for one in data["contests"]) == 7
    told = (tmp_path / "RESULTS.md").read_text()
    assert all(one["about"] in told for one in data["contests"])
    for one in data["contests"]:
        if one["contest"] != "memory":
            drawn = ElementTree.parse(tmp_path / f"speed-{one['contest']}.svg").findall("{*}rect")
            assert len(drawn) == 1 + len(one["contenders"])
