"""Commands of the CLI, called as a user would, with the smallest configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from lakehouse_cdc.cli.main import app


def call(code: int, *arguments: str | Path, as_json: bool = True) -> Any:
    result = CliRunner().invoke(app, [*map(str, arguments), *(["--json"] if as_json else [])])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout.splitlines()[-1]) if as_json else result.output


CONFIG = """\
name: shop
source:
  url: {url}
  tables: ["{database}.*"]
target:
  path: ./lakehouse
  bronze: bronze
  silver: silver
"""
