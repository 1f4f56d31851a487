"""The same lakehouse as a declarative pipeline: a definition file registers it, and the runtime runs it.

    from pyspark import pipelines as dp        # or, on older runtimes: import dlt as dp
    from lakehouse_cdc.declarative import register

    register(dp, "pipeline.yml")

Bronze is `<bronze>.changes`, a streaming table with one append flow from the source. From it come `<bronze>.schemas`
and `<bronze>.barriers` (see `silver.auto_cdc.feed`), and for each source table two views and the silver table that AUTO
CDC keeps of them (see `silver.auto_cdc`). Nothing is decided here, and nothing is kept between two updates but these
tables: which tables there are, and of what columns, `<bronze>.schemas` says as an update starts. So what is new in
bronze has its silver table from the next update on, with all its rows; the first update fills bronze alone. A row of a
schema that is newer than the update makes its flow fail with an error that asks for the next update, which has the
columns. The batch that failed comes again then, whole: what is in front of the row in the same batch waits with it,
what was in earlier batches is through, and other tables continue.

What AUTO CDC cannot do to rows that exist (another name, type or key of a column, a value in all rows) is done by a
full refresh of the silver table, which reads bronze from its beginning by the last schema. Each silver table says up to
which change of the schema it was fed (`FED`), so such a change is found before the next update feeds anything, and
refused until it is confirmed, for that one schema, in the configuration of the update that refreshes it (`REBUILT`).

Where the runtime's AUTO CDC cannot keep silver (`has_auto_cdc`) only bronze is registered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.bronze.schema_registry import schema_rows
from lakehouse_cdc.bronze.tables import CHANGES, CHANGES_PROPERTIES, SCHEMAS
from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.table_state import Columns
from lakehouse_cdc.lake.tables import exists
from lakehouse_cdc.model.bronze_row import PARTITION
from lakehouse_cdc.model.own_columns import DEFAULT
from lakehouse_cdc.model.table_layout import PIPELINE, Layout, Table, quoted
from lakehouse_cdc.pipeline.config.file import load
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.context import PipelineContext
from lakehouse_cdc.pipeline.start.source_comments import SourceComments
from lakehouse_cdc.silver.auto_cdc import feed
from lakehouse_cdc.silver.auto_cdc.declarations import (
    AutoCdcPlan,
    Call,
    declare_auto_cdc,
    function_of,
    has_auto_cdc,
    perform,
    qualified,
    takes,
)
from lakehouse_cdc.silver.auto_cdc.schema_eras import Eras
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.tables.names import PREFIX, SOURCE
from lakehouse_cdc.source.spark.stream import MySqlCdcSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)

FED = "lakehouse_cdc.fed_schema_seq"  # of a silver table: the seq of the last change of the schema it was fed through
REBUILT = "lakehouse_cdc.rebuilt"  # of an update: <database.table>@<schema id>, ... that it refreshes fully
_PROPERTIES = {"delta.columnMapping.mode": "name", "delta.feature.timestampNtz": "supported"}  # for any name, any type
_FOLLOWED = {"the table is followed": "schema IS NOT NULL"}


def register(dp: Any, config: str | Path | PipelineConfig, spark: SparkSession | None = None) -> None:
    """Register bronze and, where the runtime can keep it, silver on the pipelines' module `dp`.

    `spark` is the session of the update, by default the active one. The schemas must be there: a definition may not
    make them. Raises ConfigError for settings that cannot be had
    in a declarative pipeline, DefiniteError for a silver table that has to be refreshed fully.
    """
    if spark is None:
        from pyspark.sql import SparkSession as Session

        spark = Session.getActiveSession() or Session.builder.getOrCreate()
    place = _context(config, spark)
    spark.dataSource.register(MySqlCdcSource)
    layout = place.layout
    _Bronze(dp, spark, layout).register(place.source_options())
    if layout.silver is not None and has_auto_cdc(dp):
        _register_silver(dp, spark, layout, SourceComments.of_pipeline(place).policy)


def _context(config: str | Path | PipelineConfig, spark: SparkSession) -> PipelineContext:
    path = None if isinstance(config, PipelineConfig) else Path(config)
    settings = config if isinstance(config, PipelineConfig) else load(Path(config))
    if settings.target.catalog is None:
        raise codes.DECLARATIVE_TARGET_INVALID.error(
            "a declarative pipeline keeps its tables in a catalog",
            where=f"{path or settings.name}: target",
            hint="give catalog and checkpoints in place of path",
        )
    return PipelineContext(settings, spark, home=path.absolute().parent if path is not None else None)


class _Bronze:
    """The streaming tables of bronze, each with its flow."""

    def __init__(self, dp: Any, spark: SparkSession, layout: Layout) -> None:
        self._dp, self._spark, self._layout = dp, spark, layout

    def register(self, options: Mapping[str, str]) -> None:
        """`options` are the source's."""
        spark, changes = self._spark, self._layout.changes

        def captured() -> DataFrame:
            return spark.readStream.format("mysql_cdc").options(**options).load()

        def schemas() -> DataFrame:
            return schema_rows(spark.readStream.table(qualified(changes)))

        def barriers() -> DataFrame:
            return feed.barriers(spark.readStream.table(qualified(changes)))

        # what is in the binlog no more cannot be read again
        kept = {"pipelines.reset.allowed": "false"}
        what = "Every change of the source tables, in the order of seq. Append-only; see the column op."
        self._table(changes, CHANGES, what, captured, {**CHANGES_PROPERTIES, **kept}, partition_cols=[PARTITION])
        what = "Every schema of a source table, from the position on at which it came into force."
        self._table(self._layout.schemas, SCHEMAS, what, schemas, {}, **self._expectations())
        what = (
            "Where all rows of a source table went that are older than a seq: truncations, and ends of repeated reads."
        )
        self._table(self._layout.barriers, feed.BARRIERS, what, barriers, {})

    def _expectations(self) -> dict[str, Any]:
        """A table that is dropped, or quarantined, shows in the update's data quality; nothing is dropped for it."""
        create = function_of(self._dp, "create_streaming_table")
        return {"expect_all": _FOLLOWED} if create is not None and takes(create, "expect_all") else {}

    def _table(
        self,
        table: Table,
        columns: Columns,
        comment: str,
        query: Callable[[], DataFrame],
        properties: Mapping[str, str],
        **others: Any,
    ) -> None:
        name = qualified(table)
        given = {
            "name": name,
            "comment": comment,
            "schema": ", ".join(f"{quoted(column)} {kind}" for column, kind in columns),
            "table_properties": {PIPELINE: self._layout.pipeline, "delta.appendOnly": "true", **properties},
            **others,
        }
        perform(self._dp, [Call("create_streaming_table", given)])
        self._dp.append_flow(target=name, name=f"{table.schema}_{table.name}")(query)


def _register_silver(dp: Any, spark: SparkSession, layout: Layout, policy_of: Callable[[str], Policy]) -> None:
    eras_of = dict(_eras(spark, layout))
    alone = layout.without_name([*eras_of])
    calls: list[Call] = []
    plans = []
    for name, eras in eras_of.items():
        policy = policy_of(name)
        if not eras.key and policy.form.needs_key:
            _log.warning("%s has no primary key, so it is in bronze alone", name)
            continue
        if name in alone:
            _log.warning("%s is in bronze alone: another table has the name of its silver table; see silver_name", name)
            continue
        if not layout.silver_table(name).has_usable_name:
            _log.warning("%s is in bronze alone: the catalog takes no table of its name; see silver_name", name)
            continue
        properties = {
            **_PROPERTIES, PIPELINE: layout.pipeline, SOURCE: name, PREFIX: layout.own.prefix,
            FED: str(eras.last.since),
        }  # fmt: skip
        plan = AutoCdcPlan(layout.silver_table(name), eras, policy, properties)
        if (column := plan.name_taken) is not None:
            what = "%s is in bronze alone: its column %s has the name of one that silver adds; see metadata_prefix"
            _log.warning(what, name, column)
            continue
        calls += declare_auto_cdc(plan)
        _require_fed(spark, layout, plan)
        plans.append(plan)
    for plan in plans:
        _register_views(dp, spark, layout, plan)
    perform(dp, calls)


def _eras(spark: SparkSession, layout: Layout) -> Iterator[tuple[str, Eras]]:
    """The schemas of every table that bronze has met by now, in the order in which it met them."""
    if not exists(spark, layout.schemas):
        return
    rows = spark.read.table(qualified(layout.schemas)).select("source_table", "seq", "schema").orderBy("seq").collect()
    for name in dict.fromkeys(row["source_table"] for row in rows):
        eras = Eras.of(name, [(int(row["seq"]), row["schema"]) for row in rows if row["source_table"] == name])
        if eras is not None:
            yield name, eras


def _require_fed(spark: SparkSession, layout: Layout, plan: AutoCdcPlan) -> None:
    """Refuse to feed a table after a change that AUTO CDC cannot bring it through, unless it is refreshed fully."""
    if not exists(spark, plan.target):
        return
    properties = dict(tuple(row) for row in spark.sql(f"SHOW TBLPROPERTIES {plan.target.sql}").collect())
    if properties.get(PIPELINE) != layout.pipeline or properties.get(SOURCE) != plan.name or FED not in properties:
        raise codes.DECLARATIVE_TABLE_FOREIGN.error(
            "the table was not made by this declarative pipeline",
            where=str(plan.target),
            hint="drop or move that table, or choose another schema under target",
        )
    why = plan.eras.rebuild_since(int(properties[FED]))
    if (prefix := properties.get(PREFIX, DEFAULT.prefix)) != layout.own.prefix:
        why = f"its own columns begin with {prefix}, and are to begin with {layout.own.prefix}"
    confirmed = f"{plan.name}@{plan.eras.last.schema.id}"
    given = spark.conf.get(REBUILT, "") or ""
    if why is not None and confirmed not in [word.strip() for word in given.split(",")]:
        raise codes.DECLARATIVE_REFRESH_NEEDED.error(
            f"AUTO CDC cannot bring {plan.name} through a change of its columns: {why}",
            where=str(plan.target),
            hint=f"run one update that refreshes the table fully, with {REBUILT} = {confirmed} in its configuration",
        )


def _register_views(dp: Any, spark: SparkSession, layout: Layout, plan: AutoCdcPlan) -> None:
    bronze, barriers = qualified(layout.changes), qualified(layout.barriers)
    comments = plan.policy.column_comments if plan.policy.comments.fit(plan.eras.last.schema) else {}

    def changes() -> DataFrame:
        return feed.changes(spark.readStream.table(bronze), plan.eras, layout.own, comments)

    def gone() -> DataFrame:
        marks, rows = spark.readStream.table(barriers), spark.read.table(bronze)
        return feed.gone(marks, rows, plan.eras, layout.own, comments)

    view = function_of(dp, "temporary_view")
    if view is None:
        raise codes.DECLARATIVE_RUNTIME_UNSUPPORTED.error(
            "this runtime's declarative pipelines have no views",
            hint="use a newer runtime, or run this pipeline as a job",
        )
    view(name=plan.changes, comment=f"What happened to the rows of {plan.name}.")(changes)
    view(name=plan.gone, comment=f"Rows of {plan.name} that went with many others.")(gone)
