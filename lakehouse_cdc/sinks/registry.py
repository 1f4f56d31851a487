"""The sinks besides silver, by the names that `target.sinks` gives; see `docs/guides/add-a-sink.md`.

Silver and Kafka are not among them: they are configured by `target.silver` and `tables`, and by `sinks`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_cdc.model.table_layout import Layout
    from lakehouse_cdc.sinks.port import Sink

SinkFactory: TypeAlias = "Callable[[SparkSession, Layout], Sink[Any]]"  # the configuration is read without Spark, too
SINKS: dict[str, SinkFactory] = {}


def sink_named(name: str) -> SinkFactory:
    """Raises ValueError for a name that no sink has."""
    if name not in SINKS:
        raise ValueError(f"there is no sink {name}; there are {', '.join(sorted(SINKS)) or 'none but silver'}")
    return SINKS[name]
