"""One rule for every type on every server: all images of a row are equal, and are what the server itself says.

Each row is read by the snapshot, and inserted, updated and deleted through the binlog by a session in another time zone
and another character set: the read image, the inserted one, those before and after an update, and the deleted one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.testing import MySqlServer
from tests.support.servers import row_metadata
from tests.support.source import types_table
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage, on_stage
from tests.support.source.types_table import Typed, through_the_binlog

pytestmark = pytest.mark.every_server


def told(stage: Stage, columns: list[Typed]) -> dict[int, dict[str, Any]]:
    """What the server says of each row, at UTC."""
    stage.run("SET time_zone = '+00:00'")
    shown = ", ".join(f"{c.shown.format(f'`{c.name}`')}" for c in columns)
    names = [c.name for c in columns]
    return {
        row[0]: {name: plain(value) for name, value in zip(names, row[1:], strict=True)}
        for row in stage.run(f"SELECT id, {shown} FROM t")
    }


def said(image: dict[str, Any], columns: list[Typed]) -> dict[str, Any]:
    """An image in the same words."""
    return {c.name: None if image[c.name] is None else c.say(image[c.name]) for c in columns}


def plain(text: Any) -> Any:
    return repr(float(text)) if isinstance(text, float) else text.decode() if isinstance(text, bytes) else text


@pytest.mark.parametrize("metadata", ["FULL", "least"])
def test_all_images_of_a_row_agree_and_are_what_the_server_says(
    any_server: MySqlServer, any_database: str, tmp_path: Path, metadata: str
) -> None:
    for stage in on_stage(any_server, any_database, tmp_path):
        columns = types_table.every(stage.connection)
        stage.run(types_table.ddl("t", columns))
        stage.run("SET time_zone = '+00:00'")
        for values in types_table.rows(columns, seed=len(metadata)):
            stage.run(f"INSERT INTO t (id, n, {', '.join(f'`{c.name}`' for c in columns)}) VALUES {values}")
        driver = driver_of(stage, 5)
        stage.snapshot(driver)
        with row_metadata(stage.server, metadata):
            through_the_binlog(stage, columns)
            expected = told(stage, columns)
            stage.run("DELETE FROM t")
        stage.drain(driver)
        compare(driver.log, columns, expected)


def driver_of(stage: Stage, chunk_rows: int) -> Driver:
    """Without the generated column where the server does not log it."""
    excluded = {stage.name(): ["twice"]} if stage.server.version == "mariadb-11" else {}
    return stage.driver(chunkRows=str(chunk_rows), exclude=json.dumps(excluded))


def compare(log: list[Change], columns: list[Typed], expected: dict[int, dict[str, Any]]) -> None:
    seen: dict[Op, int] = {}
    for change in log:
        for image in (change.before, change.after):
            if image is None or change.op is Op.SCHEMA:
                continue
            row = dict(image)
            assert row.get("twice", 2 * row["id"]) == 2 * row["id"]
            found = said(row, columns)
            wrong = {k: (found[k], expected[row["id"]][k]) for k in found if found[k] != expected[row["id"]][k]}
            assert not wrong, (change.op, row["id"], wrong)
            seen[change.op] = seen.get(change.op, 0) + 1
    half = len(expected) // 2
    assert seen == {Op.READ: half, Op.INSERT: half, Op.UPDATE: 4 * half, Op.DELETE: 2 * half}


_CHARACTERS = [chr(code) for code in range(1, 0x10000) if not 0xD800 <= code < 0xE000] + ["😀", "𠀋", "𝕬", "\U0010ffff"]


@pytest.mark.long
def test_every_character_of_every_character_set(any_server: MySqlServer, any_database: str, tmp_path: Path) -> None:
    """All of Unicode is given to the server; what it cannot hold in a character set it makes a question mark."""
    lines = ["".join(_CHARACTERS[i : i + 500]) for i in range(0, len(_CHARACTERS), 500)]
    for stage in on_stage(any_server, any_database, tmp_path):
        charsets = [c for c in types_table.charsets(stage.connection) if c != "utf8mb4"]
        columns = [Typed(c, f"TEXT CHARACTER SET {c}", (), *types_table.AS_UTF8) for c in charsets]
        stage.run("SET sql_mode = ''")
        stage.run(types_table.ddl("t", columns))
        for i, line in enumerate(lines):
            literal = f"_utf8mb4 x'{line.encode().hex()}'"
            stage.run(f"INSERT INTO t (id, {', '.join(charsets)}) VALUES ({i}{f', {literal}' * len(charsets)})")
        driver = driver_of(stage, 1000)
        stage.snapshot(driver)
        expected = told(stage, columns)
        read = {dict(c.after)["id"]: said(dict(c.after), columns) for c in driver.log if c.op is Op.READ}
        for charset in charsets:
            assert [read[i][charset] for i in expected] == [row[charset] for row in expected.values()], charset
