"""A time counts a prefix of the log, whatever a session says that the time is: on each server, live or as a backlog."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import pipeline

SAID = {2: "UNIX_TIMESTAMP('2035-01-01')", 4: "UNIX_TIMESTAMP('1999-01-01')"}


def value(lake: Pipeline, table: str, moment: datetime) -> int:
    """The only row's, as of a time; the versions of silver that stand at its seq say the same."""
    [row] = lake.as_of(table, timestamp=moment).collect()
    seq = lake.seq_at(timestamp=moment)
    versions = lake.spark.read.format("delta").load(str(lake.layout.silver_table(table)))
    [version] = versions.where(f"__START_AT.seq <= {seq}BD AND (__END_AT IS NULL OR __END_AT.seq > {seq}BD)").collect()
    assert version["v"] == row["v"]
    return int(row["v"])


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("live", [True, False], ids=["live", "backlog"])
def test_a_sessions_clock_moves_no_other_time(
    spark: SparkSession, any_server: MySqlServer, any_database: str, tmp_path: Path, live: bool
) -> None:
    table = f"{any_database}.t"
    lake = pipeline(spark, any_server, any_database, tmp_path, tables={table: {"scd": 2}})
    moments: list[datetime] = []
    with closing(any_server.connect(database=any_database, autocommit=True)) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        cursor.execute("INSERT INTO t VALUES (1, 0)")
        lake.run(once=True)
        answers: dict[datetime, int] = {}
        for n in range(1, 6):
            cursor.execute(f"SET timestamp = {SAID.get(n, 'DEFAULT')}")
            time.sleep(1.1)  # stamps may be whole seconds
            cursor.execute(f"UPDATE t SET v = {n}")
            moments.append(datetime.now(timezone.utc))
            if live or n == 5:
                lake.run(once=True)
                answers |= {moment: value(lake, table, moment) for moment in moments[:-1] if moment not in answers}
    session_clock = any_server.version not in ("mysql-8.0", "mysql-9")
    for n, moment in enumerate(moments[:-1], 1):
        assert value(lake, table, moment) == answers[moment], "an answer has changed"
        if not session_clock or n + 1 not in SAID:
            assert answers[moment] == n
        else:  # a stamp that nobody believes has the time before it, or `after` of the batch before where that is later
            assert answers[moment] in ({n, n + 1} if live else {n + 1})
    with pytest.raises(DefiniteError, match="has not reached"):
        lake.as_of(table, timestamp="2034-12-31T00:00:00+00:00")
    assert lake.verify().verified
