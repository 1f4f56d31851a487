"""The eras of a table in a batch: rows lie between the boundaries of their schema, or are set aside with a reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.messages.reading import Reason
from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.topics.eras import Group, Plan, planned
from lakehouse_cdc.topics.order import Order, seq_of_arrival
from lakehouse_cdc.topics.schema_changes import change_by_names

ID = Column("id", "int", False)


def schema(*names: str) -> TableSchema:
    return TableSchema("shop", "t", (ID, *(Column(name, "int") for name in names)), ("id",))


A, B, C, RENAMED = schema("a"), schema("a", "b"), schema("a", "b", "c"), schema("z")
SCHEMAS = {one.id: one for one in (A, B, C, RENAMED)}


@dataclass(frozen=True)
class How:
    order: Order = "position"
    epoch: int = 1
    again: bool = False


def group(of: TableSchema, first: int, last: int, partition: int = 0, since: int = 0) -> Group:
    return Group("shop.t", of.id, "t", partition, first, last, since)


def plan(groups: list[Group], current: TableSchema | None, newest: int = 0, how: How = How()) -> Plan:
    def change(before: TableSchema, after: TableSchema) -> SchemaChange | str:
        return change_by_names(before, after, {})

    held = {} if current is None else {"shop.t": current}
    return planned(groups, SCHEMAS.__getitem__, held, change, lambda _: newest, how)


def boundaries(made: Plan) -> list[tuple[int, TableSchema]]:
    ones = made.boundaries.get("shop.t", ())
    return [(b.seq, b.schema.schema if isinstance(b.schema, SchemaChange) else b.schema) for b in ones]


def test_a_new_table_begins_with_its_first_schema() -> None:
    made = plan([group(A, 100, 200), group(B, 300, 400)], None)
    assert boundaries(made) == [(10**34, A), (299, B)]
    assert [(rule.below, rule.reason) for rule in made.rules] == [(299, None), (10**38, None)]


def test_without_a_change_nothing_is_asked() -> None:
    made = plan([group(A, 100, 200), group(A, 50, 70, partition=1)], A)
    assert not made.boundaries
    assert all(rule.below == 10**38 and not rule.shift and rule.reason is None for rule in made.rules)


def test_rows_of_the_old_schema_after_the_new_one_are_late() -> None:
    made = plan([group(A, 100, 350, partition=1), group(B, 300, 400)], A)
    assert boundaries(made) == [(299, B)]
    assert {rule.group.schema_id: rule.below for rule in made.rules} == {A.id: 299, B.id: 10**38}


def test_a_change_that_says_not_what_older_rows_hold_is_set_aside_alone() -> None:
    made = plan([group(A, 100, 200), group(RENAMED, 300, 400), group(B, 500, 600)], A)
    reasons = {rule.group.schema_id: rule.reason for rule in made.rules}
    assert reasons == {A.id: None, RENAMED.id: Reason.SCHEMA_CHANGE, B.id: None}
    assert boundaries(made) == [(499, B)]


def test_a_change_below_what_bronze_has_is_none() -> None:
    made = plan([group(B, 300, 400)], A, newest=350)
    assert made.rules[0].reason is Reason.SCHEMA_CHANGE
    assert not made.boundaries


def test_by_arrival_each_schema_has_a_stretch_of_its_own() -> None:
    def at(offset: int, partition: int) -> int:
        return seq_of_arrival(1, 4, partition, offset, 0)

    groups = [
        group(A, at(900, 0), at(999, 0), 0, since=1), group(B, at(1000, 0), at(1100, 0), 0, since=5),
        group(A, at(10, 1), at(20, 1), 1, since=2), group(B, at(21, 1), at(30, 1), 1, since=6),
    ]  # fmt: skip
    made = plan(groups, A, newest=at(0, 0) - 10**24, how=How("arrival"))
    [(boundary, _)] = boundaries(made)
    for rule in made.rules:
        assert rule.reason is None
        if rule.group.schema_id == A.id:
            assert rule.group.last + rule.shift < boundary
            assert rule.below > rule.group.last
        else:
            assert rule.group.first + rule.shift > boundary
            assert rule.group.last + rule.shift < seq_of_arrival(1, 5, 0, 0, 0)


_groups = st.lists(
    st.tuples(st.sampled_from([A, B, C, RENAMED]), st.integers(0, 2), st.integers(1, 500), st.integers(0, 200)),
    min_size=1, max_size=8, unique_by=lambda one: (one[0].id, one[1]),
)  # fmt: skip


@given(_groups, st.sampled_from([None, A, B]), st.booleans())
def test_what_is_taken_lies_between_its_boundaries(drawn: Any, current: TableSchema | None, arrival: bool) -> None:
    how = How("arrival" if arrival else "position")
    base = 10**34 + 2 * 10**24

    def seq(number: int) -> int:
        return base + number * (10**11 if arrival else 1) + 1

    groups = [
        group(of, seq(first), seq(first + n), partition, since=first) for of, partition, first, n in drawn
    ]  # fmt: skip
    made = plan(groups, current, newest=base - 1, how=how)
    assert {rule.group for rule in made.rules} == {*groups}
    cuts = boundaries(made)
    assert cuts == sorted(cuts, key=lambda cut: cut[0])
    assert all(cut > base - 1 or (current is None and i == 0) for i, (cut, _) in enumerate(cuts))
    for rule in made.rules:
        if rule.reason is not None:
            continue
        for at in range(rule.group.first, rule.group.last + 1, 10**11 if arrival else 1):
            if at >= rule.below:
                break
            now = at + rule.shift
            in_force = [current, *(of for cut, of in cuts if cut < now)][-1]
            assert in_force is not None
            assert in_force.id == rule.group.schema_id
            assert now not in [cut for cut, _ in cuts]
