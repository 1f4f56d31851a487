"""The source as `verify` reads it: the server's own text, exactly at a position, by none of the loader's parsers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.images import program
from lakehouse_cdc.images.opcodes import ARG, ARG2, HEADER
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.schema.table import Column
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.verify.reading import BY_IMAGE
from tests.support.source import types_table
from tests.support.source.stage import Stage, on_stage
from tests.support.texts import differing, imaged, loaded, offset_of, printed

pytestmark = pytest.mark.every_server

_ARG, _ARG2 = ARG - HEADER, ARG2 - HEADER


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
        # the column that MariaDB 11.8 does not log
        excluded = {stage.name(): ["twice"]} if stage.server.version == "mariadb-11" else {}
        driver = stage.driver(chunkRows="1000", exclude=json.dumps(excluded))
        stage.snapshot(driver)
        offset = offset_of(stage, driver)
        there, here = printed(stage, offset), loaded(stage, offset)
        assert len(there) == len(stage.run("SELECT 1 FROM t"))
        assert differing(there, here) == set()
        assert not any(row[BY_IMAGE] for row in there)
        assert not any(row["not representable"] for row in there)


# column -> its type, a value, and what of the loader's step for it is wrong: a field, counted from HEADER, and by what
MUTATIONS: dict[str, tuple[str, str, int, int]] = {
    "scale": ("DECIMAL(10,3)", "-7.125", _ARG2, 1),
    "span": ("TIME(4)", "'-10:00:00.2501'", _ARG, -2),
    "moment": ("DATETIME(6)", "'2024-02-29 12:34:56.000001'", _ARG, -2),
    "instant": ("TIMESTAMP(3) NULL", "'2024-02-29 12:34:56.007'", _ARG, -2),
    "natural": ("INT UNSIGNED", "4294967295", _ARG, 1),
    "padded": ("VARCHAR(20) CHARACTER SET utf8mb4", "'x  '", _ARG, 1),
    "label": ("ENUM('a', 'b', 'c')", "'b'", _ARG2, 0),
    "tags": ("SET('a', 'b', 'c')", "'a,c'", _ARG2, 0),
}


@pytest.mark.parametrize("wrong", MUTATIONS)
def test_one_parse_of_the_loader_made_wrong_is_a_difference(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    """What the loader makes of a row of the binlog is wrong in one column; what `verify` reads is not moved by it."""
    body = ", ".join(f"`{name}` {kind}" for name, (kind, *_) in MUTATIONS.items())
    stage.run(f"CREATE TABLE t (id INT PRIMARY KEY, {body})")
    driver = stage.driver()
    stage.snapshot(driver)
    spoil(monkeypatch, wrong)
    stage.run("SET time_zone = '+00:00'")
    stage.run(f"INSERT INTO t VALUES (1, {', '.join(value for _, value, *_ in MUTATIONS.values())})")
    stage.drain(driver)
    offset = offset_of(stage, driver)
    [inserted] = [dict(change.after) for change in driver.log if change.op is Op.INSERT]
    assert differing(printed(stage, offset), imaged(stage, offset, [inserted])) == {wrong}


def spoil(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Make the loader's step of one column wrong; the labels of an ENUM or SET are one place off."""
    *_, field, by = MUTATIONS[name]

    def wrong(column: Column, found: list[Any]) -> list[Any]:
        if column.name == name:
            found[field] += by
        return found

    def reading(column: Column, table: str, pool: Any) -> tuple[int, int, list[int]]:
        binlog, wire, written = program_reading(column, table, pool)
        return binlog, wire, wrong(column, written)

    def labelled(column: Column, pool: Any) -> tuple[int, list[int]]:
        if column.name != name:
            return program_labelled(column, pool)
        return program_labelled(replace(column, values=(*column.values[1:], column.values[0])), pool)

    program_reading, program_labelled = program._reading, program._labelled
    monkeypatch.setattr(program, "_reading", reading)
    monkeypatch.setattr(program, "_labelled", labelled)


def test_rows_that_are_written_meanwhile_are_read_as_they_stood(stage: Stage) -> None:
    """Such rows are read by the binlog's images, and marked; without a key as a multiset."""
    for name, key in (("t", " PRIMARY KEY"), ("u", "")):
        stage.run(f"CREATE TABLE {name} (id INT{key}, v VARCHAR(9))")
        stage.run(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'a'), (3, 'b'), (4, 'b')")
    driver = stage.driver()
    stage.snapshot(driver)
    stage.drain(driver)
    for name, images in (("t", {2, 3}), ("u", {2, 3})):
        offset = offset_of(stage, driver, name)
        assert offset.floor == offset.position

        def write(name: str = name) -> None:
            stage.run(f"UPDATE {name} SET v = 'c' WHERE id = 2")
            stage.run(f"DELETE FROM {name} WHERE id = 3")
            stage.run(f"INSERT INTO {name} VALUES (5, 'd')")

        rows = printed(stage, offset, between=write)
        assert [(row["id"], row["v"]) for row in rows] == [("1", "a"), ("2", "a"), ("3", "b"), ("4", "b")]
        assert {int(row["id"]) for row in rows if row[BY_IMAGE]} == images
        stage.run(f"ALTER TABLE {name} ADD COLUMN w INT")
        with pytest.raises(DefiniteError, match="changes the table"):
            printed(stage, offset)


def test_what_silver_cannot_hold_is_marked(stage: Stage) -> None:
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, doc JSON)")
    long = "CAST('12345678901234567890123456789012345678901234567890.5' AS DECIMAL(65,15))"
    stage.run(
        f"INSERT INTO t VALUES (1, JSON_OBJECT('n', {long})), (2, '[1.50, 1e300, 18446744073709551615]'), (3, NULL)"
    )
    stage.run("INSERT INTO t VALUES (4, JSON_ARRAY(CAST('0.123456789012345678901234567890' AS DECIMAL(65,30))))")
    driver = stage.driver()
    stage.snapshot(driver)
    rows = printed(stage, offset_of(stage, driver))
    assert [row["not representable"] for row in rows] == [["doc"], [], [], []]
    exact = printed(stage, offset_of(stage, driver), exactJson="true")
    assert exact[0]["doc"] == '{"n": 12345678901234567890123456789012345678901234567890.500000000000000}'
    assert exact[1]["doc"] == "[1.5, 1e300, 18446744073709551615]"
