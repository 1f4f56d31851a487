"""Silver by AUTO CDC: the calls of a declarative pipeline that keep a table as the MERGE would; pure.

The plan is the MERGE's: the table's schemas, and the policy. Both feeds of a table (see `feed`) have the same columns,
so both flows into it are declared alike; AUTO CDC puts what comes into order by their column `own.sequence`, whichever
flow it comes by. A table has the columns that it has with the MERGE: the source's, the seq and the commit time, which
begin no version, and of type 2 `__START_AT` and `__END_AT`, which AUTO CDC adds. Where no column is to be tracked, a
version begins where the row comes into being: that is what it does by the key, which never changes.

What AUTO CDC cannot do is refused by name, before anything is declared.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.table_layout import Table, quoted
from lakehouse_cdc.schema.type_registry import Kind
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.auto_cdc.schema_eras import Eras
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.definition.transform import NOTHING

FLOW = "create_auto_cdc_flow"
_OLDER = {FLOW: "apply_changes", "temporary_view": "view"}  # what these were called in the module `dlt`
_RENAMED = {"name": "flow_name"}


@dataclass(frozen=True)
class Call:
    """One call of a function of the pipelines' module; all arguments go by name."""

    function: str
    kwargs: Mapping[str, Any]


@dataclass(frozen=True)
class AutoCdcPlan:
    """One table: where it goes, from which schemas, and what is configured for it. `properties` are the table's."""

    target: Table
    eras: Eras
    policy: Policy
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`database.table` of the source."""
        return self.eras.last.schema.name

    @property
    def name_taken(self) -> str | None:
        """A column of the source that has the name of one that silver, or its feed, adds; None if there is none."""
        own = {name.lower() for name in (*self.target.reserved, *self.target.own.of_feed)}
        return next((name for name, _ in self.eras.columns if name.lower() in own), None)

    @property
    def changes(self) -> str:
        """The view of the row changes."""
        return identifier(f"{self.target.name}__changes")

    @property
    def gone(self) -> str:
        """The view of what barriers take away."""
        return identifier(f"{self.target.name}__gone")


def identifier(name: str) -> str:
    """A name as these functions read it: they parse an identifier."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else quoted(name)


def qualified(table: Table) -> str:
    """A table as these functions read it."""
    return ".".join(identifier(part) for part in (table.catalog, table.schema, table.name) if part)


def declare_auto_cdc(plan: AutoCdcPlan) -> list[Call]:
    """The table, then a flow of its changes and one of what barriers take away.

    Raises DefiniteError for what AUTO CDC cannot keep.
    """
    _require(plan)
    own = plan.target.own
    flow: dict[str, Any] = {
        "target": qualified(plan.target),
        "keys": [identifier(name) for name, _ in plan.eras.key],
        "sequence_by": own.sequence,
        "apply_as_deletes": f"{own.op} = 'd'",
        "except_column_list": [*own.of_feed],
        "stored_as_scd_type": plan.policy.form.scd_type,
        **_tracked(plan),
    }
    table = {
        "name": qualified(plan.target),
        "comment": plan.policy.comments.before(f"{plan.name} {plan.policy.form.summary}; {own.meaning}"),
        "table_properties": {**plan.policy.properties, **plan.properties, **plan.policy.form.properties},
        **({"cluster_by": [identifier(name) for name in plan.policy.cluster_by]} if plan.policy.cluster_by else {}),
    }
    return [
        Call("create_streaming_table", table),
        Call(FLOW, {**flow, "source": plan.changes, "name": plan.changes}),
        Call(FLOW, {**flow, "source": plan.gone, "name": plan.gone}),
    ]


def _tracked(plan: AutoCdcPlan) -> dict[str, list[str]]:
    if not plan.policy.form.has_versions:
        return {}
    if plan.policy.track is None:
        return {"track_history_except_column_list": [plan.target.own.seq, plan.target.own.commit_ts]}
    track = plan.policy.track or [name for name, _ in plan.eras.key]
    return {"track_history_column_list": [identifier(name) for name in track]}


def _require(plan: AutoCdcPlan) -> None:
    policy, name = plan.policy, plan.name
    if plan.target.part is not None:
        raise _cannot(name, "into", "each table has a feed of its own, by its own key")
    if policy.transform != NOTHING:
        raise _cannot(name, "rename, computed, filter and metadata", "its feed has the source's columns")
    if policy.form.auto_cdc_refusal is not None:
        raise _cannot(name, *policy.form.auto_cdc_refusal)
    if not plan.eras.key:
        raise _cannot(name, "a table without a key", "AUTO CDC finds a row by its key")
    if policy.freezes:
        raise _cannot(name, "schema_changes: freeze", "AUTO CDC takes every column that comes")
    if policy.drops:
        raise _cannot(name, "dropped_columns: drop", "AUTO CDC drops no column")
    if policy.beside and (column := plan.eras.retyped()) is not None:
        raise _cannot(name, "changed_types: beside", f"AUTO CDC keeps nothing beside {column}, which got another type")
    if policy.form.has_versions:
        _require_tracked(plan)


def _require_tracked(plan: AutoCdcPlan) -> None:
    by_name = {c.name: c for c in plan.eras.last.schema.captured}
    tracked = [*by_name] if plan.policy.track is None else plan.policy.track
    for column in tracked:
        if column not in by_name:
            raise codes.DECLARATIVE_SETTING_UNSUPPORTED.error(
                f"{plan.name} has no column {column}, whose history is to be tracked",
                where=str(plan.target),
                hint="name the columns under track as they are called now",
            )
        if require(by_name[column], plan.name).kind is Kind.JSON:
            raise codes.DECLARATIVE_SETTING_UNSUPPORTED.error(
                f"AUTO CDC cannot tell one value of {column} from another: a VARIANT is not compared",
                where=plan.name,
                hint=f"carry it as text (types: {{{column}: text}}), or leave it out of what is tracked",
            )


def _cannot(name: str, setting: str, why: str) -> DefiniteError:
    return codes.DECLARATIVE_SETTING_UNSUPPORTED.error(
        f"{setting} cannot be had in a declarative pipeline: {why}",
        where=f"tables: {name}",
        hint="leave the setting out, or run this pipeline as a job",
    )


def takes(function: Callable[..., Any], *names: str) -> bool:
    """Whether a function takes all these arguments by name."""
    parameters = inspect.signature(function).parameters
    return any(p.kind is p.VAR_KEYWORD for p in parameters.values()) or parameters.keys() >= {*names}


def function_of(dp: Any, name: str) -> Callable[..., Any] | None:
    """A function of the pipelines' module, under whatever name this runtime has it; None if it has none."""
    function: Callable[..., Any] | None = getattr(dp, name, None) or getattr(dp, _OLDER.get(name, name), None)
    return function


def has_auto_cdc(dp: Any) -> bool:
    """Whether the runtime's AUTO CDC does what silver wants: type 2 with columns that are not tracked.

    The open-source one has type 1 alone, and not into Delta tables.
    """
    function = function_of(dp, FLOW)
    return function is not None and takes(function, "track_history_except_column_list")


def perform(dp: Any, calls: Iterable[Call]) -> None:
    """Make the calls on the pipelines' module. Raises DefiniteError where it lacks a function or an argument."""
    for call in calls:
        function = function_of(dp, call.function)
        if function is None:
            raise _lacks(dp, call.function)
        kwargs = dict(call.kwargs)
        for name, older in _RENAMED.items():
            if name in kwargs and not takes(function, name) and takes(function, older):
                kwargs[older] = kwargs.pop(name)
        for name in kwargs:
            if not takes(function, name):
                raise _lacks(dp, f"{call.function}({name}=...)")
        function(**kwargs)


def _lacks(dp: Any, what: str) -> DefiniteError:
    return codes.DECLARATIVE_RUNTIME_UNSUPPORTED.error(
        f"this runtime's declarative pipelines have no {what}",
        where=getattr(dp, "__name__", type(dp).__name__),
        hint="use a newer runtime, or run this pipeline as a job",
    )
