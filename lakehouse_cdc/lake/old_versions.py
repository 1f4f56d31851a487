"""To forget the versions of a table that must not be read any more: their commits leave Delta's log.

Purpose: a commit has the least and greatest values of the files that it adds, and Delta keeps it for a month, whatever
VACUUM deletes. Where values are hidden later, these go as soon as the table has been built without them.

Invariant: versions from the given one on are as before, but for that one's own content; a crash leaves commits at most,
and the same call again deletes them.

Why it holds: Delta reads a table from its newest checkpoint on, as its own clean-up of the log relies on (protocol,
"Checkpoints", "Metadata Cleanup"). So a checkpoint of a later version is written first, and commits go only when it is
there. The given version's own commit stays, for its note.

Guards: tests/lake/test_old_versions.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from pyspark.sql import SparkSession

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.cleanup.unfinished_tables import LOG
from lakehouse_cdc.lake.tables import detail, set_properties, unset_properties
from lakehouse_cdc.model.table_layout import Table

_INTERVAL = "delta.checkpointInterval"
_OF_VERSION = re.compile(r"^\.?(\d{20})\.")  # commits, checksums, checkpoints, and the file system's own sums of them


def forget_versions(spark: SparkSession, table: Table, before: int) -> None:
    """Delete what Delta's log has of versions before one, of a table in a folder here, whose only writer calls this.

    Raises DefiniteError where Delta wrote no checkpoint; then nothing is deleted.
    """
    if not _names(table, before):
        return
    usual = detail(spark, table)["properties"].get(_INTERVAL)
    set_properties(spark, table, {_INTERVAL: "1"})  # the commit that sets it writes a checkpoint
    try:
        _delete(table, before)
    finally:
        if usual is None:
            unset_properties(spark, table, _INTERVAL)
        else:
            set_properties(spark, table, {_INTERVAL: usual})


def _delete(table: Table, before: int) -> None:
    log = _log(table)
    if not any(".checkpoint." in name and version >= before for name, version in _versions(table)):
        raise codes.REDACTION_UNSUPPORTED.error("Delta wrote no checkpoint of the table", where=str(table))
    for name in _names(table, before):
        os.unlink(os.path.join(log, name))


def _names(table: Table, before: int) -> list[str]:
    return [name for name, version in _versions(table) if version < before]


def _versions(table: Table) -> Iterator[tuple[str, int]]:
    for name in sorted(os.listdir(_log(table)), reverse=True):  # the newest go first
        if match := _OF_VERSION.match(name):
            yield name, int(match[1])


def _log(table: Table) -> str:
    assert table.path is not None, table
    return os.path.join(table.path, LOG)
