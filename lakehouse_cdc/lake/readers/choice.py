"""Which reader answers for a table: `direct` where it can, else Spark, of which a session is then asked for.

Purpose: who only looks at tables in folders, or in S3, starts no session, and no Java.

Why it holds: `direct` raises for what it does not know: a feature, a name of a folder, a checkpoint. Then all of the
question goes to Spark, so no answer is of both. Errors of ours are no such failure, for Spark would raise them, too;
but why a store did not answer its client says better.

Guards: tests/lake/readers/test_choice.py, tests/cli/test_without_java.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.lake.file_systems import knows, storage_of, writes_as_given
from lakehouse_cdc.lake.readers.direct import DirectReader
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.model.place import is_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_cdc.lake.commit_log import Commit
    from lakehouse_cdc.lake.readers.port import TableReader
    from lakehouse_cdc.model.table_layout import Table

T = TypeVar("T")
_log = logging.getLogger(__name__)


class ReaderOnDemand:
    """See `port.TableReader`. `spark` is called as Spark is needed for the first time."""

    def __init__(self, spark: Callable[[], SparkSession]) -> None:
        self._spark, self._direct = spark, DirectReader()
        self._by_spark: SparkReader | None = None

    def exists(self, table: Table) -> bool:
        """See `port.TableReader`."""
        return self._answer(table, lambda reader: reader.exists(table))

    def properties(self, table: Table) -> Mapping[str, str]:
        """See `port.TableReader`."""
        return self._answer(table, lambda reader: reader.properties(table))

    def id(self, table: Table) -> str:
        """See `port.TableReader`."""
        return self._answer(table, lambda reader: reader.id(table))

    def columns(self, table: Table) -> list[tuple[str, str]]:
        """See `port.TableReader`."""
        return self._answer(table, lambda reader: reader.columns(table))

    def commits(self, table: Table) -> Iterator[Commit]:
        """See `port.TableReader`."""
        return self._answer(table, lambda reader: reader.commits(table))

    def rows(self, table: Table, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """See `port.TableReader`."""
        return self._answer(table, lambda reader: _begun(reader.rows(table, columns)))

    def count(self, table: Table, null: str | None = None) -> int:
        """See `port.TableReader`."""
        return self._answer(table, lambda reader: reader.count(table, null))

    def counts(self, table: Table, by: str) -> Mapping[str, int]:
        """See `port.TableReader`."""
        return self._answer(table, lambda reader: reader.counts(table, by))

    def _answer(self, table: Table, ask: Callable[[TableReader], T]) -> T:
        if table.path is not None and (table.path.startswith("/") or _is_reached(table.path)):
            try:
                return ask(self._direct)
            except CdcError as error:
                if error.code is not codes.OBJECT_STORE_UNAVAILABLE:
                    raise
                _log.info("%s is read by Spark, for %s", table, error.what)
            except Exception as error:  # whatever it is, Delta's own library has the say
                _log.info("%s is read by Spark, for %s", table, str(error).partition("\n")[0])
        self._by_spark = self._by_spark or SparkReader(self._spark())
        return ask(self._by_spark)


def _is_reached(path: str) -> bool:
    """Whether this process reaches a bucket as it is configured to."""
    return is_url(path) and knows(path) and writes_as_given(storage_of(path))


def _begun(rows: Iterator[T]) -> Iterator[T]:
    """The same, of which the first is there: what cannot be read has raised by then."""
    first = next(rows, None)
    return iter(()) if first is None else chain((first,), rows)
