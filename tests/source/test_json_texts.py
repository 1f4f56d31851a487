"""JSON has one text a server: what a SELECT gives, and what is decoded from the binlog."""

from __future__ import annotations

import json
import random
import struct

import pytest

from lakehouse_cdc.model.changelog import Op
from tests.support.source.stage import Stage

_MYSQL = ["mysql-5.7", "mysql-8.0", "mysql-9"]
_SCALARS = (
    "1.0", "-0.0", "0.0", "1e5", "-1e14", "1e15", "123456789012345.0", "999999999999999.0", "1e16", "5e-324", "1e-5",
    "1.7976931348623157e308", "2.5e15", "0.1", "100", "-7", "18446744073709551615", "12345678901234567890123",
)  # fmt: skip
_TYPED = (
    "CAST(1.10 AS DECIMAL(5, 2))", "CAST(100 AS DECIMAL(5, 0))", "CAST(-0.5 AS DECIMAL(65, 30))", "1e0", "1e20", "1.5",
    "CAST('2024-02-29' AS DATE)", "CAST('2024-02-29 12:00:00.5' AS DATETIME(6))", "CAST('-838:59:59' AS TIME)",
    "CAST('00:00:00.25' AS TIME(2))", "_binary x'00ff41'", "TRUE", "NULL", "CAST(18446744073709551615 AS UNSIGNED)",
    "ST_GeomFromText('POINT(1 2.5)')", "'text \\\\ \\n é'", "CONCAT(REPEAT('x', 300), '\"')",
)  # fmt: skip


def expressions(rng: random.Random, count: int) -> list[str]:
    """SQL that gives documents: numbers of all magnitudes, values of the server's own types, and these nested."""
    found = [f"CAST('{text}' AS JSON)" for text in (*_SCALARS, json.dumps([float(text) for text in _SCALARS]))]
    found += [f"JSON_ARRAY({value})" for value in _TYPED]
    while len(found) < count:
        bits = struct.unpack("<d", rng.randbytes(8))[0]
        whole = float(rng.randrange(-(10 ** rng.randrange(1, 22)), 10 ** rng.randrange(1, 22)))
        numbers = [n for n in (bits, whole, whole / 8, rng.random()) if n == n and abs(n) != float("inf")]
        typed = ", ".join(rng.sample(_TYPED, 3))
        found.append(f"JSON_OBJECT('k', CAST('{json.dumps(numbers)}' AS JSON), 'typed', JSON_ARRAY({typed}))")
    return found


@pytest.mark.parametrize("any_server", _MYSQL, indirect=True)
def test_the_binlog_has_the_text_that_a_select_gives(any_stage: Stage, seed: int) -> None:
    stage, rng = any_stage, random.Random(seed)
    stage.run("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL DEFAULT 0, doc JSON)")
    documents = expressions(rng, 150)
    for i, document in enumerate(documents):
        stage.run(f"INSERT INTO t (id, doc) VALUES ({i}, {document})")
    driver = stage.driver(chunkRows="1000")
    stage.snapshot(driver)
    stage.run("INSERT INTO t SELECT id + 1000, n, doc FROM t")
    stage.run("UPDATE t SET n = 1")
    if stage.server.version != "mysql-5.7":
        stage.run("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'")
        stage.run("UPDATE t SET doc = JSON_REPLACE(doc, '$.k[0]', 7.0e0, '$.typed[1]', CAST('11:00' AS TIME)), n = 2")
        stage.run("SET SESSION binlog_row_value_options = ''")
    stage.drain(driver)
    stage.same(driver)
    first = {dict(c.after)["id"]: dict(c.after)["doc"] for c in driver.log if c.op is Op.READ}
    added = {dict(c.after)["id"] - 1000: dict(c.after)["doc"] for c in driver.log if c.op is Op.INSERT}
    assert len(first) == len(documents)
    assert added == first
