"""The reader for every table: a session of Spark's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_cdc.lake.commit_log import Commit
    from lakehouse_cdc.model.table_layout import Table


class SparkReader:
    """See `port.TableReader`. PySpark is imported as the first question is asked."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def exists(self, table: Table) -> bool:
        """See `port.TableReader`."""
        from lakehouse_cdc.lake.tables import exists

        return exists(self._spark, table)

    def properties(self, table: Table) -> Mapping[str, str]:
        """See `port.TableReader`."""
        from lakehouse_cdc.lake.tables import properties

        return properties(self._spark, table)

    def id(self, table: Table) -> str:
        """See `port.TableReader`."""
        from lakehouse_cdc.lake.tables import table_id

        return table_id(self._spark, table)

    def columns(self, table: Table) -> list[tuple[str, str]]:
        """See `port.TableReader`."""
        from lakehouse_cdc.lake.tables import held_columns

        return held_columns(self._spark, table)

    def commits(self, table: Table) -> Iterator[Commit]:
        """See `port.TableReader`."""
        from lakehouse_cdc.lake.commits import newest_first

        return newest_first(self._spark, table)

    def rows(self, table: Table, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """See `port.TableReader`."""
        from lakehouse_cdc.lake.engines.choice import engine_of

        held = {name for name, _ in self.columns(table)}
        yield from engine_of(self._spark, table).read(table, [name for name in columns if name in held])

    def count(self, table: Table, null: str | None = None) -> int:
        """See `port.TableReader`."""
        from lakehouse_cdc.lake.tables import read

        rows = read(self._spark, table)
        return (rows if null is None else rows.where(f"{null} IS NULL")).count()

    def counts(self, table: Table, by: str) -> Mapping[str, int]:
        """See `port.TableReader`."""
        from lakehouse_cdc.lake.tables import read

        return {row[by]: int(row["count"]) for row in read(self._spark, table).groupBy(by).count().collect()}
