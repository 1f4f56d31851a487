"""Wrong input on the command line: one line that says what and what to do, the right exit code, nothing half done.

No Spark where none is needed; where it is, the suite's session is the one that the command finds running.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from lakehouse_cdc.cli.main import app
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.place import free_port
from tests.support.servers import connected

pytestmark = pytest.mark.mysql

PASSWORD = "s3cr3t-PÄSS"
FORMS = [PASSWORD.encode(), PASSWORD.encode("latin1"), json.dumps(PASSWORD)[1:-1].encode(), b"s3cr3t"]
CONFIG = """\
name: shop
source:
  url: mysql://{user}@127.0.0.1:{port}
  password: ${{env:E2E_PASSWORD}}
  tables: [{tables}]
target:
  path: ./lakehouse
  bronze: bronze
  silver: silver
"""
Write = Callable[..., Path]


@pytest.fixture(scope="module")
def own() -> Iterator[MySqlServer]:
    """A server whose settings and files a test may change, with users that have this right and not that."""
    with MySqlServer.start() as server:
        with closing(connected(server)) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
            cursor.execute("CREATE TABLE shop.t (id INT PRIMARY KEY, v VARCHAR(20))")
            cursor.execute("INSERT INTO shop.t VALUES (1, 'a'), (2, 'b')")
            rights = {
                "reader": "SELECT, REPLICATION SLAVE, REPLICATION CLIENT",
                "no_slave": "SELECT, REPLICATION CLIENT",
                "no_client": "SELECT, REPLICATION SLAVE",
                "no_select": "REPLICATION SLAVE, REPLICATION CLIENT",
            }
            for user, granted in rights.items():
                cursor.execute(f"CREATE USER {user}@'127.0.0.1' IDENTIFIED BY %s", [PASSWORD])
                cursor.execute(f"GRANT {granted} ON *.* TO {user}@'127.0.0.1'")
        yield server


@pytest.fixture
def sql(own: MySqlServer) -> Iterator[Callable[[str], None]]:
    with closing(connected(own)) as connection:

        def execute(statement: str) -> None:
            with connection.cursor() as cursor:
                cursor.execute(statement)

        yield execute


@pytest.fixture
def write(own: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a configuration file."""
    monkeypatch.setenv("E2E_PASSWORD", PASSWORD)

    def written(*, user: str = "reader", port: int = 0, tables: str = '"shop.*"', text: str = CONFIG) -> Path:
        path = tmp_path / "pipeline.yml"
        path.write_text(text.format(user=user, port=port or own.port, tables=tables))
        return path

    return written


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def assert_error(result: Result, code: int, what: str, hint: str = ".") -> None:
    """One line on stderr that says both, and no trace."""
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    assert re.search(what, lines[0]), lines[0]
    assert re.search(rf"Hint: .*{hint}", lines[0]), lines[0]
    assert not any(form.decode("latin1") in result.stderr for form in FORMS)


def findings(result: Result, severity: str = "error") -> dict[str, Any]:
    """What doctor said with --json: name -> finding."""
    [line] = result.stdout.splitlines()
    return {f["name"]: f for f in json.loads(line)["findings"] if f["severity"] == severity}


def test_a_source_that_is_fit(write: Write) -> None:
    result = call("doctor", "-c", write(), "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["healthy"] is True
    assert findings(result) == {}
    for_people = call("doctor", "-c", write())
    assert (for_people.exit_code, for_people.stderr) == (0, "")
    assert "ok tables: 1 tables can be captured: shop.t" in for_people.stdout
    assert for_people.stdout.splitlines()[-1].startswith("0 errors, ")


@pytest.mark.parametrize("command", ["doctor", "run", "verify", "status"])
def test_a_file_that_is_not_there(command: str, tmp_path: Path) -> None:
    assert_error(call(command, "-c", tmp_path / "none.yml"), 2, r"cannot read .*none\.yml: No such file", "-c")


@pytest.mark.parametrize(
    ("old", "new", "line", "what", "hint"),
    [
        ("  bronze: bronze", "  bronce: bronze", 8, "target.bronce: unknown key", "did you mean bronze"),
        ("  tables: [{tables}]", "  tables: []", 5, "source.tables", ""),
        ("mysql://{user}@", "mysql://{user}:geheim@", 3, "a password does not belong in the url", ""),
        ("${{env:E2E_PASSWORD}}", "geheim", 4, "a secret is given by reference", ""),
        ("mysql://", "postgres://", 3, "expected mysql://user@host:port", ""),
        ("  path: ./lakehouse", "  path: [", 9, "not YAML", ""),
    ],
)
def test_a_broken_configuration_names_the_line(
    write: Write, old: str, new: str, line: int, what: str, hint: str
) -> None:
    path = write(text=CONFIG.replace(old, new))
    result = call("doctor", "-c", path)
    assert result.exit_code == 2
    [said] = result.stderr.strip().splitlines()
    assert said.startswith("error: ")
    assert what in said
    assert f"pipeline.yml:{line}]" in said
    assert hint in said
    assert "geheim" not in result.output
    as_json = call("doctor", "-c", path, "--json")
    told = json.loads(as_json.stdout)
    assert (told["kind"], as_json.exit_code) == ("config", 2)
    assert told["where"].endswith(f"pipeline.yml:{line}")


def test_a_secret_that_is_not_set(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write()
    monkeypatch.delenv("E2E_PASSWORD")
    assert_error(call("doctor", "-c", path), 2, "the environment variable E2E_PASSWORD is not set", "export")


def test_a_wrong_password(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write()
    monkeypatch.setenv("E2E_PASSWORD", f"{PASSWORD}-wrong")
    for command in ("doctor", "run"):
        assert_error(call(command, "-c", path), 3, "Access denied|refuses", "password")


def test_a_host_where_nobody_listens(write: Write) -> None:
    path = write(port=free_port())
    assert_error(call("doctor", "-c", path), 3, r"cannot connect|refused|reach", "")
    told = json.loads(call("doctor", "-c", path, "--json").stdout)
    assert told["kind"] == "transient"


@pytest.mark.parametrize(
    ("user", "name", "what"),
    [
        ("no_slave", "REPLICATION SLAVE", "the user has no REPLICATION SLAVE right"),
        ("no_client", "REPLICATION CLIENT", "the user has no REPLICATION CLIENT right"),
    ],
)
def test_a_right_that_is_missing(write: Write, user: str, name: str, what: str) -> None:
    result = call("doctor", "-c", write(user=user), "--json")
    assert result.exit_code == 1
    found = findings(result)
    assert list(found) == [name]
    assert (found[name]["what"], found[name]["hint"]) == (what, f"GRANT {name} ON *.* TO '{user}'@'127.0.0.1'")


def test_the_worst_comes_first_and_all_of_it_is_counted(write: Write) -> None:
    shown = call("doctor", "-c", write(user="no_slave")).stdout.splitlines()
    marks = [mark for line in shown if (mark := line.split()[0]) in ("error", "warning", "ok")]
    assert marks == sorted(marks, key=["error", "warning", "ok"].index)
    assert re.fullmatch(r"1 error, \d+ warnings?", shown[-1])


def test_the_version(write: Write) -> None:
    assert call("--version").stdout == f"lakehouse-cdc {version('lakehouse-cdc')}\n"


def test_a_user_who_may_not_select_sees_no_table(write: Write) -> None:
    result = call("doctor", "-c", write(user="no_select"), "--json")
    assert result.exit_code == 1
    [found] = findings(result).values()
    assert "no table matches" in found["what"]
    assert "SELECT" in found["hint"]


@pytest.mark.parametrize("tables", ['"shop.nothing"', '"shop.*", "other.*"', '"nowhere.*"'])
def test_a_pattern_that_matches_nothing(write: Write, tables: str) -> None:
    result = call("doctor", "-c", write(tables=tables), "--json")
    assert result.exit_code == 1
    [found] = findings(result).values()
    assert "no table matches" in found["what"]
    assert "check the name" in found["hint"]


@pytest.mark.parametrize(("name", "value"), [("binlog_row_image", "MINIMAL"), ("server_id", "0")])
def test_a_setting_that_must_change(write: Write, sql: Callable[[str], None], name: str, value: str) -> None:
    before = {"binlog_row_image": "FULL", "server_id": "1"}[name]
    sql(f"SET GLOBAL {name} = {value}")
    try:
        result = call("doctor", "-c", write())
        assert result.exit_code == 1
        assert f"error {name}: {name} is {value}" in result.stdout
        assert f"SET PERSIST {name} = " in result.stdout.split(f"{name} is {value}")[1].split("->")[1].splitlines()[0]
    finally:
        sql(f"SET GLOBAL {name} = {before}")


def test_run_refuses_what_doctor_finds(write: Write, tmp_path: Path) -> None:
    assert_error(call("run", "-c", write(user="no_slave"), "--once"), 3, "no REPLICATION SLAVE right", "GRANT")
    assert_error(call("run", "-c", write(tables='"shop.nothing"'), "--once"), 3, "no table matches", "check the name")
    assert not (tmp_path / "lakehouse").exists()


def test_settings_that_contradict_each_other_are_refused_before_anything_is_written(write: Write) -> None:
    path = write(text=CONFIG + "tables:\n  shop.t: {{track: [v]}}\n")
    assert_error(call("run", "-c", path, "--once"), 2, r"without scd: 2 there are none \[tables\.shop\.t\]", "one of")
    assert [p.name for p in path.parent.rglob("*") if p.suffix != ".log"] == ["pipeline.yml"]


# ---------------------------------------------------------------- with Spark


@pytest.mark.long
def test_a_silver_table_of_somebody_else(write: Write, spark: SparkSession, tmp_path: Path) -> None:
    theirs = tmp_path / "lakehouse" / "silver" / "t"
    spark.range(3).write.format("delta").save(str(theirs))
    assert_error(call("run", "-c", write(), "--once"), 3, r"the table belongs to somebody else \[.*silver/t\]", "move")
    assert spark.read.format("delta").load(str(theirs)).count() == 3
    assert [p.name for p in theirs.parent.iterdir()] == ["t"]
    tables = [p.name for p in theirs.parents[1].iterdir() if not p.name.startswith("_")]  # a log there may be
    assert tables == ["silver"]


@pytest.mark.long
def test_the_password_is_nowhere(
    write: Write, spark: SparkSession, sql: Callable[[str], None], tmp_path: Path, capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """Not in what is printed and logged, nor in any file; nor when the planner fails, or a task."""
    caplog.set_level(logging.DEBUG, logger="lakehouse_cdc")
    path = write()
    good = call("run", "-c", path, "--once", "--json")
    assert good.exit_code == 0, good.output
    report = json.loads(good.stdout.splitlines()[-1])
    assert report["tables"]["shop.t"]["r"] == 2
    checked = call("verify", "-c", path, "--json")
    assert (checked.exit_code, json.loads(checked.stdout)["rows_compared"]) == (0, 2)
    stands = call("status", "-c", path)
    assert stands.exit_code == 0
    assert re.search(r"shop\.t\b.*done.* 2 ", stands.stdout), stands.stdout
    # a row image with holes: the source must stop, with nothing written
    sql("SET SESSION binlog_row_image = MINIMAL")
    sql("UPDATE shop.t SET v = 'c' WHERE id = 2")
    image = call("run", "-c", path, "--once", "--verbose")
    assert image.exit_code == 3
    assert "error: " in image.stderr
    assert "binlog_row_image" in image.stderr
    # the file is gone
    sql("FLUSH BINARY LOGS")
    sql("FLUSH BINARY LOGS")
    with_position = json.loads(call("status", "-c", path, "--json").stdout)
    sql(f"PURGE BINARY LOGS TO '{last_log(path, spark)}'")
    purged = call("run", "-c", path, "--once", "--verbose")
    assert purged.exit_code == 3
    last = purged.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert with_position["position"]["file"] in last
    assert "purged" in last
    assert "Hint: " in last
    printed = [r.output for r in (good, checked, stands, image, purged)] + [*capfd.readouterr(), caplog.text]
    assert not any(form.decode("latin1") in text for text in printed for form in FORMS)
    assert "s3cr3t" not in "".join(printed)
    held = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert len(held) > 20
    assert not [p for p in held if any(form in p.read_bytes() for form in FORMS)]


def last_log(path: Path, spark: SparkSession) -> str:
    """The newest binlog file of the server that a configuration names."""
    port = int(re.search(r"127.0.0.1:(\d+)", path.read_text())[1])  # type: ignore[index]
    with (
        closing(pymysql.connect(host="127.0.0.1", port=port, user="root")) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SHOW BINARY LOGS")
        return str(cursor.fetchall()[-1][0])


def test_a_server_without_a_binlog(write: Write, own: MySqlServer) -> None:
    """The last test of this module: the server is not fit for any other afterwards."""
    own.restart({"disable_log_bin": None})
    result = call("doctor", "-c", write(), "--json")
    assert result.exit_code == 1
    assert findings(result)["log_bin"]["what"] == "log_bin is OFF: the server writes no binlog"
