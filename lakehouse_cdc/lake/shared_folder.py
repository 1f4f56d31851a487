"""Whether a folder is one and the same for this process, for a remote server of Spark's, and for its tasks.

What a pipeline does beside Spark to a table in a folder, tasks and this process do each on their own machine. A local
session shares all folders with them; a server of Spark Connect may be anywhere. So it is tried, once for each folder: a
file with a random content is put there, which a task and the server's driver are to find.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse_cdc.lake.refused_writes import writable
from lakehouse_cdc.lake.sessions import done_in_tasks, is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = "seen-by-spark-"  # Spark passes over what begins with a dot
_shared: dict[tuple[str, str], bool] = {}  # by session and folder


def is_shared(spark: SparkSession, folder: str) -> bool:
    """Whether it was found to be, or is in one that was (see `look`)."""
    if not is_remote(spark):
        return True
    session = str(spark.session_id)  # type: ignore[attr-defined]  # of Connect's session
    return any(_shared.get((session, above), False) for above in _with_those_above(folder))


def look(spark: SparkSession, folder: str) -> bool:
    """The same, tried where it is not known. Makes the folder."""
    if not is_remote(spark):
        return True
    key = str(spark.session_id), folder  # type: ignore[attr-defined]
    if key not in _shared:
        _shared[key] = _tried(spark, Path(folder))
    return _shared[key]


def _tried(spark: SparkSession, folder: Path) -> bool:
    content, file = str(uuid.uuid4()), folder / f"{_PREFIX}{uuid.uuid4()}"
    with writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    try:
        [seen] = done_in_tasks(spark, _content, [str(file)])
        return seen == content and _driver_sees(spark, file, content)
    finally:
        with suppress(OSError):
            file.unlink()


def _content(path: str) -> str | None:
    try:
        return Path(path).read_text()
    except OSError:
        return None


def _driver_sees(spark: SparkSession, file: Path, content: str) -> bool:
    from pyspark.errors import PySparkException

    try:
        return [row[0] for row in spark.read.text(file.as_uri()).collect()] == [content]
    except PySparkException:  # such as that there is no such file
        return False


def _with_those_above(folder: str) -> Iterator[str]:
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above
