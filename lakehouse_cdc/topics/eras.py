"""Which rows of a batch are of which schema of their table, in order: the eras of a table. Pure.

Silver cuts a batch at each change of a schema, by seq: what is below was written under the schema before it. So the
rows of one schema have to lie between two boundaries. By position they do, as far as the messages were written in the
source's order; by arrival each schema gets a stretch of seqs of its own (`ERA`). What does not fit is set aside, with
the reason: rows of a schema that come after those of the next one, and rows of a schema that `schema_changes` cannot
explain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Protocol

from lakehouse_cdc.messages.reading import Reason
from lakehouse_cdc.model.seq import FILE
from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.topics.order import ERA, Order, first_seq

_BEYOND = 10**38
_MOST_ERAS = 9  # a seq has room for so many


@dataclass(frozen=True)
class Group:
    """The rows of a table that one partition has under one schema: their least and greatest seq, and when they began.

    `since` is the time of the first of their messages, in microseconds since 1970.
    """

    table: str
    schema_id: str
    topic: str
    partition: int
    first: int
    last: int
    since: int


@dataclass(frozen=True)
class Rule:
    """What becomes of the rows of a group: their seq is raised by `shift`; those from `below` on (as it was) are set
    aside as out of order, and all of them for `reason`, where there is one."""

    group: Group
    shift: int
    below: int
    reason: Reason | None
    text: str


@dataclass(frozen=True)
class Boundary:
    """From `seq` on the table has that schema: its first one, or what a change makes of the one before."""

    seq: int
    schema: TableSchema | SchemaChange


@dataclass(frozen=True)
class Plan:
    """The rules of all groups, and the boundaries in the batch, by table."""

    rules: tuple[Rule, ...]
    boundaries: Mapping[str, tuple[Boundary, ...]]


class Ordering(Protocol):
    """How the rows are ordered; `again`: they are letters that are tried once more."""

    @property
    def order(self) -> Order: ...
    @property
    def epoch(self) -> int: ...
    @property
    def again(self) -> bool: ...


Change = Callable[[TableSchema, TableSchema], SchemaChange | str]


def planned(
    groups: Iterable[Group],
    schemas: Callable[[str], TableSchema],
    current: Mapping[str, TableSchema],
    change: Change,
    newest: Callable[[str], int],
    how: Ordering,
) -> Plan:
    """The eras of each table.

    `schemas` are those of the groups by id, `current` those that tables have by now; `newest` is the greatest seq of a
    table in bronze, before the batch.
    """
    rules: list[Rule] = []
    boundaries: dict[str, tuple[Boundary, ...]] = {}
    by_table = sorted(groups, key=lambda group: (group.table, group.topic, group.partition, group.first))
    for table, of_table in groupby(by_table, key=lambda group: group.table):
        eras = _Eras(current.get(table), schemas, change, partial(newest, table), how)
        rules += eras.rules(list(of_table))
        if eras.boundaries:
            boundaries[table] = tuple(eras.boundaries)
    return Plan(tuple(rules), boundaries)


class _Eras:
    def __init__(
        self,
        current: TableSchema | None,
        schemas: Callable[[str], TableSchema],
        change: Change,
        newest: Callable[[], int],
        how: Ordering,
    ) -> None:
        self._current, self._schemas, self._change, self._newest = current, schemas, change, newest
        self._how, self._by_arrival = how, how.order == "arrival"
        self._held: int | None = None  # the greatest seq in bronze, once it was asked for
        self.boundaries: list[Boundary] = []

    def rules(self, groups: Sequence[Group]) -> list[Rule]:
        by_id: dict[str, list[Group]] = {}
        for group in sorted(groups, key=self._begin):
            by_id.setdefault(group.schema_id, []).append(group)
        ids = sorted(by_id, key=lambda one: self._current is None or one != self._current.id)  # stable
        rules: list[Rule] = []
        eras: list[str] = []  # those that are taken
        for schema_id in ids:
            if why := self._begun(by_id[schema_id], len(eras)):
                rules += [Rule(group, 0, 0, Reason.SCHEMA_CHANGE, why) for group in by_id[schema_id]]
            else:
                eras.append(schema_id)
        for at, schema_id in enumerate(eras):
            later = [group for one in eras[at + 1 :] for group in by_id[one]]
            for group in by_id[schema_id]:
                rivals = [one for one in later if not self._by_arrival or _place(one) == _place(group)]
                below = min((one.first - 1 for one in rivals), default=_BEYOND)  # its boundary is there
                rules.append(Rule(group, at * ERA if self._by_arrival else 0, below, None, ""))
        return rules

    def _begin(self, group: Group) -> tuple[int, int]:
        return (group.since, group.first) if self._by_arrival else (group.first, group.since)

    def _begun(self, groups: Sequence[Group], era: int) -> str:
        """Begin an era with the schema of those groups; '' or why it cannot be."""
        schema = self._schemas(groups[0].schema_id)
        if self._by_arrival and era >= _MOST_ERAS:
            return f"the table had {_MOST_ERAS} other schemas in the batch before this one"
        if self._current is None:
            self.boundaries.append(Boundary(first_seq(self._how.epoch), schema))
        elif self._current.id != schema.id:
            change = self._change(self._current, schema)
            if isinstance(change, str):
                return change
            seq = min(group.first for group in groups) - 1
            if self._by_arrival and not self._how.again:
                seq = seq - seq % FILE + era * ERA  # where the batch begins, or this schema's stretch of it
            if self._held is None:
                self._held = self._newest()
            if seq <= self._held:
                return "bronze has rows of the schema before it that came after it"
            self.boundaries.append(Boundary(seq, change))
        self._current = schema
        return ""


def _place(group: Group) -> tuple[str, int]:
    return group.topic, group.partition
