"""A whole pipeline whose source fails over: bronze, silver, time travel across it, and verify."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing.versions import Version
from tests.support.pipelines import assert_each_event_once, bronze, pipeline
from tests.support.source.replication import Member, group

pytestmark = pytest.mark.long


def written(member: Member, sql: str) -> str:
    """Execute a transaction; its GTID."""
    member.run(sql)
    if member.is_mariadb:
        return str(member.run("SELECT @@last_gtid")[0][0])
    executed = str(member.run("SELECT @@GLOBAL.gtid_executed")[0][0]).replace("\n", "")
    own = str(member.run("SELECT @@server_uuid")[0][0])
    [mine] = [part for part in executed.split(",") if part.startswith(own)]
    return f"{own}:{mine.rpartition(':')[2].rpartition('-')[2]}"


def held(lake: Pipeline, gtid: str) -> dict[int, int]:
    return {row["id"]: row["v"] for row in lake.as_of("shop.t", gtid=gtid).collect()}


@pytest.mark.parametrize("version", ["mysql-5.7", "mysql-8.0", "mariadb-11"])
def test_bronze_silver_and_time_travel_across_a_failover(spark: SparkSession, version: Version, tmp_path: Path) -> None:
    with group(version) as (primary, replica):
        primary.run("CREATE DATABASE shop")
        primary.run("CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)")
        primary.run("INSERT INTO shop.t VALUES (1, 10), (2, 20), (3, 30)")
        urls = [one.server.url for one in (primary, replica)]
        source = {"url": urls, "on_failover": "follow"}
        lake = pipeline(spark, primary.server, "shop", tmp_path, source=source)
        lake.run(once=True)
        before = written(primary, "UPDATE shop.t SET v = 11 WHERE id = 1")
        assert not [f for f in lake.doctor() if f.severity == "error"]
        [other] = [f for f in lake.doctor() if f.name == f"127.0.0.1:{replica.server.port}"]
        assert other.what.startswith("a stream could follow to this server")
        lake.run(once=True)
        replica.caught_up(primary)
        primary.server.kill()
        replica.promoted()
        first = written(replica, "UPDATE shop.t SET v = 12 WHERE id = 1")
        second = written(replica, "DELETE FROM shop.t WHERE id = 2")
        report = lake.run(once=True)
        assert report.to_json()["position"]["server_uuid"] != ""
        assert_each_event_once(bronze(spark, lake).where("op <> 's'"))
        changed = bronze(spark, lake).where("op in ('u', 'd')").orderBy("seq").select("op").collect()
        assert [row["op"] for row in changed] == ["u", "u", "d"]
        assert bronze(spark, lake).where("op = 'r'").count() == 3, "nothing is read again"
        assert held(lake, before) == {1: 11, 2: 20, 3: 30}
        assert held(lake, first) == {1: 12, 2: 20, 3: 30}
        assert held(lake, second) == {1: 12, 3: 30}
        verified = lake.verify()
        assert verified.verified
        assert lake.status().to_json()["position"]["epoch"] == 2
