"""The entry point, as a console, `python -m` and a Databricks wheel task call it."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from lakehouse_cdc.cli.main import main
from lakehouse_cdc.testing import MySqlServer


def test_success_is_a_plain_return(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the command line's library would leave by SystemExit(0), which fails a wheel task."""
    monkeypatch.setattr(sys, "argv", ["lakehouse-cdc", "--help"])
    [point] = entry_points(group="console_scripts", name="lakehouse-cdc")
    assert point.load() is main
    main()
    assert "doctor" in capsys.readouterr().out


def test_failure_is_the_exit_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["lakehouse-cdc", "doctor", "-c", str(tmp_path / "absent.yml")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2


@pytest.mark.process
def test_the_shell_completes_commands_and_options() -> None:
    script = "from lakehouse_cdc.cli.main import app; app(prog_name='lakehouse-cdc')"
    for typed, completed in {"d": ["demo", "doctor", "dead-letters"], "run --on": ["--once"]}.items():
        words = ["lakehouse-cdc", *typed.split()]
        asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        given = {**os.environ, **asked, "_LAKEHOUSE_CDC_COMPLETE": "complete_bash"}
        ran = subprocess.run([sys.executable, "-c", script], env=given, capture_output=True, text=True)
        assert ran.stdout.split() == completed, ran.stderr


@pytest.mark.process
def test_the_module_is_the_command() -> None:
    ran = subprocess.run([sys.executable, "-m", "lakehouse_cdc", "--help"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "verify" in ran.stdout
    wrong = subprocess.run([sys.executable, "-m", "lakehouse_cdc", "nothing"], capture_output=True, text=True)
    assert wrong.returncode == 2


def test_settings_beside_the_file(mysql: MySqlServer, database: str, tmp_path: Path) -> None:
    """As a job's parameters give them, every command takes them."""
    config = tmp_path / "pipeline.yml"
    config.write_text(
        "name: a\nsource: {url: 'mysql://nobody@127.0.0.1:1', tables: ['x.*']}\ntarget: {path: lake, bronze: b}\n"
    )
    given = ["--set", f"source.url={mysql.url}", "--set", f"source.tables=[{database}.*]"]
    command = [sys.executable, "-m", "lakehouse_cdc", "doctor", "-c", str(config), "--json"]
    done = subprocess.run([*command, *given], capture_output=True, text=True)
    assert "no table" in done.stdout, done.stdout + done.stderr  # it reached the server, where the database is empty
    for name in ("run", "status", "verify", "maintain", "as-of", "signal"):
        told = ["pause"] if name == "signal" else []
        wrong = [sys.executable, "-m", "lakehouse_cdc", name, "-c", str(config), "--set", "name=/", *told]
        failed = subprocess.run(wrong, capture_output=True, text=True)
        assert failed.returncode == 2, name
        assert "--set name" in failed.stderr, failed.stderr


def test_doctor_needs_no_spark(mysql: MySqlServer, database: str, tmp_path: Path) -> None:
    """So it may run where no Spark of the right version is, such as serverless compute."""
    with closing(mysql.connect(database=database)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    config = tmp_path / "pipeline.yml"
    config.write_text(
        f"name: a\nsource: {{url: '{mysql.url}', tables: ['{database}.*']}}\ntarget: {{path: lake, bronze: b}}\n"
    )
    script = (
        "import sys\n"
        "sys.modules.update(pyspark=None, delta=None)\n"  # to import one of them is an error
        "sys.argv = ['lakehouse-cdc', 'doctor', '--json', '-c', sys.argv[1]]\n"
        "from lakehouse_cdc.cli.main import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(config)], capture_output=True, text=True)
    assert '"healthy": true' in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
