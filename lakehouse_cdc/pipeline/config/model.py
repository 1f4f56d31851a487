"""The whole `pipeline.yml`, and what it says of one table: `TABLE` has all its options.

The sections are declared in `lakehouse_cdc.options.source` and in `sections`; here are the rules between their keys.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lakehouse_cdc.errors import ConfigError, codes
from lakehouse_cdc.model.table_name import last_match, matches
from lakehouse_cdc.options.declaration import NEVER, NEXT_RUN, Keys, Option, Section, option, table_of
from lakehouse_cdc.options.kinds import Invalid, Text
from lakehouse_cdc.options.nested import MapOf
from lakehouse_cdc.options.source import SourceConfig, start_contradiction
from lakehouse_cdc.pipeline.config.sections import RunConfig, SparkConfig, TableConfig, TargetConfig
from lakehouse_cdc.schema.selection import nearest
from lakehouse_cdc.silver.definition.form import Form, form_named
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.definition.transform import Metadata, Transform
from lakehouse_cdc.sinks.kafka.options import SinkConfig

_OF_SERVER = (
    "exclude",
    "include",
    "masks",
    "types",
    "schema_changes",
    "on_error",
    "start",
)  # what topics cannot have yet


@dataclass(frozen=True, kw_only=True)
class PipelineConfig(Keys):
    """The whole file."""

    name: str = option(
        Text(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", "letters, digits and _, with . and - inside"),
        "name of the pipeline; its tables belong to it",
        changes=NEVER,
    )
    source: SourceConfig = option(Section(SourceConfig), "where the rows are read", changes=NEXT_RUN)
    target: TargetConfig = option(Section(TargetConfig), "where the tables are written", changes=NEXT_RUN)
    run: RunConfig = option(Section(RunConfig), "when batches begin", default=RunConfig(), changes=NEXT_RUN)
    spark: SparkConfig = option(
        Section(SparkConfig), "the session of Spark that a pipeline makes", default=SparkConfig(), changes=NEXT_RUN
    )
    tables: dict[str, TableConfig] = option(
        MapOf(Section(TableConfig), names="pattern"),
        "settings of tables, by a pattern on `database.table`",
        default={}, changes=NEXT_RUN,
    )  # fmt: skip
    sinks: dict[str, SinkConfig] = option(
        MapOf(Section(SinkConfig), names="name", named=Text(r"[A-Za-z0-9_-]{1,64}", "letters, digits, _ and -")),
        "where bronze goes onward, by names of your own: see [Send to Kafka](../guides/send-to-kafka.md)",
        default={}, changes=NEXT_RUN,
    )  # fmt: skip

    json_rules: ClassVar = (
        {  # a hash needs a salt
            "anyOf": [
                {
                    "properties": {
                        "tables": {
                            "additionalProperties": {
                                "properties": {"masks": {"additionalProperties": {"not": {"const": "hash"}}}}
                            }
                        }
                    }
                },
                {"properties": {"source": {"required": ["mask_salt"], "properties": {"mask_salt": {"minLength": 1}}}}},
            ]
        },
        {  # a start in the past is one of changes alone
            "anyOf": [
                {
                    "properties": {
                        "tables": {"additionalProperties": {"properties": {"start": {"enum": [None, "now"]}}}}
                    }
                },
                {
                    "properties": {
                        "source": {"required": ["snapshot"], "properties": {"snapshot": {"const": "never"}}},
                    }
                },
            ]
        },
        {  # what only a server can do, and what only messages need
            "anyOf": [
                {
                    "properties": {
                        "source": {"properties": {"kafka": {"type": "null"}}},
                        "tables": {"additionalProperties": {"not": {"required": ["columns"]}}},
                    }
                },
                {
                    "properties": {
                        "source": {"required": ["kafka"], "properties": {"kafka": {"type": "object"}}},
                        "tables": {"additionalProperties": {"propertyNames": {"not": {"enum": [*_OF_SERVER]}}}},
                    }
                },
            ]
        },
    )

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> PipelineConfig:
        """The configuration of plain values, as YAML gives them. Raises ConfigError that names the key."""
        try:
            return Section(cls).check(values)
        except Invalid as error:
            raise codes.CONFIG_FILE_INVALID.error(error.first.message, hint=error.first.hint) from None

    def contradiction(self) -> str:
        hashed = (f"tables.{p}.masks.{c}" for p, t in self.tables.items() for c, m in t.masks.items() if m == "hash")
        if not self.source.mask_salt and (one := next(hashed, "")):
            return f"{one} is hash, for which source.mask_salt must be given, such as ${{env:NAME}}"
        unfit, why = (_OF_SERVER, "of a server") if self.source.kafka is not None else (("columns",), "of topics")
        others = (f"tables.{p}.{name}" for p, t in self.tables.items() for name in t.given if name in unfit)
        if one := next(others, ""):
            return f"{one} is {why}, and source is not"
        starts = (
            f"tables.{p}: {what}"
            for p, t in self.tables.items()
            if (what := start_contradiction(t.start, self.source.snapshot))
        )
        return next(starts, "")

    @property
    def sink_names(self) -> tuple[str, ...]:
        """Those of `target.sinks`, then those of `sinks`."""
        return (*self.target.sinks, *self.sinks)

    def excluded(self, table: str) -> tuple[str, ...]:
        """The columns left out of `database.table`: of every pattern under `tables` that matches it."""
        columns = [c for pattern, t in self.tables.items() if matches(table, pattern) for c in t.exclude]
        return tuple(dict.fromkeys(columns))

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
        if into and last("silver_name") is not None:
            raise _contradicting(table, "into names a silver table of several, and silver_name one of its own")
        cluster_by = tuple(last("cluster_by") or ())
        if into and cluster_by:
            raise _contradicting(table, "into: a table that several go into has a part for each, and is not clustered")
        transform = self._transform(table)
        if form.marks_deletes and transform.filter is not None:
            raise _contradicting(table, "deletes: soft keeps rows that are gone, and a filter takes rows away")
        if into and not (form.needs_key or form.counts_copies):
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
            engine=self.target.engine,
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
        if appends and (soft or history or key):
            what = "scd: 2" if history else "deletes: soft" if soft else "key"
            raise _contradicting(table, f"append only ever adds rows, {what} is about rows that are told apart")
        if named is not None and (appends or soft or history):
            what = "append" if appends else "scd: 2" if history else "deletes: soft"
            raise _contradicting(table, f"form: {named} names the form, and so does {what}")
        form = form_named(
            named or ("append" if appends else "history" if history else "soft_deletes" if soft else "current")
        )
        if key and not form.needs_key:
            raise _contradicting(table, f"form: {form.name} is for tables without a key, and key gives it one")
        return form

    def unmatched(self, names: Collection[str]) -> dict[str, str]:
        """The patterns under `tables` that match no captured table, and the name that each may mean, or ""."""
        unused = [p for p in self.tables if not any(matches(name, p) for name in names)]
        return {pattern: nearest(pattern, names) for pattern in unused}

    def _last(self, setting: str, table: str) -> Any:
        """What the last pattern that matches the table gives for a setting; None where none gives it."""
        return last_match({pattern: getattr(t, setting) for pattern, t in self.tables_that_set(setting).items()}, table)

    def _properties(self, table: str) -> dict[str, str]:
        properties: dict[str, bool | int | str] = {}
        for pattern, one in self.tables.items():
            properties.update(one.properties if matches(table, pattern) else {})
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in properties.items()
        }

    def _transform(self, table: str) -> Transform:
        matching = [t for pattern, t in self.tables.items() if matches(table, pattern)]
        filters = [t.filter for t in matching if t.filter is not None]
        rename: dict[str, str] = {}
        computed: dict[str, str] = {}
        metadata: dict[str, Metadata] = {}
        for one in matching:
            rename.update(one.rename)
            computed.update(one.computed)
            metadata.update(one.metadata)
        return Transform(rename, computed, filters[-1] if filters else None, metadata)

    @property
    def keys(self) -> dict[str, tuple[str, ...]]:
        """The columns that identify the rows of tables without a primary key, by pattern; of some nothing does."""
        return {pattern: tuple(t.key or ()) for pattern, t in self.tables.items() if "key" in t.given or _keyless(t)}

    @property
    def columns(self) -> dict[str, dict[str, str]]:
        """The types of columns that messages do not name, by pattern."""
        return {pattern: t.columns for pattern, t in self.tables.items() if "columns" in t.given}

    def tables_that_set(self, setting: str) -> dict[str, TableConfig]:
        """The patterns under `tables` that give a setting; its default in the others says nothing."""
        return {pattern: t for pattern, t in self.tables.items() if setting in t.given}


def _keyless(settings: TableConfig) -> bool:
    """Whether the silver tables are to be of a form that has no key."""
    return settings.append or bool(settings.form and not form_named(settings.form).needs_key)


def _contradicting(table: str, what: str) -> ConfigError:
    return codes.SETTINGS_CONTRADICT.error(what, where=f"tables.{table}", hint="choose one of the two")


TABLE: tuple[Option, ...] = tuple(table_of(PipelineConfig))
