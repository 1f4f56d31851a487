"""A pipeline that has run once, of which a test makes something go wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehouse_cdc.errors import Code
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer
from tests.support.commands import CONFIG, call
from tests.support.servers import connected, new_database


@dataclass(frozen=True)
class Lake:
    """A pipeline over `t` and `u` of a database, that has run once, and the source's connection."""

    file: Path
    database: str
    run: Callable[[str], Any]
    spark: SparkSession

    def call(self, code: int, command: str, *arguments: str | Path) -> Any:
        return call(code, command, "-c", self.file, *arguments)

    def refused(self, code: int, of: Code[Any], command: str, *arguments: str | Path) -> str:
        """The hint of the error that ends a command."""
        said = self.call(code, command, *arguments)
        assert said["code"] == of.label, said
        hint: str = said["hint"]
        return hint

    def silver(self, table: str) -> Path:
        return Path(str(Pipeline.from_yaml(self.file).layout.silver_table(f"{self.database}.{table}").path))

    def continues(self, *reread: str) -> None:
        """A change arrives, silver equals the source, and of no other table than these is a row read again."""
        self.run("UPDATE t SET v = v + 1 WHERE id = 2")
        tables = self.call(0, "run", "--once")["tables"]
        assert {name for name, rows in tables.items() if rows.get("r")} <= {f"{self.database}.{t}" for t in reread}
        assert self.call(0, "verify")["verified"] is True


@contextmanager
def new_lake(spark: SparkSession, mysql: MySqlServer, folder: Path) -> Iterator[Lake]:
    """With its file, and its lakehouse, in the folder; the database is dropped at the end."""
    file = folder / "pipeline.yml"
    with new_database(mysql) as database, closing(connected(mysql, database=database)) as connection:

        def run(sql: str) -> Any:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return cursor.fetchall()

        for table in "tu":
            run(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)")
            run(f"INSERT INTO {table} VALUES (1, 10), (2, 20), (3, 30)")
        file.write_text(CONFIG.format(url=mysql.url, database=database))
        call(0, "run", "-c", file, "--once")
        yield Lake(file, database, run, spark)
