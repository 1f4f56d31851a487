"""Rows that match a predicate are read again, and no others, whatever silver has made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import ConfigError, DefiniteError, TransientError, codes
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.support.commands import CONFIG, call
from tests.support.pipelines import bronze, pipeline
from tests.support.servers import connected

_ROWS = "(1, 'paid', 5, 's1'), (2, 'Paid', 6, 's2'), (3, 'new', 7, 's3'), (4, 'new', 8, 's4'), (5, 'sent', 9, 's5')"


@pytest.fixture(scope="module")
def shop(mysql: MySqlServer) -> Iterator[str]:
    name = "predicate"
    with closing(connected(mysql, charset="utf8mb4")) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        cursor.execute(f"USE {name}")
        cursor.execute("CREATE TABLE orders (id INT PRIMARY KEY, status VARCHAR(9), n INT, secret VARCHAR(9))")
        cursor.execute(f"INSERT INTO orders VALUES {_ROWS}")
        cursor.execute("CREATE TABLE no_key (id INT)")
        cursor.execute("CREATE TABLE many (id INT AUTO_INCREMENT PRIMARY KEY)")
        cursor.execute(
            "INSERT INTO many SELECT 0 FROM INFORMATION_SCHEMA.COLLATIONS a, INFORMATION_SCHEMA.COLLATIONS b"
        )
        cursor.execute("SELECT COUNT(*) > 10000 FROM many")
        assert cursor.fetchall() == ((1,),)
        yield name
        cursor.execute(f"DROP DATABASE {name}")


@pytest.fixture(scope="module")
def lake(spark: SparkSession, mysql: MySqlServer, shop: str, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    tables = {
        f"{shop}.orders": {"rename": {"status": "state"}, "masks": {"secret": None}},
        f"{shop}.no_key": {"append": True},
    }
    found = pipeline(spark, mysql, shop, tmp_path_factory.mktemp("lake"), tables=tables)
    found.run(once=True)
    return found


@pytest.mark.long
def test_what_matches_on_either_side_is_read(
    spark: SparkSession, mysql: MySqlServer, shop: str, lake: Pipeline
) -> None:
    orders = f"{shop}.orders"
    place = lake.layout.silver_table(orders)
    silver, before = f"delta.`{place.path}`", bronze(spark, lake).count()
    spark.sql(f"DELETE FROM {silver} WHERE id = 1")  # lost: the source alone names it
    spark.sql(f"UPDATE {silver} SET n = -1 WHERE id IN (2, 3)")  # of 2 the source says that it is paid
    spark.sql(f"UPDATE {silver} SET state = 'paid' WHERE id = 4")  # silver alone says that it is
    spark.sql(f"INSERT INTO {silver} BY NAME SELECT * EXCEPT (id), 9 AS id FROM {silver} WHERE id = 4")
    with pytest.raises(ConfigError, match="no captured table matches"):
        lake.read_again_where([f"{shop}.nowhere"], "true")
    assert lake.read_again_where([orders], "status = 'none such'") == {orders: 0}
    assert not lake.signals.repairs()
    assert lake.read_again_where([orders], "status = 'paid' -- of all shops") == {orders: 4}
    lake.run(once=True)
    new = bronze(spark, lake).orderBy("seq").collect()[before:]
    assert Counter(row.op for row in new) == {"r": 3, "d": 1}
    assert {(r.id, r.state, r.n) for r in read(spark, place).collect()} == {
        (1, "paid", 5), (2, "Paid", 6), (3, "new", -1), (4, "new", 8), (5, "sent", 9)
    }  # fmt: skip
    assert [d.key for t in lake.verify().tables for d in t.differences] == [{"id": 3}]
    assert lake.read_again_where([orders], "id BETWEEN 2 AND 3 AND (n IS NULL OR n < 100)") == {orders: 2}
    lake.run(once=True)
    assert all(t.equal for t in lake.verify().tables)


@pytest.mark.long
@pytest.mark.parametrize(
    ("table", "predicate", "what"),
    [
        ("orders", "staus = 'paid'", "the source refuses 'staus = 'paid'': .*staus"),
        ("orders", "status = 'paid' ORDER BY", "the source refuses"),
        ("orders", "state = 'paid'", "the source refuses"),  # silver's name
        ("orders", "FIND_IN_SET('a', status) AND n MEMBER OF ('[7]')", "Spark refuses"),
        ("orders", "id IN (SELECT id FROM predicate.many)", "Spark refuses"),
        ("orders", "secret = 's1'", "Spark refuses .*UNRESOLVED_COLUMN"),
        ("orders", "1 = 1) OR (1 = 1", None),
        ("many", "id > 0", "more than 10,000 rows"),
        ("no_key", "id > 0", "cannot be looked for"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    shop: str, lake: Pipeline, table: str, predicate: str, what: str | None
) -> None:
    name = f"{shop}.{table}"
    if what is None:
        assert lake.read_again_where([name], predicate) == {name: 5}
        return
    with pytest.raises(DefiniteError, match=what) as refused:
        lake.read_again_where([name], predicate)
    assert name in str(refused.value)
    assert refused.value.hint


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("ADD COLUMN b INT DEFAULT 7", marks=pytest.mark.long),
        pytest.param("CHANGE a b INT", marks=pytest.mark.long),
        "CHANGE a b INT, CHANGE c a INT",
    ],
)
def test_it_is_not_asked_of_a_silver_table_with_other_columns(
    spark: SparkSession, mysql: MySqlServer, database: str, run: Callable[..., None], tmp_path: Path, change: str
) -> None:
    """The swap: silver has a column of that name, and it is another's."""
    name = f"{database}.t"
    run("CREATE TABLE t (id INT PRIMARY KEY, a INT, c INT)", "INSERT INTO t VALUES (1, 1, 5), (2, 2, 1)")
    lake = pipeline(spark, mysql, database, tmp_path)
    lake.run(once=True)
    run(f"ALTER TABLE t {change}", "INSERT INTO t (id) VALUES (3)")
    assert lake.read_again_where([name], "id = 1") == {name: 1}  # of a change that nobody has read nothing is known
    pipeline(spark, mysql, database, tmp_path, target={"silver": None}).run(once=True)
    with pytest.raises(TransientError, match="silver has not applied") as refused:
        lake.read_again_where([name], "id = 1")
    assert (refused.value.code, refused.value.where) == (codes.TABLE_CHANGED_MEANWHILE, name)
    lake.run(once=True)
    assert lake.read_again_where([name], "a = 1" if "CHANGE c" in change else "b >= 2") != {name: 0}
    lake.run(once=True)
    assert lake.verify().verified


@pytest.mark.long
def test_the_command_line(spark: SparkSession, mysql: MySqlServer, database: str, tmp_path: Path) -> None:
    config, name = tmp_path / "pipeline.yml", f"{database}.t"
    config.write_text(CONFIG.format(url=mysql.url, database=database))
    with closing(connected(mysql)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)")
        cursor.execute(f"INSERT INTO {name} VALUES (1, 1), (2, 2), (3, 3)")
    call(0, "run", "-c", config, "--once")
    asked = call(0, "signal", "-c", config, "snapshot", name, "--where", "v >= 2")
    assert asked == {"read_again": [], "keys_read_again": {name: 2}}
    assert call(0, "run", "-c", config, "--once")["tables"] == {name: {"rows": 2, "r": 2}}
    assert call(2, "signal", "-c", config, "pause", "--where", "v >= 2")["error"] == "pause takes no --where"
    refused = call(3, "signal", "-c", config, "snapshot", name, "--where", "w = 1")
    assert str(refused["error"]).startswith("the source refuses")
