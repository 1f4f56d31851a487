"""Commands that only look at tables in folders, or that write a note beside them, start no Java, and no other process.

They run as a user runs them, in a process of its own that cannot start one: it refuses to, and to import PySpark. The
tables are those that an earlier release left, of all forms, with rows that Spark has deleted and columns that it has
added and renamed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pymysql
import pytest

from lakehouse_cdc.testing import MySqlServer
from tests.compatibility.test_earlier_releases import KEPT
from tests.compatibility.write import ENVIRONMENT
from tests.support.commands import CONFIG

pytestmark = pytest.mark.process
# read by Python as it starts, from a folder of its path
NO_PROCESS = """\
import sys

_STARTS = ("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system")


def _refuse(event, arguments):
    if event in _STARTS:
        raise AssertionError(f"a process was to be started: {arguments}")


sys.addaudithook(_refuse)
"""
NO_PYSPARK = """

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "delta", "numba"):
            raise AssertionError(f"{name} was to be imported")


sys.meta_path.insert(0, Refused())
"""
CLI = "from lakehouse_cdc.cli.main import main; main()"


@pytest.fixture
def guard(tmp_path: Path) -> Path:
    return _guard(tmp_path / "guard", NO_PROCESS + NO_PYSPARK)


@pytest.fixture
def no_process(tmp_path: Path) -> Path:
    """Lets PySpark be imported."""
    return _guard(tmp_path / "no_process", NO_PROCESS)


def _guard(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(text)
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A pipeline's folder, its server gone."""
    with tarfile.open(KEPT[0]) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "home"


def run(guard: Path, code: int, home: Path, *arguments: str) -> Any:
    """What a command prints as JSON, or an error says."""
    environment = {
        **os.environ, **ENVIRONMENT, "JAVA_HOME": str(guard / "nowhere"), "PATH": str(guard / "nothing"),
        "PYTHONPATH": os.pathsep.join([str(guard), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep),
    }  # fmt: skip
    command = [sys.executable, "-c", CLI, *arguments, "--json"]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_guard_refuses(guard: Path, home: Path) -> None:
    """A command that needs Spark cannot go through."""
    with pytest.raises(AssertionError, match="pyspark was to be imported"):
        run(guard, 0, home, "maintain", "-c", "pipeline.yml")


def test_status(guard: Path, home: Path) -> None:
    status = run(guard, 0, home, "status", "-c", "pipeline.yml")
    rows = {name: (one["bronze_rows"], one["silver_rows"]) for name, one in status["tables"].items()}
    assert rows == {
        "shop.dropped": (1, 1), "shop.late": (169, 169), "shop.log": (4, 4), "shop.marked": (4, 2),
        "shop.people": (2, 2), "shop.plain": (5, 2), "shop.twokeys": (3, 2), "shop.versions": (7, 2),
    }  # fmt: skip
    assert {one["engine"] for one in status["tables"].values()} == {"spark"}
    assert status["bronze"]["pos"] == status["silver"]["pos"] == 9974
    assert status["lag"] is None


def test_how_far_back_tables_can_be_had(guard: Path, home: Path) -> None:
    tables = run(guard, 0, home, "as-of", "-c", "pipeline.yml")["tables"]
    assert len(tables) == 8
    assert tables["shop.late"]["reason"] == "before that its first snapshot was not complete"
    assert tables["shop.plain"]["pos"] == 4121


def test_what_a_person_asks_of_a_pipeline(guard: Path, home: Path) -> None:
    signal = ("signal", "-c", "pipeline.yml")
    assert run(guard, 0, home, *signal, "snapshot", "shop.l*") == {"read_again": ["shop.late", "shop.log"]}
    assert run(guard, 0, home, *signal, "pass", "mysql-bin.000009:500") == {"passed": ["mysql-bin.000009:500"]}
    assert run(guard, 0, home, *signal, "pause") == {"paused": True}
    assert run(guard, 0, home, *signal, "resume") == {"paused": False}
    tables = run(guard, 0, home, "status", "-c", "pipeline.yml")["tables"]
    assert [name for name, one in tables.items() if one["asked"]] == ["shop.late", "shop.log", "shop.marked"]


def test_a_report(guard: Path, home: Path) -> None:
    assert run(guard, 0, home, "report", "-c", "pipeline.yml", "--days", "100000")["file"] == "report.html"
    assert "shop.versions" in (home / "report.html").read_text(encoding="utf-8")


def test_a_reset(guard: Path, home: Path) -> None:
    """Of what it would delete it says how many rows that is."""
    deleted = run(guard, 0, home, "reset", "-c", "pipeline.yml", "--yes")["deleted"]
    rows = {Path(one["where"]).name: one["rows"] for one in deleted}
    assert (rows["changes"], rows["late"], rows["marked"], rows["versions"]) == (205, 169, 3, 6)
    assert not (home / "lakehouse" / "bronze" / "changes").exists()
    assert run(guard, 0, home, "status", "-c", "pipeline.yml")["tables"] == {}


@pytest.mark.parametrize(
    "arguments",
    [("verify",), ("verify", "--layer", "bronze"), ("as-of", "shop.late", "--position", "x.1:4"), ("maintain",)],
    ids=" ".join,
)  # fmt: skip
def test_before_the_first_run(no_process: Path, home: Path, arguments: tuple[str, ...]) -> None:
    (home / "lakehouse").rename(home / "elsewhere")
    assert run(no_process, 3, home, *arguments, "-c", "pipeline.yml")["code"] == "CDC-5007"


def test_a_table_that_nobody_knows(no_process: Path, home: Path) -> None:
    asked = ("as-of", "shop.none", "--position", "mysql-bin.000001:9000", "-c", "pipeline.yml")
    assert run(no_process, 2, home, *asked)["error"] == "bronze knows no table shop.none"


def test_with_a_source_that_answers(
    guard: Path, home: Path, mysql: MySqlServer, mysql_client: pymysql.Connection[Any], database: str
) -> None:
    file = home / "pipeline.yml"
    file.write_text("".join(line for line in file.open() if "password" not in line))
    status = run(guard, 0, home, "status", "-c", "pipeline.yml", "--set", f"source.url={mysql.url}")
    assert status["uncaptured"] == {}  # the server was asked
    assert status["lag"] is None  # bronze is at a position of another one
    with mysql_client.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    (home / "new.yml").write_text(CONFIG.format(url=mysql.url, database=database))
    findings = run(guard, 0, home, "doctor", "-c", "new.yml")["findings"]
    assert any(finding["name"] == "target.path" for finding in findings)


AGE = """
import sys

from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.mysql.log_view import LogView

with connect(ConnectionOptions.from_url(sys.argv[1])) as session:
    view = LogView.of(session, 4242)
view.headroom(view.sizes[-2][0])
[made] = view.made.values()
assert 0 <= view.now - made < 3600, (view.now, made)
"""


def test_the_age_of_a_binlog_file_needs_no_compiled_code(
    guard: Path, mysql: MySqlServer, mysql_client: pymysql.Connection[Any]
) -> None:
    with mysql_client.cursor() as cursor:
        cursor.execute("FLUSH BINARY LOGS")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(guard), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", AGE, mysql.url]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
