"""The stages of the tests of the source; servers whose logs may be purged, reset and damaged; pipelines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pymysql
import pytest
import yaml
from pyspark.sql import SparkSession

from lakehouse_cdc.testing import MySqlServer
from tests.remedies.lake import Lake, new_lake
from tests.source.conftest import any_stage, at, stage
from tests.support.source.stage import Stage, on_stage

__all__ = ["any_stage", "at", "stage"]

Write = Callable[..., Path]
_numbers = count(1)


@pytest.fixture(scope="module")
def own_server() -> Iterator[MySqlServer]:
    """A server of these tests alone."""
    with MySqlServer.start() as server:
        yield server


@pytest.fixture
def own(own_server: MySqlServer, tmp_path: Path) -> Iterator[Stage]:
    """A stage on it."""
    yield from on_stage(own_server, f"remedies_{next(_numbers)}", tmp_path)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, mysql: MySqlServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A pipeline over `t` and `u` of a database, shared by the tests of a module."""
    with new_lake(spark, mysql, tmp_path_factory.mktemp("remedied")) as made:
        yield made


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
