"""The sections of `pipeline.yml` beside the source: `target`, `run`, and what silver makes of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, get_args

from lakehouse_cdc.model.place import EXAMPLES, URL, URLS, Kind, is_url, kind_of
from lakehouse_cdc.options.declaration import NEVER, NEW_TABLE, NEXT_RUN, REBUILD, Keys, Section, option
from lakehouse_cdc.options.kinds import (
    Choice,
    Flag,
    Integer,
    JsonSchema,
    Place,
    PropertyValue,
    Registered,
    Text,
)
from lakehouse_cdc.options.measures import Duration, seconds
from lakehouse_cdc.options.nested import ListOf, MapOf
from lakehouse_cdc.options.source import COLUMNS, CapturedTable
from lakehouse_cdc.options.storage import StorageConfig, only_of
from lakehouse_cdc.silver.definition.engine import Configured
from lakehouse_cdc.silver.definition.form import form_names
from lakehouse_cdc.silver.definition.transform import Metadata
from lakehouse_cdc.sinks.registry import SINKS

DroppedColumns = Literal["keep", "drop"]
ChangedTypes = Literal["rewrite", "beside"]
Deletes = Literal["hard", "soft"]
Maintain = Literal["auto", "off"]
_OWN_PROPERTIES = (  # in any case, since Delta knows its names in any
    "lakehouse_cdc.", "delta.columnmapping.", "delta.enabletypewidening", "delta.dataskippingstatscolumns",
    "delta.appendonly", "delta.feature.",
)  # fmt: skip
_OWN_SETTINGS = ("spark.master", "spark.archives", "spark.python.daemon.module", "spark.sql.session.timeZone")
_NULL: JsonSchema = {"type": "null"}
_URL: JsonSchema = {"type": "string", "pattern": f"^(?:{URL})$"}
_ONE_KIND_OF_KEYS: JsonSchema = {
    "anyOf": [_NULL, {"properties": {"role_arn": _NULL}}, {"properties": {"access_key": {"maxLength": 0}}}]
}


def _in_store(kind: Kind) -> Iterator[JsonSchema]:
    """What a `path` in a store of a kind goes with: checkpoints in a folder, or in a store of the same kind."""
    place: JsonSchema = {"type": "string", "pattern": f"^(?:{URLS[kind]})$"}
    common: JsonSchema = {"path": place, "catalog": _NULL}
    for checkpoints, storage in (({"type": "string", "not": _URL}, {}), (place, _ONE_KIND_OF_KEYS)):
        allowed = {"allOf": [only_of(kind), storage]}
        yield {
            "required": ["path", "checkpoints"],
            "properties": {**common, "checkpoints": checkpoints, "storage": allowed},
        }


@dataclass(frozen=True, kw_only=True)
class TargetConfig(Keys):
    """`target`: where the tables are written, a folder or a place in a store (`path`), or a `catalog` on Databricks."""

    path: str | None = option(
        Place(),
        "folder of the tables, or a place in S3 or in Azure's store, such as `s3://bucket/prefix` (see"
        " [Keep tables in a store](../guides/object-stores.md)); this or `catalog`",
        default=None, otherwise="none", changes=NEVER,
    )  # fmt: skip
    storage: StorageConfig | None = option(
        Section(StorageConfig), "how the store of `path` is reached", default=None, changes=NEXT_RUN
    )
    catalog: str | None = option(
        Text(), "catalog of the tables, on Databricks", default=None, otherwise="none", changes=NEVER
    )
    bronze: str = option(Text(), "schema of bronze", changes=NEVER)
    silver: str | None = option(Text(), "schema of silver", default=None, otherwise="bronze only", changes=NEXT_RUN)
    silver_name: str = option(
        Text(r"[\s\S]*\{table\}[\s\S]*", "a name that contains {table}"),
        "name of a silver table, made from `{database}` and `{table}`",
        default="{table}", changes=NEVER,
    )  # fmt: skip
    engine: Configured = option(
        Choice[Configured](get_args(Configured)),
        "what applies batches to silver tables: with `auto`, new tables that need no more of Delta than deltalake has"
        " are made for it, and changed by it in a fraction of the time, and the others are Spark's; with `spark`, all"
        " are; see [Shape the silver tables](../guides/shape-silver-tables.md#which-engine-keeps-a-table)",
        default="auto", changes=NEW_TABLE,
    )  # fmt: skip
    metadata_prefix: str = option(
        Text(r"[A-Za-z_][A-Za-z0-9_]{0,31}", "at most 32 letters, digits and _, no digit first"),
        "how the names of the columns begin that silver adds to the source's: `_seq`, `_commit_ts`, `_deleted_at`,"
        " `_source_table`. No column of a table may have such a name in silver; see"
        " [Tables](../reference/tables.md#silver)",
        default="_", changes=REBUILD,
    )  # fmt: skip
    comments: bool = option(
        Flag(),
        "silver's tables and columns have the comments that the source's have, on a server; see"
        " [Shape the silver tables](../guides/shape-silver-tables.md#comments)",
        default=True, changes=NEXT_RUN,
    )  # fmt: skip
    checkpoints: str | None = option(
        Place(),
        "folder of the checkpoints, or, with a `path` in a store, a place in one of the same kind (see"
        " [Keep tables in a store](../guides/object-stores.md#checkpoints)); they and the tables belong together",
        default=None, otherwise="`<path>/_checkpoints`; with a `path` in a store it is required", changes=NEVER,
    )  # fmt: skip
    signals: bool = option(
        Flag(),
        "rows that are appended to `<bronze>.signals` are signals, from all who may write to that table; see"
        " [Run a pipeline](../guides/run-a-pipeline.md#signals)",
        default=False, changes=NEXT_RUN,
    )  # fmt: skip
    metrics: bool = option(
        Flag(),
        "one row for each batch in `<bronze>.metrics`: rows, seconds, lag, position, how long the source keeps its log;"
        " and one for each `verify`: rows compared, rows that differ. Written at most every minute and at the end; a"
        " crash may lose the last rows, or repeat one",
        default=False, changes=NEXT_RUN,
    )  # fmt: skip
    metrics_port: int | None = option(
        Integer(most=65_535),
        "port of an HTTP endpoint, `/metrics`, from which Prometheus reads while a run lasts; see"
        " [Watch a pipeline](../guides/watch-a-pipeline.md)",
        default=None, otherwise="none", changes=NEXT_RUN,
    )  # fmt: skip
    metrics_host: str = option(
        Text(r"[A-Za-z0-9.:_-]+", "a name or an address"),
        "address that the endpoint listens on; anybody who reaches it reads the names of tables",
        default="127.0.0.1", changes=NEXT_RUN,
    )  # fmt: skip
    metrics_file: str | None = option(
        Text(r"[\s\S]+\.prom", "a path that ends in .prom"),
        "the same as a file for node_exporter's textfile collector, for runs that end",
        default=None, otherwise="none", changes=NEXT_RUN,
    )  # fmt: skip
    metrics_otel: bool = option(
        Flag(), "the same to OpenTelemetry, set up by its `OTEL_` variables. It needs the extra `otel`",
        default=False, changes=NEXT_RUN,
    )  # fmt: skip
    maintain: Maintain = option(
        Choice[Maintain](get_args(Maintain)),
        "`auto`: a run puts bronze's small files together as it goes; `off`: only the command `maintain` does",
        default="auto", changes=NEXT_RUN,
    )  # fmt: skip
    sinks: tuple[str, ...] = option(
        ListOf(Registered("sink", lambda: SINKS), distinct=True),
        "sinks that take bronze's commits onward, besides silver: see [Add a sink](../guides/add-a-sink.md)",
        default=(), changes=NEXT_RUN,
    )  # fmt: skip

    json_rules: ClassVar = (
        {
            "anyOf": [
                {
                    "required": ["path"],
                    "properties": {
                        "path": {"type": "string", "not": _URL},
                        "catalog": _NULL,
                        "checkpoints": {"not": _URL},
                        "storage": _NULL,
                    },
                },
                *(rule for kind in EXAMPLES for rule in _in_store(kind)),
                {
                    "required": ["catalog", "checkpoints"],
                    "properties": {
                        "catalog": {"type": "string"},
                        "path": _NULL,
                        "checkpoints": {"type": "string", "not": _URL},
                        "storage": _NULL,
                    },
                },
            ]
        },
    )

    def contradiction(self) -> str:
        if (self.path is None) == (self.catalog is None):
            return "give either path (local tables) or catalog (Databricks)"
        if self.catalog is not None and self.checkpoints is None:
            return "with catalog, checkpoints must name a folder, such as /Volumes/catalog/schema/volume/cdc"
        kind = kind_of(self.path) if self.path is not None and is_url(self.path) else None
        if kind and self.checkpoints is None:
            return (
                "with a path in a store, checkpoints must name a folder of this machine, such as ./checkpoints, or a"
                f" place in it, such as {(self.path or '').rstrip('/')}/_checkpoints"
            )
        if self.checkpoints is not None and is_url(self.checkpoints) and kind_of(self.checkpoints) != kind:
            return (
                "checkpoints can be in a store where path is, too, in one of the same kind; else they must name a"
                " folder, such as ./checkpoints"
            )
        if self.storage is not None and kind is None:
            return f"storage is of a path in a store, such as {EXAMPLES['s3']}"
        if self.storage is not None and kind and (others := self.storage.not_of(kind)):
            return f"storage.{others[0]} is not of a place such as {EXAMPLES[kind]}"
        if is_url(self.checkpoints) and self.storage is not None and self.storage.role_arn and self.storage.access_key:
            return (
                "with checkpoints in S3, give storage.role_arn or keys, not both: a role is taken on with the"
                " environment's credentials"
            )
        return ""


@dataclass(frozen=True, kw_only=True)
class RunConfig(Keys):
    """`run`: when batches begin, in a run that is not `--once`."""

    every: str = option(
        Duration(),
        "time between the beginnings of two batches of bronze; a batch that takes longer is followed by the next at"
        " once, and nothing piles up. `run --every` takes its place",
        default="1s", changes=NEXT_RUN,
    )  # fmt: skip
    silver_every: str | None = option(
        Duration(),
        "the same of silver and of other sinks, which take all that bronze has by then: fewer batches cost less",
        default=None, otherwise="`every`", changes=NEXT_RUN,
    )  # fmt: skip

    def triggers(self, every_seconds: float | None) -> tuple[float, float]:
        """Seconds between batches of bronze, and between those of its sinks; `every_seconds` takes `every`'s place."""
        bronze = seconds(self.every) if every_seconds is None else every_seconds
        return bronze, bronze if self.silver_every is None else seconds(self.silver_every)


@dataclass(frozen=True, kw_only=True)
class SparkConfig(Keys):
    """`spark`: the session that a pipeline makes; one that is brought (Databricks, `spark-submit`) is as it is."""

    remote: str | None = option(
        Text(r"sc://\S+", "sc://host:15002"),
        "the server of Spark Connect that does the work; see [Spark Connect](../guides/spark-connect.md). It is shown,"
        " so it holds no token",
        default=None, otherwise="the environment's `SPARK_REMOTE`, else a session in this process", changes=NEXT_RUN,
    )  # fmt: skip
    master: str | None = option(
        Text(
            r"local\[(?:[0-9]+|\*)\]|yarn|(?:spark|k8s)://\S+|local-cluster\[[0-9]+,[0-9]+,[0-9]+\]",
            "local[4], spark://host:7077, yarn or k8s://https://host:6443",
        ),
        "where Spark's tasks run; see [Run on a cluster](../guides/clusters.md)",
        default=None, otherwise="all cores of this machine", changes=NEXT_RUN,
    )  # fmt: skip
    conf: dict[str, bool | int | str] = option(
        MapOf(PropertyValue(), names="setting", reserved=_OWN_SETTINGS),
        "settings of Spark, such as `spark.executor.memory: 8g`, which win over ours. They are shown, so they hold no"
        " secrets",
        default={}, changes=NEXT_RUN,
    )  # fmt: skip
    archives: tuple[str, ...] = option(
        ListOf(Text(r"[^\s#,]+#[A-Za-z0-9_-]+", "PATH#NAME, such as env.tar.gz#env"), distinct=True),
        "archives that each executor unpacks under their names; in the first is the Python of all tasks, `bin/python`",
        default=(), otherwise="none: all machines have this Python at the same path", changes=NEXT_RUN,
    )  # fmt: skip

    def settings(self, home: Path) -> dict[str, str]:
        """As Spark has them; relative paths of archives start at `home`."""
        words = {True: "true", False: "false"}
        given = {name: words[one] if isinstance(one, bool) else str(one) for name, one in self.conf.items()}
        given |= {"spark.master": self.master} if self.master is not None else {}
        paths = (one if "://" in one else str(home / one) for one in self.archives)
        return {**given, "spark.archives": ",".join(paths)} if self.archives else given


@dataclass(frozen=True, kw_only=True)
class TableConfig(CapturedTable):
    """`tables.<pattern>`: what the tables that match the pattern need beside the rule."""

    columns: dict[str, str] = option(
        MapOf(Text(), names="column"),
        "with `source.kafka`: all columns of a table, each with its type as MySQL writes it (`decimal(10,2)`), where"
        " messages do not name types. The last pattern with it decides",
        default={}, otherwise="as the messages say", changes=NEXT_RUN,
    )  # fmt: skip
    form: str | None = option(
        Registered("form", form_names),
        "form of the silver table by its name; instead of `scd`, `deletes` and `append`",
        default=None, otherwise="`current`", changes=REBUILD,
    )  # fmt: skip
    scd: Literal[1, 2] = option(
        Choice[Literal[1, 2]]((1, 2)), "1: rows as they are now; 2: every version of them",
        default=1, changes=REBUILD,
    )  # fmt: skip
    track: tuple[str, ...] | None = option(
        COLUMNS, "with `scd: 2`, the columns whose change begins a version",
        default=None, otherwise="all", changes=NEXT_RUN,
    )  # fmt: skip
    deletes: Deletes = option(
        Choice[Deletes](get_args(Deletes)),
        "with `scd: 1`, what a deletion does: `hard` deletes the row, `soft` keeps it, with `_deleted_at`",
        default="hard", changes=REBUILD,
    )  # fmt: skip
    append: bool = option(
        Flag(),
        "`true`: rows of a table without a primary key are only ever added; silver has each of them once",
        default=False, changes=REBUILD,
    )  # fmt: skip
    dropped_columns: DroppedColumns = option(
        Choice[DroppedColumns](get_args(DroppedColumns)),
        "`keep` in silver what a column had that the source drops, or `drop` it there too. The last pattern with it"
        " decides",
        default="keep", changes=NEXT_RUN,
    )  # fmt: skip
    changed_types: ChangedTypes = option(
        Choice[ChangedTypes](get_args(ChangedTypes)),
        "when a column gets another type that is not only wider: `rewrite` it, or keep the old one `beside` it (as"
        " `price__int`). The last pattern with it decides",
        default="rewrite", otherwise="`rewrite`; `beside` with `scd: 2`", changes=NEXT_RUN,
    )  # fmt: skip
    rename: dict[str, str] = option(
        MapOf(Text(), names="column"),
        "silver's name of a column by the source's; the keys below use silver's names",
        default={}, changes=REBUILD,
    )  # fmt: skip
    computed: dict[str, str] = option(
        MapOf(Text(), names="column"),
        "SQL over the row's own columns, the same for the same row at any time: `upper(city)`",
        default={}, changes=REBUILD,
    )  # fmt: skip
    filter: str | None = option(
        Text(), "SQL: the rows that silver has, by the row as it was last written. Not with `deletes: soft`",
        default=None, otherwise="all rows", changes=REBUILD,
    )  # fmt: skip
    metadata: dict[str, Metadata] = option(
        MapOf(Choice[Metadata](get_args(Metadata)), names="column"),
        "columns with the row's `database_name`, `table_name`, or `op_ts`, the time of its last change",
        default={}, changes=REBUILD,
    )  # fmt: skip
    silver_name: str | None = option(
        Text(), "name of the silver table, made from `{database}` and `{table}`; for tables that would share one",
        default=None, otherwise="`target.silver_name`", changes=NEW_TABLE,
    )  # fmt: skip
    into: str | None = option(
        Text(r"[\s\S]+", "the name of a table"),
        "one silver table for all tables of the pattern, shards of one; `_source_table` says which. It keeps the"
        " columns of the first (`schema_changes: freeze`)",
        default=None, otherwise="one table each", changes=NEW_TABLE,
    )  # fmt: skip
    properties: dict[str, bool | int | str] = option(
        MapOf(PropertyValue(), names="property", reserved=_OWN_PROPERTIES),
        "Delta's properties of the silver table when it is created, such as `delta.enableChangeDataFeed: true`; later"
        " by `ALTER TABLE`",
        default={}, changes=NEW_TABLE,
    )  # fmt: skip
    cluster_by: tuple[str, ...] = option(
        ListOf(Text(), most=4),
        "up to four columns that the silver table is clustered by (liquid clustering); `maintain` then leaves the"
        " order of its files to Delta. Not with `into`",
        default=(), changes=NEW_TABLE,
    )  # fmt: skip
