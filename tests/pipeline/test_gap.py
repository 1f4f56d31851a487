"""A purged log, and what is known of the time that it held: versions observed behind it, and none of inside."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.seq import Rank, unpack
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import pipeline
from tests.support.servers import connected


@pytest.fixture
def own() -> Iterator[MySqlServer]:
    """A server whose log may be purged."""
    with MySqlServer.start() as server:
        yield server


@pytest.mark.long
def test_behind_a_gap_history_is_what_was_seen(spark: SparkSession, own: MySqlServer, tmp_path: Path) -> None:
    lake = pipeline(spark, own, "gap", tmp_path, source={"on_gap": "resnapshot"}, tables={"gap.t": {"scd": 2}})
    with closing(connected(own)) as connection, connection.cursor() as cursor:

        def run(*statements: str) -> str:
            """The last one's GTID."""
            for statement in statements:
                cursor.execute(statement)
            cursor.execute("SELECT @@GLOBAL.gtid_executed")
            [(executed,)] = cursor.fetchall()
            uuid, _, numbers = str(executed).rpartition(":")
            return f"{uuid}:{numbers.rpartition('-')[2]}"

        run("CREATE DATABASE gap", "CREATE TABLE gap.t (id INT PRIMARY KEY, v INT)")
        run("INSERT INTO gap.t VALUES (1, 10), (2, 20), (3, 30)")
        lake.run(once=True)
        seen = run("UPDATE gap.t SET v = 11 WHERE id = 1")
        lake.run(once=True)
        time.sleep(0.1)
        unseen = run("UPDATE gap.t SET v = 21 WHERE id = 2", "DELETE FROM gap.t WHERE id = 3")
        inside = datetime.now(timezone.utc)
        time.sleep(1.1)  # what is read behind the gap has the time of a binlog's begin, in seconds
        cursor.execute("SHOW MASTER STATUS")
        file, pos = cursor.fetchall()[0][:2]
        run("INSERT INTO gap.t VALUES (4, 40)", "FLUSH BINARY LOGS")
        cursor.execute("SHOW MASTER STATUS")
        run(f"PURGE BINARY LOGS TO '{cursor.fetchall()[0][0]}'")
        lake.run(once=True)
        now = run("UPDATE gap.t SET v = 12 WHERE id = 1")
        lake.run(once=True)
    assert lake.verify().verified
    versions: dict[int, list[Any]] = {}
    for row in read(spark, lake.layout.silver_table("gap.t")).orderBy("__START_AT.seq").collect():
        ends = [moment and (parts.epoch, Rank(parts.rank)) for moment in (row["__START_AT"], row["__END_AT"])
                for parts in [unpack(int(moment.seq)) if moment else unpack(0)]]  # fmt: skip
        versions.setdefault(row["id"], []).append((row["v"], *ends))
    assert versions == {
        1: [(10, (1, Rank.READ), (1, Rank.EVENT)), (11, (1, Rank.EVENT), (2, Rank.EVENT)), (12, (2, Rank.EVENT), None)],
        2: [(20, (1, Rank.READ), (2, Rank.READ)), (21, (2, Rank.READ), None)],
        3: [(30, (1, Rank.READ), (2, Rank.END))],
        4: [(40, (2, Rank.READ), None)],
    }
    for moment in ({"gtid": unseen}, {"timestamp": inside}, {"position": f"{file}:{pos}"}):
        with pytest.raises(DefiniteError, match="cannot be had"):
            lake.as_of("gap.t", **moment)
    for gtid, rows in ((seen, {1: 11, 2: 20, 3: 30}), (now, {1: 12, 2: 21, 4: 40})):
        assert {row.id: row.v for row in lake.as_of("gap.t", gtid=gtid).collect()} == rows
