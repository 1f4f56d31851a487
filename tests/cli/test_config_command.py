"""`lakehouse-cdc config`: a file is checked, and its values are shown, without a server; the schema is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lakehouse_cdc.cli.main import app
from lakehouse_cdc.pipeline.config.reference import json_schema

CONFIG = """\
name: shop
source: {url: "mysql://cdc@db:3306", tables: ["shop.*"], password: "${env:NOT_SET}", plan_seconds: 2}
target: {path: lakehouse, bronze: bronze}
tables: {shop.orders: {scd: 2}}
"""


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["config", *map(str, arguments)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yml"
    path.write_text(CONFIG)
    return path


def test_the_schema_is_printed() -> None:
    assert call("--schema").stdout == json_schema()


def test_a_file_is_shown_with_its_defaults_and_no_secret(file: Path) -> None:
    values = json.loads(call("-c", file, "--json").stdout)
    assert values["source.plan_seconds"] == 2
    assert values["source.idle_seconds"] == 30
    assert values["source.password"] == "${env:NOT_SET}"
    assert values["tables.shop.orders.scd"] == 2
    assert not values.keys() & {"source", "target", "tables", "tables.shop.orders.deletes"}
    shown = call("-c", file).stdout
    assert "source.idle_seconds" in shown
    assert "default" in shown


def test_a_wrong_file_is_named_with_its_line(file: Path) -> None:
    file.write_text(CONFIG.replace("plan_seconds", "plan_secs"))
    result = call("-c", file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "source.plan_secs: unknown key" in result.stderr
    assert "pipeline.yml:2" in result.stderr
    assert "did you mean plan_seconds?" in result.stderr


@pytest.mark.parametrize("arguments", [[], ["--schema", "-c", "pipeline.yml"]])
def test_either_a_file_or_the_schema(arguments: list[str]) -> None:
    assert call(*arguments).exit_code == 2
