"""What AUTO CDC does, as Databricks documents it, as a fold over the events of a feed; and the signatures it documents.

"Upsert: update any rows in the target table that match the specified keys or insert a new row"; "apply as delete when";
events count in the order of the sequence, whatever order they come in; one event for a key at a sequence. Of type 2
`__START_AT` and `__END_AT` hold the sequences, and a change of columns that are not tracked updates the row in place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from lakehouse_cdc.model.history import Version
from lakehouse_cdc.silver.auto_cdc.declarations import Call


@dataclass(frozen=True)
class Event:
    """One row of a feed: `row` is None where it is to be applied as a delete."""

    key: Hashable
    sequence: int
    row: Any


def by_key(events: Iterable[Event]) -> dict[Hashable, list[Event]]:
    """In the order of the sequence; two events of a key at one sequence would be no order."""
    found: dict[Hashable, list[Event]] = {}
    for event in sorted(events, key=lambda e: e.sequence):
        found.setdefault(event.key, []).append(event)
    for key, mine in found.items():
        assert len({e.sequence for e in mine}) == len(mine), f"{key} has two events at one sequence"
    return found


def type_1(events: Iterable[Event]) -> dict[Hashable, tuple[int, Any]]:
    """key -> (sequence, row) of the rows that stand."""
    lasts = {key: mine[-1] for key, mine in by_key(events).items()}
    return {key: (last.sequence, last.row) for key, last in lasts.items() if last.row is not None}


def type_2(events: Iterable[Event], tracked: Callable[[Any], Any]) -> dict[Hashable, list[Version]]:
    """key -> its versions."""
    found: dict[Hashable, list[Version]] = {}
    for key, mine in by_key(events).items():
        for event in mine:
            versions = found.setdefault(key, [])
            stands = versions[-1] if versions and versions[-1].end is None else None
            if stands is not None and event.row is not None and tracked(stands.image) == tracked(event.row):
                versions[-1] = replace(stands, seq=event.sequence, image=event.row)
                continue
            if stands is not None:
                versions[-1] = replace(stands, end=event.sequence)
            if event.row is not None:
                versions.append(Version(event.sequence, None, event.sequence, event.row))
    return {key: versions for key, versions in found.items() if versions}


class Recorder:
    """A pipelines' module that remembers what was called; each call must fit the signature of the function."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.made: dict[str, Callable[..., Any]] = {}  # name of a view or flow -> its query function

    def _took(self, function: str, given: dict[str, Any]) -> None:
        kwargs = {name: value for name, value in given.items() if name != "self" and value is not None}
        self.calls.append(Call(function, kwargs))

    def _decorator(self, function: str, given: dict[str, Any]) -> Callable[[Callable[..., Any]], None]:
        self._took(function, given)

        def decorate(query: Callable[..., Any]) -> None:
            self.made[given["name"]] = query

        return decorate


class Databricks(Recorder):
    """`pyspark.pipelines` as its reference on Databricks has the functions that are used here."""

    def create_streaming_table(
        self,
        name: str,
        comment: str | None = None,
        spark_conf: dict[str, str] | None = None,
        table_properties: dict[str, str] | None = None,
        path: str | None = None,
        partition_cols: list[str] | None = None,
        cluster_by_auto: bool | None = None,
        cluster_by: list[str] | None = None,
        schema: Any = None,
        expect_all: dict[str, str] | None = None,
        expect_all_or_drop: dict[str, str] | None = None,
        expect_all_or_fail: dict[str, str] | None = None,
        row_filter: str | None = None,
    ) -> None:
        self._took("create_streaming_table", locals())

    def create_auto_cdc_flow(
        self,
        target: str,
        source: str,
        keys: list[Any],
        sequence_by: Any,
        ignore_null_updates: bool | None = None,
        apply_as_deletes: Any = None,
        apply_as_truncates: Any = None,
        column_list: list[Any] | None = None,
        except_column_list: list[Any] | None = None,
        stored_as_scd_type: str | int | None = None,
        track_history_column_list: list[Any] | None = None,
        track_history_except_column_list: list[Any] | None = None,
        name: str | None = None,
        once: bool | None = None,
    ) -> None:
        self._took("create_auto_cdc_flow", locals())

    def append_flow(
        self,
        *,
        target: str,
        name: str | None = None,
        once: bool | None = None,
        spark_conf: dict[str, str] | None = None,
        comment: str | None = None,
    ) -> Callable[[Callable[..., Any]], None]:
        return self._decorator("append_flow", locals())

    def temporary_view(
        self, *, name: str | None = None, comment: str | None = None
    ) -> Callable[[Callable[..., Any]], None]:
        return self._decorator("temporary_view", locals())


class Dlt(Recorder):
    """The older module `dlt`: other names, and a flow's name is `flow_name`."""

    create_streaming_table = Databricks.create_streaming_table
    append_flow = Databricks.append_flow

    def view(self, *, name: str | None = None, comment: str | None = None) -> Callable[[Callable[..., Any]], None]:
        return self._decorator("view", locals())

    def apply_changes(
        self,
        target: str,
        source: str,
        keys: list[Any],
        sequence_by: Any,
        ignore_null_updates: bool | None = None,
        apply_as_deletes: Any = None,
        apply_as_truncates: Any = None,
        column_list: list[Any] | None = None,
        except_column_list: list[Any] | None = None,
        stored_as_scd_type: str | int | None = None,
        track_history_column_list: list[Any] | None = None,
        track_history_except_column_list: list[Any] | None = None,
        flow_name: str | None = None,
        once: bool | None = None,
    ) -> None:
        self._took("apply_changes", locals())
