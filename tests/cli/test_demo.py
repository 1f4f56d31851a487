"""`lakehouse-cdc demo`, as a user calls it: in an empty folder, twice, the first time in a process of its own."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lakehouse_cdc.cli.main import app
from lakehouse_cdc.errors import codes
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.shop import TABLES
from tests.remedies import remedy
from tests.support.commands import call
from tests.support.servers import connected

ARGUMENTS = ["demo", "--rows", "5000", "--json", "--keep"]


def told(folder: Path, code: int, out: str, errors: str) -> dict[str, Any]:
    """What it said, which is right."""
    assert code == 0, out + errors
    # the user sees our words alone: no log line of Spark's, no trace
    assert [line for line in errors.splitlines() if not OURS.match(line)] == []
    [line] = out.splitlines()
    data: dict[str, Any] = json.loads(line)
    assert data["verified"]
    assert set(data["tables"]) == {f"shop.{name}" for name in TABLES}
    assert data["rows_compared"] == sum(t["rows"] for t in data["tables"].values())
    assert data["written_meanwhile"]["transactions"] > 0
    assert [p.name for p in folder.iterdir()] == ["lakehouse-demo"]
    assert (Path(data["lakehouse"]) / "shop_silver" / "orders" / "_delta_log").is_dir()
    return data


OURS = re.compile(
    r"1\. the source|   compiling|   MySQL runs at|   loaded 5,000 rows|   the shop is there already"
    r"|2\. bronze and silver|3\. what was written|4\. the proof"
    r"|[0-9,]+ rows/s, .*; (?:bronze|silver) at "  # where a batch takes some seconds
)


def first_demo(data: dict[str, Any]) -> None:
    """What a first run says: it read all rows."""
    assert data["resumed"] is False
    assert data["rows_compared"] > 4000
    assert sum(t["r"] for t in data["runs"][0]["tables"].values()) > 4000
    assert data["seconds"] > 0


def called(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """In the session of the tests."""
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, ARGUMENTS)
    return told(folder, result.exit_code, result.stdout, result.stderr)


@pytest.mark.long
def test_the_demo_verifies(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    first_demo(called(tmp_path, monkeypatch))


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_in_a_process_of_its_own_and_resumed(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-m", "lakehouse_cdc.cli.main", *ARGUMENTS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    first_demo(told(tmp_path, done.returncode, done.stdout, done.stderr))
    again = called(tmp_path, monkeypatch)  # it takes the files alone to resume
    assert again["resumed"] is True
    read = [t.get("r", 0) for run in again["runs"] for t in run["tables"].values()]
    assert sum(read) == 0  # nothing is read twice


@pytest.mark.long
@remedy(codes.SERVER_BUILD_MISSING, codes.PASSWORD_IN_URL)
def test_with_a_server_of_the_users(
    tmp_path: Path, spark: SparkSession, mysql: MySqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no build of MySQL for the machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    refused = call(3, "demo", "--rows", "500")
    assert refused["code"] == codes.SERVER_BUILD_MISSING.label
    option = re.fullmatch(r"use a server of yours: (--url) mysql://user@host:3306", refused["hint"])
    assert option, refused["hint"]
    with closing(connected(mysql)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE USER shop@'127.0.0.1' IDENTIFIED BY 's3cret'")
        cursor.execute("GRANT ALL ON *.* TO shop@'127.0.0.1'")
        try:
            url = f"mysql://shop:s3cret@127.0.0.1:{mysql.port}"
            refused = call(2, "demo", "--rows", "500", option[1], url)
            assert refused["code"] == codes.PASSWORD_IN_URL.label
            variable = re.search(r"remove it there, .* the variable (\w+)\)$", refused["hint"])
            assert variable, refused["hint"]
            monkeypatch.setenv(variable[1], "s3cret")
            assert call(0, "demo", "--rows", "500", option[1], url.replace(":s3cret", ""))["verified"] is True
        finally:
            cursor.execute("DROP USER shop@'127.0.0.1'")
            cursor.execute("DROP DATABASE IF EXISTS shop")
