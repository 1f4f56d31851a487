"""The latency is measured over every change that was written, and the report says it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import writer
from bench.report import results
from bench.tables import KEYLESS, LIVE, LIVES
from lakehouse_cdc.testing import MySqlServer


def test_the_writer_keeps_its_rate(mysql: MySqlServer) -> None:
    LIVE.create(mysql, 0)
    changes, seconds = writer.write(mysql.port, [LIVE.name], 200, 2)
    assert (changes, 1.9 < seconds < 4) == (400, True)
    with mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*), SUM(c_login = 'seen') FROM {LIVE.name}")
        assert cursor.fetchall() == ((200, 200),)
    KEYLESS.create(mysql, 300)
    changes, _ = writer.write(mysql.port, [KEYLESS.name], 200, 1, 300)
    with mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*), COUNT(DISTINCT c_customer_sk), SUM(c_login = 'seen') FROM {KEYLESS.name}")
        assert (changes, cursor.fetchall()) == (200, ((400, 400, 100),))
    for live in LIVES[:2]:
        live.create(mysql, 0)
    changes, _ = writer.write(mysql.port, [live.name for live in LIVES[:2]], 200, 1)
    with mysql.connect() as connection, connection.cursor() as cursor:
        for live in LIVES[:2]:
            cursor.execute(f"SELECT COUNT(*), SUM(c_login = 'seen') FROM {live.name}")
            assert (changes, cursor.fetchall()) == (200, ((50, 50),))
        cursor.execute("DROP DATABASE bench")
    with pytest.raises(ValueError, match="at least 100"):
        writer.write(mysql.port, [LIVE.name], 99, 1)


@pytest.mark.long
def test_one_rate_is_measured_to_the_end(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.latency", "--quick", "--json", "--write", str(tmp_path)]
    data = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    assert [(one["rate"], one["engine"]) for one in data["rates"]] == [(100, "spark"), (100, "auto")]
    for one in data["rates"]:  # ten seconds, and what the writer's own start takes from the warm-up
        assert 0.9 <= one["changes"] / 1_000 <= 1.3
        assert 0 < one["p50"] <= one["p99"] <= one["slowest"]
    assert results("latency", data) in (tmp_path / "RESULTS.md").read_text()
    assert len(ElementTree.parse(tmp_path / "latency.svg").findall("{*}rect")) == 5
