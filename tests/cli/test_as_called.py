"""Commands in messages are shown as they have to be typed: under `uv run`, and for the file that was given."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_group

from lakehouse_cdc.cli.as_called import COMMANDS, as_called, program
from lakehouse_cdc.cli.main import app
from tests.support.documents import ROOT

UV_RUN = "UV_RUN_RECURSION_DEPTH"


@pytest.fixture
def by_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UV_RUN, "1")


def test_the_commands_are_those_of_the_program() -> None:
    assert set(COMMANDS) == set(get_group(app).commands)


def test_in_an_environment_the_program_has_its_own_name() -> None:
    text = "lakehouse-cdc signal -c pipeline.yml snapshot shop.orders"
    assert (program(), as_called(text), as_called(text, Path("pipeline.yml"))) == ("lakehouse-cdc", text, text)


@pytest.mark.usefixtures("by_uv")
@pytest.mark.parametrize(
    "text", ["lakehouse-cdc itself sets it", "the extra of lakehouse-cdc that it names", "lakehouse-cdc runs once"]
)
def test_other_words_stay(text: str) -> None:
    assert as_called(text) == text


@pytest.mark.usefixtures("by_uv")
def test_under_uv_run_commands_begin_with_it_once() -> None:
    text = "is gone; then: lakehouse-cdc reset -c pipeline.yml, or lakehouse-cdc bundle init --help"
    shown = as_called(text)
    assert (
        shown == "is gone; then: uv run lakehouse-cdc reset -c pipeline.yml, or uv run lakehouse-cdc bundle init --help"
    )
    assert as_called(shown) == shown


def test_the_file_is_the_one_that_was_given() -> None:
    shown = as_called("lakehouse-cdc run -c pipeline.yml --once; pipeline.yml stays", Path("my conf/prod.yml"))
    assert shown == "lakehouse-cdc run -c 'my conf/prod.yml' --once; pipeline.yml stays"
    assert as_called("Then lakehouse-cdc redact -c pipeline.yml.", Path("b.yml")).endswith("redact -c b.yml.")
    assert as_called(shown, Path("my conf/prod.yml")) == shown
    assert shlex.split(shown.partition(";")[0])[3] == "my conf/prod.yml"


@pytest.mark.process
def test_uv_run_is_noticed_and_json_keeps_the_one_form(tmp_path: Path) -> None:
    """`uv run` as users call it, and a message that names commands."""
    command = ["uv", "run", "--no-sync", "--project", str(ROOT), "lakehouse-cdc", "init", "--url", "cdc@db", "--json"]
    environment = {name: value for name, value in os.environ.items() if name != UV_RUN}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "uv run lakehouse-cdc init --help" in done.stderr
    assert "uv run" not in json.loads(done.stdout.splitlines()[-1])["hint"]
    own = [sys.executable, "-m", "lakehouse_cdc", *command[6:]]
    alone = subprocess.run(own, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert "uv run" not in alone.stderr
    assert "lakehouse-cdc init --help" in alone.stderr
