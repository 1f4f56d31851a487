"""The source as `verify` reads it: the server's own text, exactly at a position, by none of the loader's parsers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse_cdc.mysql.kernels import program
from lakehouse_cdc.mysql.kernels.ops import ARG, ARG2, OP
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.verify.reading import BY_IMAGE
from tests.source import types_table
from tests.source.conftest import Stage, on_stage
from tests.verify.texts import differing, loaded, offset_of, printed


def test_edge_values_of_every_type_are_the_same_on_both_ways(
    any_server: MySqlServer, any_database: str, tmp_path: Path
) -> None:
    for stage in on_stage(any_server, any_database, tmp_path):
        columns = types_table.every(stage.connection)
        stage.run(types_table.ddl("t", columns))
        stage.run("SET time_zone = '+00:00'")
        names = ", ".join(f"`{c.name}`" for c in columns)
        for values in types_table.rows(columns, seed=5):
            stage.run(f"INSERT INTO t (id, n, {names}) VALUES {values}")
        driver = stage.driver(chunkRows="1000")
        stage.snapshot(driver)
        offset = offset_of(stage, driver)
        there, here = printed(stage, offset), loaded(stage, offset)
        assert len(there) == len(stage.run("SELECT 1 FROM t"))
        assert differing(there, here) == set()
        assert not any(row[BY_IMAGE] for row in there)
        assert not any(row["not representable"] for row in there)


# column -> its type, a value, and what of the loader's steps is wrong: the field and how much it is changed by
MUTATIONS: dict[str, tuple[str, str]] = {
    "decimal": ("DECIMAL(10,3)", "-7.125"),
    "span": ("TIME(2)", "'-10:00:00.25'"),
    "moment": ("DATETIME(6)", "'2024-02-29 12:34:56.000001'"),
    "natural": ("INT UNSIGNED", "4294967295"),
    "label": ("ENUM('a', 'b', 'c')", "'b'"),
    "padded": ("VARCHAR(20) CHARACTER SET utf8mb4", "'x  '"),
    "number": ("DOUBLE", "0.1"),
    "doc": ("JSON", "'{\"n\": 1.25}'"),
}


@pytest.mark.parametrize("column", MUTATIONS)
def test_one_parse_of_the_loader_made_wrong_differs_from_the_text(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    """Of one column what the loader reads is made wrong; what `verify` reads is not moved by it."""
    body = ", ".join(f"`{name}` {kind}" for name, (kind, _) in MUTATIONS.items())
    stage.run(f"CREATE TABLE t (id INT PRIMARY KEY, {body})")
    stage.run(f"INSERT INTO t VALUES (1, {', '.join(value for _, value in MUTATIONS.values())})")
    driver = stage.driver()
    stage.snapshot(driver)
    offset = offset_of(stage, driver)
    right = printed(stage, offset)
    assert differing(right, loaded(stage, offset)) == set()
    spoil(monkeypatch, column)
    assert printed(stage, offset) == right
    assert differing(right, loaded(stage, offset)) == {column}


def spoil(monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    raise NotImplementedError
