"""Tables and a checkpoint that an earlier release wrote are continued, and nothing is read again without need.

The archives in this folder are kept as `write` made them; each has the source's binlog too, so the server here is the
one that the checkpoint names, with the same log. The release was killed while tables were read again, with an XA
transaction that was prepared, and never ends.
"""

from __future__ import annotations

import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.compatibility.write import ENVIRONMENT, execute
from tests.support.pipelines import assert_each_event_once, bronze
from tests.support.servers import connected

KEPT = sorted(Path(__file__).parent.glob("*.tar.gz"))
# rows read by the earlier release that no reason exists to read again
READ_ONCE = {"plain": 3, "versions": 3, "log": 3, "people": 2, "twokeys": 2, "dropped": 1}
THEN = """\
UPDATE plain SET w = 'later' WHERE id = 1
ALTER TABLE plain MODIFY n BIGINT NOT NULL, ADD COLUMN e ENUM('x', 'y')
UPDATE plain SET e = 'y', n = 9000000000 WHERE id = 2
UPDATE versions SET v = v + 1
INSERT INTO marked VALUES (2, 22)
INSERT INTO log VALUES (1), (4)
INSERT INTO people VALUES (3, 'a@b.c', 3)
UPDATE people SET email = 'new@b.c' WHERE id = 1
DELETE FROM twokeys WHERE a = 'X'
DELETE FROM late WHERE id % 2
CREATE TABLE dropped (id INT PRIMARY KEY, again INT)
INSERT INTO dropped VALUES (1, 2)"""


@pytest.fixture(params=KEPT, ids=lambda path: path.name.partition(".")[0])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """What the release left: `home`, `log`, `rows.sql`."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.fixture
def source(kept: Path) -> Iterator[MySqlServer]:
    """A server with the identity, the log and the rows of the one that the release read from."""
    with MySqlServer.start(kept / "server") as server:
        [identity] = (kept / "server").rglob("auto.cnf")
        server.kill()
        for file in identity.parent.glob("mysql-bin.*"):
            file.unlink()
        for file in (kept / "log").iterdir():
            (identity.parent / file.name).write_bytes(file.read_bytes())
        server.restart()
        with closing(connected(server)) as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_log_bin = 0")  # the log has it all
            cursor.execute("CREATE DATABASE shop")
            cursor.execute("USE shop")
            for statement in (kept / "rows.sql").read_text(encoding="utf-8").splitlines():
                cursor.execute(statement)
        yield server


@pytest.mark.long
def test_what_an_earlier_release_wrote_is_continued(
    spark: SparkSession, kept: Path, source: MySqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SHOP_PASSWORD", "SHOP_SALT"):
        monkeypatch.setenv(name, ENVIRONMENT[name])
    settings = [f"source.url=mysql://cdc@127.0.0.1:{source.port}"]
    lake = Pipeline.from_yaml(kept / "home" / "pipeline.yml", spark, settings=settings)
    before = bronze(spark, lake)
    held = before.count()
    lake.run(once=True)
    assert_verified(lake)
    assert bronze(spark, lake).count() > held
    execute(source, THEN)
    lake.run(once=True)
    lake.run(once=True)
    assert_verified(lake)
    rows = bronze(spark, lake)
    assert_each_event_once(rows.where("source_table <> 'shop.log'"))  # whose rows have no key
    read = Counter(row.source_table.removeprefix("shop.") for row in rows.where("op = 'r'").collect())
    assert read == {**READ_ONCE, "marked": 3 + 2, "late": 13 * 13}


def assert_verified(lake: Pipeline) -> None:
    report = lake.verify()
    assert report.verified, report.to_json()
    assert not report.quarantined
