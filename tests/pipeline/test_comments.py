"""What people wrote on the server about tables and columns is in silver's, and follows ALTER ... COMMENT."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.comments import column_comments, table_comment
from lakehouse_cdc.lake.commits import newest_version
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.pipeline.start.comment_memory import NAME
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import pipeline


def shown(lake: Pipeline, name: str) -> tuple[str, dict[str, str]]:
    """Of a silver table what its comment begins with, and those of its columns."""
    place = lake.layout.silver_table(name)
    columns = column_comments(lake.spark, place)
    text = table_comment(lake.spark, place).partition(f"{name} as it is now;")[0]
    return text, {column: comment for column, comment in columns.items() if comment}


@pytest.mark.one_server
def test_silver_has_the_comments_of_the_source_and_follows_them(
    spark: SparkSession, mysql: MySqlServer, run: Callable[..., None], database: str, tmp_path: Path
) -> None:
    one, two = f"{database}.one", f"{database}.two"
    run("CREATE TABLE one (id INT PRIMARY KEY COMMENT 'its number', n INT) COMMENT 'What is sold'")
    run("INSERT INTO one VALUES (1, 1)")
    lake = pipeline(spark, mysql, database, tmp_path)
    lake.run(once=True)
    assert shown(lake, one) == ("What is sold (", {"id": "its number"})
    # no row changes, and a table that is new while the pipeline rests
    run("ALTER TABLE one MODIFY n INT COMMENT 'how many', COMMENT 'Sales'")
    run("CREATE TABLE two (id INT PRIMARY KEY COMMENT 'a key')", "INSERT INTO two VALUES (1)")
    lake.run(once=True)
    assert shown(lake, one) == ("Sales (", {"id": "its number", "n": "how many"})
    assert shown(lake, two) == ("", {"id": "a key"})
    version = newest_version(spark, lake.layout.silver_table(one))
    assert not lake.run(once=True).notices
    assert newest_version(spark, lake.layout.silver_table(one)) == version
    # unless they are not wanted
    run("ALTER TABLE one COMMENT 'Others'", "INSERT INTO one VALUES (2, 2)")
    silent = pipeline(spark, mysql, database, tmp_path, target={"comments": False})
    silent.run(once=True)
    assert shown(silent, one)[0] == "Sales ("
    assert lake.verify().verified
    with lake.resetting() as reset:
        reset.execute()
    assert not (lake.state / NAME).exists()
