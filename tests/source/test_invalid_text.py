"""What a server stores without it being text becomes text all the same, and the same by snapshot and binlog."""

from __future__ import annotations

import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.changelog import Op
from tests.support.servers import row_metadata
from tests.support.source.stage import Stage

_RAW = ("61E462", "EDA080", "41EDA08042EDBFBF", "F8888080", "F09F98", "C0AF", "C3A9", "F4908080", "80", "E4", "E69797")
_LABELS = {"ENUM(0xE4, 'b')": "'b'", "ENUM(0x6162E4, 'b')": "'b'", "SET('x', 0xE4)": "'x'"}


def written(raw: str, ascii_alone: bool) -> str:
    """What is to be made of bytes that are stored."""
    data = bytes.fromhex(raw)
    if ascii_alone:
        return "".join(chr(byte) if byte < 0x80 else "?" for byte in data)
    text, at = "", 0
    while at < len(data):
        for size in (1, 2, 3, 4):
            try:
                text += data[at : at + size].decode()
            except UnicodeDecodeError:
                continue
            at += size
            break
        else:
            text += "?"
            at += 3 if data[at] == 0xED and len(data) >= at + 3 and data[at + 1] >= 0xA0 else 1
    return text


def test_bytes_that_are_no_text_are_question_marks(any_stage: Stage) -> None:
    stage = any_stage
    stage.run("SET sql_mode = ''")
    columns = {"c4": "CHAR(20) CHARACTER SET utf8mb4", "t4": "TEXT CHARACTER SET utf8mb4"}
    columns |= {"v3": "VARCHAR(20) CHARACTER SET utf8mb3", "a": "VARCHAR(20) CHARACTER SET ascii"}
    if stage.server.version == "mysql-5.7":
        columns["v3"] = "VARCHAR(20) CHARACTER SET utf8"
    stage.run(f"CREATE TABLE t (id INT PRIMARY KEY, b BLOB, {', '.join(f'{n} {d}' for n, d in columns.items())})")
    sets = ", ".join(f"{name} = b" for name in columns)
    for i, raw in enumerate(_RAW):
        stage.run(f"INSERT INTO t (id, b) VALUES ({i}, x'{raw}')")
        stage.run(f"UPDATE t SET {sets} WHERE id = {i}")
    driver = stage.driver()
    stage.snapshot(driver)
    stage.run(f"INSERT INTO t SELECT id + 100, b, {', '.join(columns)} FROM t")
    stage.run("UPDATE t SET b = ''")
    stage.drain(driver)
    stored = stage.run(f"SELECT id, {', '.join(f'HEX({name})' for name in columns)} FROM t")
    expected = {
        row[0]: {name: written(raw, name == "a") for name, raw in zip(columns, row[1:], strict=True)} for row in stored
    }
    seen = 0
    for change in driver.log:
        for image in (change.before, change.after):
            if image is not None and change.op is not Op.SCHEMA:
                row = dict(image)
                assert {name: row[name] for name in columns} == expected[row["id"]], (change.op, row["id"])
                seen += 1
    assert seen == len(_RAW) * 6
    if stage.server.version in ("mysql-5.7", "mariadb-10.11", "mariadb-11"):  # the others store none
        assert any("?" in text for row in expected.values() for text in row.values())


@pytest.mark.parametrize("declared", _LABELS)
def test_labels_that_are_no_text_are_refused_by_name(any_stage: Stage, declared: str) -> None:
    """By the catalog, where it shows, else by the first row that has one; the column may be excluded."""
    stage = any_stage
    stage.run("SET sql_mode = ''")
    stage.run(f"CREATE TABLE t (id INT PRIMARY KEY, e {declared} CHARACTER SET utf8mb4)")
    stage.run("INSERT INTO t VALUES (1, 1), (2, 2)")
    with row_metadata(stage.server, "least"), pytest.raises(DefiniteError, match=r"column e.*(label|changed)"):
        refused(stage)
    driver = stage.driver(exclude=f'{{"{stage.name()}": ["e"]}}', schemaFolder=str(stage.folder / "without"))
    stage.snapshot(driver)
    stage.run("UPDATE t SET id = id + 10")
    stage.drain(driver)
    assert {dict(c.after)["id"] for c in driver.log if c.op is Op.INSERT} == {11, 12}


def refused(stage: Stage) -> None:
    driver = stage.driver()
    stage.snapshot(driver)
    stage.run("UPDATE t SET e = 1")
    stage.drain(driver)


@pytest.mark.parametrize("any_server", ["mysql-5.7", "mysql-8.0", "mariadb-11"], indirect=True)
def test_a_question_mark_in_a_label_needs_the_labels_in_the_log(any_stage: Stage) -> None:
    stage = any_stage
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, e ENUM('yes', '?'))")
    stage.run("INSERT INTO t VALUES (1, '?'), (2, 'yes')")
    with row_metadata(stage.server, "least"), pytest.raises(DefiniteError, match=r"column e with a `\?` in a label"):
        stage.driver(schemaFolder=str(stage.folder / "least")).batch()
    if stage.server.version != "mysql-5.7":
        driver = stage.driver()
        stage.snapshot(driver)
        stage.run("UPDATE t SET e = '?'")
        stage.drain(driver)
        stage.same(driver)
