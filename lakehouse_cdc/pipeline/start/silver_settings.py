"""Silver tables whose settings have changed: built again from bronze before silver's stream begins.

Which tables those are is in the tables themselves (see `silver.apply.rebuild`); they are looked at where the settings
are others than those of the last look (see `last_look`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyspark.sql import SparkSession

from lakehouse_cdc.lake.files.choice import Location
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.model.way_out import silver_reason
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.start.last_look import LastLook
from lakehouse_cdc.silver.apply.rebuild import Rebuild, rebuild, rebuilds
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.tables.progress import Applied, applied


class SilverSettings:
    """What `config` says of silver's tables, against what they were made with.

    `state` is the place of checkpoints, `checkpoint` that of silver's stream. `policy` takes the place of `config`'s.
    """

    def __init__(
        self, spark: SparkSession, layout: Layout, config: PipelineConfig, state: Location, checkpoint: str,
        policy: Callable[[str], Policy] | None = None,
    ) -> None:  # fmt: skip
        self._spark, self._layout, self._checkpoint = spark, layout, checkpoint
        self._policy = policy or config.policy
        self._last = LastLook(state, config)

    def rebuilds(self) -> list[Rebuild]:
        """The tables to be built again."""
        return self._look()[0]

    def look_again(self) -> None:
        """Have the next run look at all tables."""
        self._last.forget()

    def _look(self) -> tuple[list[Rebuild], Applied | None]:
        """The tables to be built, and where silver is, which nobody has to know where there are none."""
        if self._last.is_of_now:
            return [], None
        done = applied(SparkReader(self._spark), self._layout, self._checkpoint)
        through = None if done is None else done.source_point.seq
        return rebuilds(self._spark, self._layout, self._policy, through), done

    def follow(self) -> Iterator[str]:
        """Build them again, while silver's stream does not run; what was done, for a person."""
        (wanted, done), refused = self._look(), False
        version = None if done is None else done.bronze_version
        for one in wanted:
            yield one.sentence
            error = rebuild(self._spark, self._layout, one.source_table, self._policy(one.source_table), version)
            if error is not None:
                refused = True
                yield f"{one.source_table}: its silver table stays as it is: {silver_reason(error)}"
        if not refused:
            self._last.note()
