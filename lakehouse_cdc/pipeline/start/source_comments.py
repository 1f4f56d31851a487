"""The source's comments on silver's tables and columns, where `target.comments` is not false.

Purpose: who looks at a silver table in a catalog reads what people wrote about it on the server.

The server is asked as silver's stream begins, and again for a table that was not there then. A new silver table is made
with its comments; one that is there is given those that changed, between two streams, when nobody else writes to
it. So a comment that is altered while a run lasts is seen by the next run, or where this one begins its streams again.

No row depends on a comment, so nothing stops for one: a server that does not answer, or a table that Delta does not
let be altered, is said, and tried again by the next run.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.lake.files.choice import Location
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.spark_errors import first_line
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.mysql.comments import read_comments
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.pipeline.start.comment_memory import Memory
from lakehouse_cdc.schema.comments import NONE, Comments
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.tables.comments import describe
from lakehouse_cdc.silver.tables.known_schemas import SchemaInForce, past_schemas, schemas_in_force

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_cdc.pipeline.context import PipelineContext

_AGAIN_SECONDS = 30.0  # at most so often the server is asked for tables that it did not have
_log = logging.getLogger(__name__)


class SourceComments:
    """Those of the selected tables, and the policies of silver's tables with them.

    `connect` opens a session of the source; None: nobody is to be asked. `policy` is what is configured for a table.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractContextManager[Session]] | None,
        selection: Selection,
        policy: Callable[[str], Policy],
    ) -> None:
        self._connect, self._selection, self._policy = connect, selection, policy
        self._known: dict[str, Comments] | None = None
        self._asked = float("-inf")
        self._asking = threading.Lock()

    @classmethod
    def of_pipeline(cls, context: PipelineContext) -> SourceComments:
        """Those on its source's tables; of topics there are none."""
        source, target = context.config.source, context.config.target
        asks = target.comments and source.kafka is None
        tables = ("*.*",) if source.kafka is not None else source.tables
        return cls(context.source_session if asks else None, Selection(tables), context.config.policy)

    def policy(self, name: str) -> Policy:
        """That of the source table `name`, with its comments. May be called by several threads."""
        policy = self._policy(name)
        return policy if (comments := self.of(name)) is NONE else replace(policy, comments=comments)

    def of(self, name: str) -> Comments:
        """Those of the source table `name`."""
        if self._connect is None:
            return NONE
        with self._asking:
            if name not in (self._known or {}) and time.monotonic() >= self._asked + _AGAIN_SECONDS:
                self._ask(self._connect, name)
            return (self._known or {}).get(name, NONE)

    def _ask(self, connect: Callable[[], AbstractContextManager[Session]], name: str) -> None:
        try:
            with connect() as session:
                self._known = {name: NONE, **read_comments(session, self._selection)}
        except CdcError as error:  # who reads rows from it meets that, too
            _log.warning("the comments of the source's tables could not be read: %s", error)
        self._asked = time.monotonic()

    def follow(self, spark: SparkSession, layout: Layout, state: Location) -> Iterator[str]:
        """Give silver's tables the comments that changed, while silver's stream does not run.

        `state` is the place of checkpoints. A sentence for each table whose comments could not be set.
        """
        if self._connect is None:
            return
        self.of("")  # no table has that name
        memory = Memory(state)
        met: dict[str, list[SchemaInForce]] = {}

        def schemas(name: str) -> list[TableSchema]:
            if not met:
                met.update(schemas_in_force(SparkReader(spark), layout))
            return past_schemas(met.get(name, ()))

        def described(name: str) -> str:
            try:
                given = describe(spark, layout, name, self.policy(name), memory.of(name), schemas)
            except Exception as error:  # whatever it is, rows do not wait for it
                _log.warning("the comments of %s could not be set", name, exc_info=error)
                return f"the comments of {name} could not be set, which the next run tries again: {first_line(error)}"
            memory.note(name, given.remembered)
            return ""

        yield from filter(None, map(described, sorted(self._known or {})))
