"""`init`: the file that it writes for the tables of a real server runs as it stands."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from lakehouse_cdc.cli.demo import NEXT
from lakehouse_cdc.cli.main import app
from lakehouse_cdc.errors import codes
from lakehouse_cdc.testing import MySqlServer
from tests.newcomer.terminal import COLUMNS
from tests.support.commands import call

pytestmark = pytest.mark.mysql


@pytest.fixture
def tables(run: Callable[..., None]) -> None:
    run(
        "CREATE TABLE orders (id BIGINT UNSIGNED PRIMARY KEY, total DECIMAL(10, 2), `odd # 'name` INT)",
        "INSERT INTO orders VALUES (1, 9.90, 1), (2, 0.10, NULL)",
        "CREATE TABLE log (line VARCHAR(20))",
        "INSERT INTO log VALUES ('a'), ('a')",
        "CREATE TABLE times (ts TIMESTAMP PRIMARY KEY, h INT AS (HOUR(ts)) VIRTUAL)",
        "CREATE TABLE hole (id INT PRIMARY KEY) ENGINE = BLACKHOLE",
        "CREATE VIEW v AS SELECT id FROM orders",
    )


@pytest.fixture
def init(mysql: MySqlServer, database: str, tmp_path: Path, tables: None) -> Callable[..., Any]:
    """`init(0)`: called with the tables of `database`, its exit code is 0."""

    def called(code: int, *more: str | Path, as_json: bool = True) -> Any:
        file = tmp_path / "pipeline.yml"
        return call(code, "init", file, "--url", mysql.url, "--tables", f"{database}.*", *more, as_json=as_json)

    return called


def test_the_file_names_tables_sizes_keys_and_reasons(
    init: Callable[..., Any], database: str, tmp_path: Path, mysql: MySqlServer
) -> None:
    done = init(0)
    assert set(done["tables"]) == {f"{database}.{name}" for name in ("orders", "log", "times")}
    text = (tmp_path / "pipeline.yml").read_text()
    assert yaml.safe_load(text) == {
        "name": database,
        "source": {"url": mysql.url, "tables": [f"{database}.*", f"!{database}.hole"], "tls": "preferred"},
        "target": {"path": "./lakehouse", "bronze": f"{database}_bronze", "silver": f"{database}_silver"},
        "tables": {f"{database}.times": {"exclude": ["h"]}},
    }
    [orders] = [line for line in text.splitlines() if line.startswith(f"#   {database}.orders: about ")]
    assert orders.endswith("columns: 3; key: id bigint unsigned")
    [log] = [line for line in text.splitlines() if line.startswith(f"#   {database}.log: about ")]
    assert log.endswith("columns: 1; no key: equal rows are counted")
    [hole] = [line for line in text.splitlines() if "hole" in line]
    assert "BLACKHOLE" in hole
    [column] = [line for line in text.splitlines() if line.startswith("      - h")]
    assert "virtual generated" in column


def steps(said: str, program: str) -> list[list[str]]:
    """The commands that it says are next, without the program's name."""
    _, _, after = said.partition("pipeline.yml has 3 tables. Next:\n")
    commands = [line.partition("#")[0].strip() for line in after.splitlines()]
    assert [command for command in commands if not command.startswith(f"{program} ")] == []
    return [shlex.split(command.removeprefix(program)) for command in commands]


def test_what_it_says_next_can_be_done(init: Callable[..., Any], database: str) -> None:
    commands = steps(init(0, as_json=False), "lakehouse-cdc")
    assert [name for name, *_ in commands] == ["doctor", "run", "verify"]
    *_, verified = [call(0, *command) for command in commands]
    assert {name: one["equal"] for name, one in verified["tables"].items()} == {
        f"{database}.{name}": True for name in ("orders", "log", "times")
    }


def test_by_uv_run_it_says_so(init: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_RUN_RECURSION_DEPTH", "1")
    assert len(steps(init(0, as_json=False), "uv run lakehouse-cdc")) == 3


def test_no_password_is_written_and_no_file_overwritten(
    mysql: MySqlServer, run: Callable[..., None], tables: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INIT_PASSWORD", "s3cret")
    run("CREATE USER init_reader@'127.0.0.1' IDENTIFIED BY 's3cret'", "GRANT ALL ON *.* TO init_reader@'127.0.0.1'")
    url = mysql.url.replace("root@", "init_reader@")
    file = tmp_path / "all.yml"
    call(0, "init", file, "--url", url, "--password-env", "INIT_PASSWORD")
    text = file.read_text()
    assert "s3cret" not in text
    written = yaml.safe_load(text)
    assert written["name"] == "mysql"
    assert written["source"]["password"] == "${env:INIT_PASSWORD}"
    assert written["source"]["tables"][0] == "*.*"
    refused = call(2, "init", file, "--url", url, "--password-env", "INIT_PASSWORD")
    assert refused["code"] == codes.DRAFT_PLACE_UNUSABLE.label
    assert file.read_text() == text
    secret = url.replace("init_reader@", "init_reader:s3cret@")
    said = CliRunner().invoke(app, ["init", str(tmp_path / "none.yml"), "--url", secret])
    assert (said.exit_code, "s3cret" in said.output) == (2, False)
    assert not (tmp_path / "none.yml").exists()


def test_a_source_without_a_table(mysql: MySqlServer, tmp_path: Path) -> None:
    refused = call(3, "init", tmp_path / "f.yml", "--url", mysql.url, "--tables", "nowhere.*")
    assert refused["code"] == codes.SELECTION_UNMATCHED.label
    assert not (tmp_path / "f.yml").exists()


def test_what_the_demo_says_next_can_be_done(
    mysql: MySqlServer, database: str, tables: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a user, a server, a database and a variable in their places."""
    assert max(len(f"  {command}") for command in NEXT) <= COLUMNS
    [line] = [command for command in NEXT if " init " in command]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP_PASSWORD", "")
    places = {"mysql://USER@HOST": mysql.url, "DB": database, "VAR": "SHOP_PASSWORD"}
    for place, value in places.items():
        assert line.count(place) == 1
        line = line.replace(place, value)
    program, *words = shlex.split(line)
    assert program == "lakehouse-cdc"
    assert set(call(0, *words)["tables"]) == {f"{database}.{name}" for name in ("orders", "log", "times")}
    assert (tmp_path / "pipeline.yml").exists()
