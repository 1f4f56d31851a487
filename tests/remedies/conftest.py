"""A stream without Spark, and a pipeline's file over a table of the shared server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pymysql
import pytest
import yaml

from lakehouse_cdc.testing import MySqlServer
from tests.support.source.stage import Stage, on_stage

Write = Callable[..., Path]


@pytest.fixture
def stage(mysql: MySqlServer, database: str, tmp_path: Path) -> Iterator[Stage]:
    """A stage on the shared server."""
    yield from on_stage(mysql, database, tmp_path)


@pytest.fixture
def write(
    mysql: MySqlServer, mysql_client: pymysql.Connection[Any], database: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Write:  # fmt: skip
    """`write({"source.tls": "required"})`: the file of a pipeline over `t`, with these values; None leaves a key out.

    Of every text among them, `{db}` is the test's database, and `{port}` the server's port.
    """
    with mysql_client.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)")
        cursor.execute(f"CREATE TABLE {database}.k (a INT NOT NULL, b INT)")
        cursor.execute(f"INSERT INTO {database}.t VALUES (1, 1), (2, 2)")
    monkeypatch.chdir(tmp_path)
    names = {"db": database, "port": str(mysql.port)}

    def written(changes: Mapping[str, Any] | None = None) -> Path:
        values: dict[str, Any] = {
            "name": "shop",
            "source": {"url": mysql.url, "tables": [f"{database}.*"]},
            "target": {"path": "lakehouse", "bronze": "bronze", "silver": "silver"},
        }
        for path, value in filled(changes or {}, names).items():
            *sections, key = path.split(".", 1)
            section = values.setdefault(sections[0], {}) if sections else values
            if value is None:
                section.pop(key, None)
            else:
                section[key] = value
        file = tmp_path / "pipeline.yml"
        file.write_text(yaml.safe_dump(values))
        return file

    return written


def filled(value: Any, names: Mapping[str, str]) -> Any:
    """The value with each `{name}` in its texts replaced."""
    if isinstance(value, Mapping):
        return {filled(key, names): filled(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [filled(one, names) for one in value]
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace(f"{{{name}}}", text)
    return value
