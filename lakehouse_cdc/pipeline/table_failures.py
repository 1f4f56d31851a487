"""Continue without a table that cannot be read: it is quarantined where it failed, and the others continue.

Why it holds: a batch that failed in a task was not committed, so its plan can be dropped, as one is that was planned
under another configuration (see `pipeline.start.settling`). What the planner then decides follows from its start and
from the note that is stored before (see `source.requests.set_aside`). A run that dies in between has the note, or has
the same failure once more.

Guards: tests/pipeline/test_table_failures.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from pyspark.sql import SparkSession

from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.lake.spark_errors import as_cdc_error
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.pipeline.context import Folders
from lakehouse_cdc.pipeline.start.settling import settle
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.requests.set_aside import SetAside
from lakehouse_cdc.source.state.offset_codec import restored
from lakehouse_cdc.source.state.planned_configuration import digest
from lakehouse_cdc.source.state.state_store import SchemaStore

_NO_CONFIGURATION = ""  # no batch was planned under it
_log = logging.getLogger(__name__)
T = TypeVar("T")


def sparing_others(streams: Callable[[], T], set_aside: Callable[[CdcError], bool], notice: Callable[[str], None]) -> T:
    """The result of `streams`, called again each time that it fails by one table that can be `set_aside`."""
    while True:
        try:
            return streams()
        except Exception as failure:  # noqa: PERF203
            error = as_cdc_error(failure)
            if not error.position or not set_aside(error):
                raise
            what = f"{error.table} is quarantined at {error.position}, and the others continue: {error.what}"
            _log.warning("%s", what)
            notice(what)


def set_aside(spark: SparkSession, layout: Layout, folders: Folders, options: SourceOptions, error: CdcError) -> bool:
    """Drop the planned batch, and note that it is to be planned without the rest of the table that failed.

    False, and nothing is done, where the error is about no single table, where the table is to stop the stream, where
    it is the only one, and where the same has not helped before.
    """
    place = Checkpoint(folders.bronze)
    planned = place.last_offset()
    offset = None if planned is None else restored(place.offset(planned), SchemaStore(folders.schemas))
    if offset is None or options.stops(error.table) or not offset.captured.keys() - {error.table}:
        return False
    if not SetAside(folders.schemas).note(error, digest(options)):
        return False
    settle(spark, layout, folders, _NO_CONFIGURATION)
    return True
