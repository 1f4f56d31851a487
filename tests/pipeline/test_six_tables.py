"""Six tables under writes, one fault after the other in one of them: with the default settings nothing ends the run.

The others have every row, and none of them is read again. After the way out that the guide names the table is exact.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import codes
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.remedies import remedy
from tests.support.pipelines import bronze, pipeline

OTHERS = ("a", "b", "c", "d", "e")


@dataclass(frozen=True)
class Fault:
    """`sql` makes it in table t (id, v, d DATE).

    What a user does then: `fix` on the source, `rename` in the configuration, and with `asks` a signal snapshot.
    """

    sql: tuple[str, ...]
    fix: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    asks: bool = False


LENIENT = "SET SESSION sql_mode = ''"
AS_TEXT = ("SET SESSION binlog_format = 'STATEMENT'", "UPDATE t SET v = v + 5", "SET SESSION binlog_format = 'ROW'")
LARGE = "INSERT INTO large (id, x, y, z) SELECT 1, REPEAT('x', 60000000), REPEAT('y', 60000000), REPEAT('z', 60000000)"
FAULTS = {
    "a date of zeros that is gone": Fault(
        (LENIENT, "INSERT INTO t (id, d) VALUES (100, '0000-00-00')", "DELETE FROM t WHERE id = 100")
    ),
    "a date of zeros": Fault(
        (LENIENT, "INSERT INTO t (id, d) VALUES (100, '0000-00-00')"), ("DELETE FROM t WHERE id = 100",), asks=True
    ),
    "a statement as text": Fault(AS_TEXT),
    "alters in a backlog": Fault(
        ("ALTER TABLE t ADD COLUMN total TIMESTAMP", "ALTER TABLE t ADD COLUMN w INT", "ALTER TABLE t MODIFY v BIGINT")
    ),
    "a column of silver's name": Fault(("ALTER TABLE t ADD COLUMN _seq INT",), rename={"_seq": "number"}),
    "another engine": Fault(("ALTER TABLE t ENGINE = BLACKHOLE",), ("ALTER TABLE t ENGINE = InnoDB",), asks=True),
    "no key": Fault(("ALTER TABLE t DROP PRIMARY KEY",), ("ALTER TABLE t ADD PRIMARY KEY (id)",)),
    "another table of its name": Fault(
        ("DROP TABLE t", "CREATE TABLE t (id INT PRIMARY KEY, v INT, d DATE)", "INSERT INTO t (id, v) VALUES (1, 1)")
    ),
    "a table of another engine comes": Fault(
        ("CREATE TABLE t2 (id INT PRIMARY KEY) ENGINE = BLACKHOLE", "INSERT INTO t2 VALUES (1)"), ("DROP TABLE t2",)
    ),
    "twenty alters": Fault(tuple(f"ALTER TABLE t ADD COLUMN c{n} INT" for n in range(20))),
}


@contextmanager
def writes(server: MySqlServer, database: str) -> Iterator[None]:
    """All tables are written until the block ends."""
    ended = threading.Event()

    def write() -> None:
        with closing(server.connect(autocommit=True, database=database)) as connection, connection.cursor() as cursor:
            n = 10
            while not ended.wait(0.25):
                n += 1
                for table in OTHERS:
                    cursor.execute(f"INSERT INTO {table} VALUES ({n}, 0)")
                    cursor.execute(f"UPDATE {table} SET v = v + 1 WHERE id % 3 = {n % 3}")
                    cursor.execute(f"DELETE FROM {table} WHERE id = {n - 5}")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def reads(spark: SparkSession, lake: Pipeline, database: str) -> int:
    """How many rows of the other tables were read by snapshots."""
    names = ", ".join(f"'{database}.{table}'" for table in OTHERS)
    return bronze(spark, lake).where(f"op = 'r' AND source_table IN ({names})").count()


@pytest.mark.long
@pytest.mark.timeout(0)
def test_each_fault_is_one_table_s(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    for table in ("t", *OTHERS):
        run(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT{', d DATE' if table == 't' else ''})")
        run(f"INSERT INTO {table} (id, v) VALUES (1, 1), (2, 2), (3, 3)")
    lake = pipeline(spark, mysql, database, tmp_path)
    lake.run(once=True)
    before = reads(spark, lake, database)
    with writes(mysql, database):
        for fault in FAULTS.values():
            run("UPDATE t SET v = v + 1", *fault.sql, "SET SESSION sql_mode = DEFAULT")
            lake.run(once=True)
            compared = lake.verify()
            assert {result.table.split(".")[1] for result in compared.tables if result.equal} >= {*OTHERS}, fault
            run(*fault.fix)
            if fault.rename:
                lake = pipeline(spark, mysql, database, tmp_path, tables={f"{database}.t": {"rename": fault.rename}})
            if fault.asks:
                lake.read_again([f"{database}.t"])
            lake.run(once=True)
            run("UPDATE t SET v = v + 1")
            lake.run(once=True)
            assert lake.verify().verified, fault
            assert lake.verify("bronze").verified, fault
            assert lake.status().healthy, fault
    assert reads(spark, lake, database) == before


@remedy(codes.ROW_TOO_LARGE)
@pytest.mark.long
def test_rows_that_are_too_large(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    """180 MB, gone at once; then there to stay, until the column is left out."""
    run(
        "CREATE TABLE large (id INT PRIMARY KEY, x LONGTEXT, y LONGTEXT, z LONGTEXT)",
        "INSERT INTO large (id) VALUES (9)",
    )
    run("CREATE TABLE a (id INT PRIMARY KEY, v INT)", "INSERT INTO a VALUES (1, 1)")
    lake = pipeline(spark, mysql, database, tmp_path)
    lake.run(once=True)
    run(LARGE, "DELETE FROM large WHERE id = 1", "UPDATE a SET v = 2")
    lake.run(once=True)
    assert lake.verify().verified
    assert lake.status().healthy
    run(LARGE, "UPDATE a SET v = 3")
    lake.run(once=True)
    reason = lake.status().tables[f"{database}.large"].quarantined
    assert reason.startswith(codes.ROW_TOO_LARGE.label)
    assert "exclude the large column" in reason
    assert [result.table for result in lake.verify().tables if result.equal] == [f"{database}.a"]
    changed = pipeline(spark, mysql, database, tmp_path, tables={f"{database}.large": {"exclude": ["x", "y"]}})
    changed.run(once=True)
    assert changed.status().healthy
    assert changed.verify().verified
