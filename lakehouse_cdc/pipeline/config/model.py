"""What can be configured: a closed set of keys. See `config_file` for how they are read."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from lakehouse_cdc.errors import ConfigError
from lakehouse_cdc.mysql.connection.tls import Tls
from lakehouse_cdc.pipeline.config.secrets import Secret
from lakehouse_cdc.schema.masks import parsed
from lakehouse_cdc.schema.selection import said_last
from lakehouse_cdc.silver.definition.form import Form, form_named
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.definition.transform import Metadata, Transform
from lakehouse_cdc.sinks.registry import sink_named

_OWN_PROPERTIES = (  # in lower case, for Delta knows its names in any
    "lakehouse_cdc.", "delta.columnmapping.", "delta.enabletypewidening", "delta.dataskippingstatscolumns",
    "delta.appendonly", "delta.feature.",
)  # fmt: skip


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class SourceConfig(_Strict):
    """`source:` where the rows come from. The tuning keys are those of the `mysql_cdc` source, in snake case."""

    url: str
    password: Secret = Secret("")
    mask_salt: Secret = Secret("")
    tables: Annotated[list[str], Field(min_length=1)]
    snapshot: Literal["initial", "never", "only"] = "initial"
    tls: Tls = "preferred"
    tls_ca: str | None = None
    on_gap: Literal["fail", "resnapshot"] = "fail"
    settle: Literal["auto", "gtid", "process", "snapshot", "age"] = "auto"
    zero_dates: Literal["fail", "null", "text"] = "fail"
    type_map: Literal["native", "lakeflow"] = "native"
    settle_seconds: Annotated[float, Field(gt=0)] | None = None
    server_ids: Annotated[str, Field(pattern=r"^\d+-\d+$")] | None = None
    chunk_rows: Annotated[int, Field(gt=0)] | None = None
    chunk_bytes: Annotated[int, Field(gt=0)] | None = None
    chunks_per_trigger: Annotated[int, Field(gt=0)] | None = None
    max_rows_per_trigger: Annotated[int, Field(gt=0)] | None = None
    max_bytes_per_trigger: Annotated[int, Field(gt=0)] | None = None
    max_threads_running: Annotated[int, Field(gt=0)] | None = None
    max_replica_lag_seconds: Annotated[float, Field(gt=0)] | None = None

    @field_validator("url")
    @classmethod
    def _no_password_in_url(cls, url: str) -> str:
        authority = url.partition("://")[2].rpartition("@")[0]
        if ":" in authority:
            raise ValueError("a password does not belong in the url; write password: ${env:NAME} beside it")
        if not url.startswith("mysql://"):
            raise ValueError("expected mysql://user@host:port")
        return url


class TargetConfig(_Strict):
    """`target:` where the tables go: a local folder (`path`), or a `catalog` on Databricks."""

    path: str | None = None
    catalog: str | None = None
    bronze: str
    silver: str | None = None
    silver_name: str = "{table}"
    checkpoints: str | None = None
    metrics: bool = False
    sinks: list[str] = Field(default_factory=list)

    @field_validator("sinks")
    @classmethod
    def _known_sinks(cls, sinks: list[str]) -> list[str]:
        for name in sinks:
            sink_named(name)
        if len(set(sinks)) < len(sinks):
            raise ValueError("each sink is named once")
        return sinks

    @model_validator(mode="after")
    def _one_place(self) -> TargetConfig:
        if (self.path is None) == (self.catalog is None):
            raise ValueError("give either path (local tables) or catalog (Databricks)")
        if self.catalog is not None and self.checkpoints is None:
            raise ValueError("with catalog, checkpoints must name a folder, such as /Volumes/catalog/schema/volume/cdc")
        if "{table}" not in self.silver_name:
            raise ValueError("silver_name must contain {table}")
        return self


class TableConfig(_Strict):
    """What one table, or all that match a pattern, need beside the rule."""

    scd: Literal[1, 2] = 1
    track: list[str] | None = None
    deletes: Literal["hard", "soft"] = "hard"
    key: Annotated[list[str], Field(min_length=1)] | None = None
    append: bool = False
    form: str | None = None
    exclude: list[str] = Field(default_factory=list)
    include: list[str] | None = None
    masks: dict[str, Any] = Field(default_factory=dict)
    types: dict[str, Literal["text", "native"]] = Field(default_factory=dict)
    schema_changes: Literal["evolve", "freeze", "stop"] = "evolve"
    dropped_columns: Literal["keep", "drop"] = "keep"
    changed_types: Literal["rewrite", "beside"] = "rewrite"
    rename: dict[str, str] = Field(default_factory=dict)
    computed: dict[str, str] = Field(default_factory=dict)
    filter: str | None = None
    metadata: dict[str, Metadata] = Field(default_factory=dict)
    into: Annotated[str, Field(min_length=1)] | None = None
    properties: dict[str, bool | int | str] = Field(default_factory=dict)
    cluster_by: Annotated[list[str], Field(max_length=4)] = Field(default_factory=list)

    @field_validator("properties")
    @classmethod
    def _free_properties(cls, properties: dict[str, bool | int | str]) -> dict[str, bool | int | str]:
        for name in properties:
            if name.lower().startswith(_OWN_PROPERTIES):
                raise ValueError(f"{name} is set by what silver's tables rest on")
        return properties

    @field_validator("form")
    @classmethod
    def _known_form(cls, form: str | None) -> str | None:
        if form is not None:
            form_named(form)
        return form

    @field_validator("masks")
    @classmethod
    def _known_masks(cls, masks: dict[str, Any]) -> dict[str, Any]:
        for column, mask in masks.items():
            _check_mask(column, mask)
        return masks


def _check_mask(column: str, mask: Any) -> None:
    try:
        parsed(mask)
    except ValueError as error:
        raise ValueError(f"{column}: {error}") from None


class PipelineConfig(_Strict):
    """The whole file."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
    source: SourceConfig
    target: TargetConfig
    tables: dict[str, TableConfig] = Field(default_factory=dict)

    def excluded(self, table: str) -> tuple[str, ...]:
        """The columns left out of `database.table`: of every pattern under `tables` that matches it."""
        found = [c for pattern, t in self.tables.items() if fnmatchcase(table, pattern) for c in t.exclude]
        return tuple(dict.fromkeys(found))

    @model_validator(mode="after")
    def _salt_for_hashes(self) -> PipelineConfig:
        if not self.source.mask_salt and any("hash" in t.masks.values() for t in self.tables.values()):
            raise ValueError("a column is masked by hash: source.mask_salt must be given, such as ${env:NAME}")
        return self

    def policy(self, table: str) -> Policy:
        """What silver keeps of `database.table`, and does as its schema changes; the last pattern that says it decides.

        Raises ConfigError for a table whose settings contradict each other.
        """

        def last(setting: str) -> Any:
            return self._last(setting, table)

        form, track, drops = self.form(table), last("track"), last("dropped_columns") == "drop"
        history = form.has_versions
        # no version loses what it holds, unless that is asked for
        types = last("changed_types") or ("beside" if history and not drops else "rewrite")
        if drops and types == "beside":
            raise _contradicting(table, "changed_types: beside keeps columns that dropped_columns: drop drops")
        if track is not None and not history:
            raise _contradicting(table, "track says what begins a version, but without scd: 2 there are none")
        into = last("into") is not None
        if into and last("schema_changes") == "evolve":
            raise _contradicting(table, "into: a table that several go into keeps its columns; it does not evolve")
        cluster_by = tuple(last("cluster_by") or ())
        if into and cluster_by:
            raise _contradicting(table, "into: a table that several go into has a part for each, and is not clustered")
        transform = self._transform(table)
        if form.marks_deletes and transform.filter is not None:
            raise _contradicting(table, "deletes: soft keeps rows that are gone, and a filter takes rows away")
        if not form.needs_key and into:
            raise _contradicting(table, "append: such a silver table is that of one source table alone, without into")
        return Policy(
            drops=drops,
            beside=types == "beside",
            freezes=into or last("schema_changes") == "freeze",
            form=form,
            track=None if track is None else tuple(track),
            transform=transform,
            properties=self._properties(table),
            cluster_by=cluster_by,
        )

    def form(self, table: str) -> Form:
        """The form of the silver table of `database.table`, by `form`, or by `scd`, `deletes` and `append`.

        Raises ConfigError for a table whose settings contradict each other.
        """
        named, appends = self._last("form", table), self._last("append", table) is True
        history, soft = self._last("scd", table) == 2, self._last("deletes", table) == "soft"
        key = self._last("key", table)
        if soft and history:
            raise _contradicting(table, "deletes: soft marks rows that are gone, which scd: 2 keeps as ended versions")
        if appends and (soft or history or key is not None):
            what = "scd: 2" if history else "deletes: soft" if soft else "key"
            raise _contradicting(table, f"append only ever adds rows, {what} is about rows that are told apart")
        if named is not None and (appends or soft or history):
            what = "append" if appends else "scd: 2" if history else "deletes: soft"
            raise _contradicting(table, f"form: {named} names the form, and so does {what}")
        form = form_named(
            named or ("append" if appends else "history" if history else "soft_deletes" if soft else "current")
        )
        if key is not None and not form.needs_key:
            raise _contradicting(table, f"form: {form.name} is for tables without a key, and key gives it one")
        return form

    def _last(self, setting: str, table: str) -> Any:
        """What the last pattern that matches the table gives for a setting; None where none gives it."""
        return said_last({pattern: getattr(t, setting) for pattern, t in self.said(setting).items()}, table)

    def _properties(self, table: str) -> dict[str, str]:
        found: dict[str, bool | int | str] = {}
        for pattern, one in self.tables.items():
            found.update(one.properties if fnmatchcase(table, pattern) else {})
        return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in found.items()}

    def _transform(self, table: str) -> Transform:
        matching = [t for pattern, t in self.tables.items() if fnmatchcase(table, pattern)]
        said = [t.filter for t in matching if t.filter is not None]
        rename: dict[str, str] = {}
        computed: dict[str, str] = {}
        metadata: dict[str, Metadata] = {}
        for one in matching:
            rename.update(one.rename)
            computed.update(one.computed)
            metadata.update(one.metadata)
        return Transform(rename, computed, said[-1] if said else None, metadata)

    @property
    def keys(self) -> dict[str, tuple[str, ...]]:
        """What tells the rows of tables without a primary key apart, by pattern."""
        return {pattern: tuple(t.key or ()) for pattern, t in self.said("key").items()}

    def said(self, setting: str) -> dict[str, TableConfig]:
        """The patterns under `tables` that give a setting; its default in the others says nothing."""
        return {pattern: t for pattern, t in self.tables.items() if setting in t.model_fields_set}


def _contradicting(table: str, what: str) -> ConfigError:
    return ConfigError(what, where=f"tables.{table}", hint="choose one of the two")
