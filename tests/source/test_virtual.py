"""Virtual generated columns on every server: the images of the binlog and a SELECT agree on those that are captured."""

from __future__ import annotations

from contextlib import closing

from lakehouse_cdc.model.changelog import Op
from tests.support.servers import connected, require_generated_columns_in_the_log
from tests.support.source.stage import Stage

CREATE = """
CREATE TABLE t (
  id INT PRIMARY KEY, a INT, s VARCHAR(20), doc JSON, gone TIMESTAMP NULL,
  twice BIGINT AS (a * 2) VIRTUAL, k VARCHAR(30) AS (JSON_UNQUOTE(JSON_EXTRACT(doc, '$.k'))) VIRTUAL,
  both_ VARCHAR(50) AS (CONCAT(s, '-', a)) VIRTUAL, live INT AS (IF(gone IS NULL, 1, NULL)) VIRTUAL,
  more DECIMAL(20, 3) AS (twice + 1.5) VIRTUAL, len INT AS (CHAR_LENGTH(s)) STORED, UNIQUE (s, live), KEY (k)
)"""


def test_every_image_has_them(any_stage: Stage) -> None:
    stage = any_stage
    require_generated_columns_in_the_log(stage.server)
    stage.run(CREATE)
    stage.run("""INSERT INTO t (id, a, s, doc) VALUES (1, 1, 'x', '{"k": "v1"}'), (2, NULL, 'y', NULL)""")
    driver = stage.driver()
    stage.snapshot(driver)
    with closing(connected(stage.server, database=stage.database, charset="latin1")) as other:
        cursor = other.cursor()
        cursor.execute("SET time_zone = '+05:00', sql_mode = 'ANSI,PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION'")
        for sql in (
            """INSERT INTO t (id, a, s, doc) VALUES (3, 3, 'z', '{"k": "v3"}')""",
            "UPDATE t SET a = a + 5 WHERE id IN (1, 3)",
            "UPDATE t SET gone = NOW(), s = 'ß' WHERE id = 2",
            "UPDATE t SET id = 30 WHERE id = 3",
            "INSERT INTO t (id, a, s) VALUES (1, 9, 'dup') ON DUPLICATE KEY UPDATE a = VALUES(a)",
            """REPLACE INTO t (id, a, s, doc) VALUES (2, 8, 'rep', '{"k": 1}')""",
            "DELETE FROM t WHERE id = 30",
        ):
            cursor.execute(sql)
    stage.drain(driver)
    stage.same(driver)
    images = [dict(image) for c in driver.log if c.op is not Op.SCHEMA for image in (c.before, c.after) if image]
    for image in images:
        a = image["a"]
        assert image["twice"] == (None if a is None else 2 * a)
        assert image["both_"] == (None if a is None else f"{image['s']}-{a}")
        assert image["live"] == (1 if image["gone"] is None else None)
    assert {image["k"] for image in images} == {"v1", "v3", "1", None}
    assert len(images) > 10


def test_one_that_comes_later(any_stage: Stage) -> None:
    stage = any_stage
    require_generated_columns_in_the_log(stage.server)
    stage.create(rows=3)
    driver = stage.driver()
    stage.snapshot(driver)
    stage.run("ALTER TABLE t ADD COLUMN twice INT AS (v * 2) VIRTUAL")
    stage.run("UPDATE t SET v = 4 WHERE id = 10")
    stage.drain_twice(driver)
    stage.same_rows(driver)
    stage.run("ALTER TABLE t DROP COLUMN twice")
    stage.run("UPDATE t SET v = 5 WHERE id = 10")
    stage.drain_twice(driver)
    stage.same_rows(driver)
