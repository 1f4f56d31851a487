"""The plan of a change, carried out on columns with an identity of their own: whatever crashes, one table results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.definition.casts import widens
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.evolution.plan import evolution
from lakehouse_cdc.silver.evolution.steps import (
    AddColumn,
    DropColumn,
    Enter,
    Fill,
    Finish,
    Phase,
    RenameColumn,
    Rewrite,
    Step,
    TakeOver,
    Widen,
)
from lakehouse_cdc.silver.forms import HISTORY

NAMES = ("a", "A", "b", "B", "c", "d", "x", "X", "y")
TYPES = ("int", "bigint", "text", "date")


@dataclass
class Columns:
    """A Delta table: name -> (which column it is, type). Names are told apart without case."""

    held: dict[str, tuple[str, str]]
    phase: Phase = Phase.BEFORE
    finished: bool = False

    def perform(self, step: Step) -> None:
        """As Delta would, which refuses a name that is there."""
        if isinstance(step, Fill | Rewrite | TakeOver):
            self._carry(step)
        elif isinstance(step, Enter):
            assert step.phase > self.phase
            self.phase = step.phase
        elif isinstance(step, RenameColumn):
            self._free(step.to)
            self.held = {step.to if n == step.name else n: c for n, c in self.held.items()}
        elif isinstance(step, DropColumn):
            del self.held[step.name]
        elif isinstance(step, AddColumn):
            self._free(step.name)
            assert step.after is None or step.after in self.held
            self.held[step.name] = ("new", step.type)
        elif isinstance(step, Widen):
            which, held = self.held[step.name]
            assert widens(held, step.type)
            self.held[step.name] = (which, step.type)
        elif isinstance(step, Finish):
            self.finished = True

    def _carry(self, step: Fill | Rewrite | TakeOver) -> None:
        if isinstance(step, Fill):
            for name, kind, text in step.columns:
                assert self.held[name] in (("new", kind), (f"filled {text}", kind))
                self.held[name] = (f"filled {text}", kind)
            return
        for name, one in step.columns if isinstance(step, TakeOver) else [(one.name, one) for one in step.columns]:
            which, held = self.held[one.name]
            assert held == one.held
            assert name == one.name or self.held[name] in (("new", one.type), (which, one.type))
            self.held[name] = (which, one.type)

    def _free(self, name: str) -> None:
        assert name.lower() not in {n.lower() for n in self.held}, f"{name} is taken"


def column(rng: Random, name: str) -> Column:
    kind = rng.choice(TYPES)
    charset = "utf8mb4" if kind == "text" else None
    return Column(name, kind, charset=charset, captured=rng.random() < 0.85)


def names(rng: Random) -> list[str]:
    """Some names that MySQL would allow in one table."""
    chosen: dict[str, str] = {}
    for name in rng.sample(NAMES, rng.randint(0, len(NAMES))):
        chosen.setdefault(name.lower(), name)
    return list(chosen.values())


def change(rng: Random) -> tuple[TableSchema, TableSchema, dict[str, str], Columns, dict[str, str]]:
    """Two schemas, where each column of the new one comes from, and a table of the old one with kept columns."""
    key = Column("id", "int", False)
    old = TableSchema("shop", "t", (key, *(column(rng, n) for n in names(rng))), ("id",))
    was = {c.name: c for c in old.columns}
    sources, made, origin = [c.name for c in old.columns[1:]], [key], {"id": "id"}
    rng.shuffle(sources)
    for name in names(rng):
        one = column(rng, name)
        if sources and rng.random() < 0.7:
            origin[name] = name if name in sources and rng.random() < 0.3 else sources[-1]
            sources.remove(origin[name])
            if rng.random() < 0.7:
                one = replace(was[origin[name]], name=name)
        made.append(one)
    new = TableSchema("shop", "t", tuple(made), ("id",))
    kind = {c.name: require(c, "t").silver for c in old.columns}
    held = {c.name: (c.name, kind[c.name]) for c in old.captured}
    for name in NAMES:
        if name.lower() not in {n.lower() for n in held} and rng.random() < 0.6:
            held[name] = (f"kept {name}", "int")
    new_ones = [c.name for c in new.captured if c.name not in origin]
    return old, new, origin, Columns(held), {name: name * 2 for name in new_ones if rng.random() < 0.5}


POLICIES = [Policy(), Policy(drops=True), Policy(beside=True), Policy(beside=True, form=HISTORY)]


@given(seed=st.integers(0, 2**32), crashes=st.lists(st.integers(0, 6), max_size=4), policy=st.sampled_from(POLICIES))
def test_whatever_crashes_each_column_ends_where_it_belongs(seed: int, crashes: list[int], policy: Policy) -> None:
    old, new, origin, table, filled = change(Random(seed))
    before, was = dict(table.held), {c.name for c in old.captured}
    for steps_before_the_crash in [*crashes, 1000]:
        held = {name: kind for name, (_, kind) in table.held.items()}
        steps = evolution(old, new, origin, held, table.phase, filled, policy)
        if table.phase is Phase.BEFORE and not table.finished:
            assert table.held == before, "something was done before the change had begun"
        for step in steps[:steps_before_the_crash]:
            table.perform(step)
        if table.finished:
            break
    begun = {name: f"filled {text}" for name, text in filled.items()}
    wanted = {
        c.name: (origin[c.name] if origin.get(c.name) in was else begun.get(c.name, "new"), require(c, "t").silver)
        for c in new.captured
    }

    def retyped(name: str, one: tuple[str, str]) -> bool:
        held = before[origin[name]][1] if origin.get(name) in was else one[1]
        return held != one[1] and not widens(held, one[1])

    taken = {name.lower() for name in wanted}
    left = {source for source, _ in wanted.values()}
    kept = {n: c for n, c in before.items() if n.lower() not in taken and c[0] not in left}
    if policy.beside:
        stay = [before[origin[name]] for name, one in wanted.items() if retyped(name, one)]
        aside = {f"{which}__{kind}": (which, kind) for which, kind in stay}
        assert all(name not in {*wanted, *kept} for name in aside)
        kept |= aside
    if policy.form is HISTORY:
        aside = {f"{n}__dropped": c for n, c in before.items() if n.lower() in taken and c[0] not in left}
        assert all(name not in {*wanted, *kept} for name in aside)
        kept |= aside
    assert table.held == {**wanted, **({} if policy.drops else kept)}


def test_a_rename_and_an_addition_are_one_step_each() -> None:
    old = TableSchema("shop", "t", (Column("id", "int", False), Column("a", "int")), ("id",))
    new = replace(old, columns=(old.columns[0], Column("b", "int"), Column("c", "date")))
    steps = evolution(old, new, {"id": "id", "b": "a"}, {"id": "int", "a": "int"}, Phase.BEFORE)
    assert steps == [
        Enter(Phase.PARTING), RenameColumn("a", "b"), Enter(Phase.JOINING), AddColumn("c", "date", "b"), Finish()
    ]  # fmt: skip
    assert evolution(old, old, {"id": "id", "a": "a"}, {"id": "int", "a": "int"}, Phase.BEFORE) == [Finish()]


def test_an_origin_that_is_none_is_refused() -> None:
    old = TableSchema("shop", "t", (Column("id", "int", False), Column("a", "int")), ("id",))
    for origin in ({"id": "id", "a": "z"}, {"z": "a"}, {"id": "id", "a": "id"}):
        with pytest.raises(DefiniteError, match=r"does not say where its columns come from \[shop\.t\]"):
            evolution(old, old, origin, {"id": "int", "a": "int"}, Phase.BEFORE)


@pytest.mark.parametrize(
    ("held", "wanted", "so"),
    [
        ("tinyint", "smallint", True), ("int", "bigint", True), ("bigint", "int", False), ("int", "int", False),
        ("int", "double", True), ("bigint", "double", False), ("float", "double", True), ("double", "float", False),
        ("int", "decimal(10,0)", True), ("int", "decimal(9,0)", False), ("bigint", "decimal(20,0)", True),
        ("bigint", "decimal(21,2)", False), ("decimal(10,2)", "decimal(12,4)", True),
        ("decimal(10,2)", "decimal(10,4)", False), ("decimal(10,2)", "decimal(9,2)", False),
        ("date", "timestamp_ntz", True), ("date", "timestamp", False), ("int", "string", False),
    ],
)  # fmt: skip
def test_what_widens(held: str, wanted: str, so: bool) -> None:
    assert widens(held, wanted) is so


def test_a_column_beside_gets_a_name_that_is_free() -> None:
    key = Column("id", "int", False)
    old = TableSchema("shop", "t", (key, Column("N", "decimal", precision=10, scale=2)), ("id",))
    new = replace(old, columns=(key, Column("N", "text", charset="utf8mb4")))
    present = {"id": "int", "N": "decimal(10,2)", "n__DECIMAL_10_2": "int", "N__decimal_10_2_2": "int"}
    steps = evolution(old, new, {"id": "id", "N": "N"}, present, Phase.BEFORE, policy=Policy(beside=True))
    [*_, last, finish] = steps
    assert isinstance(last, RenameColumn)
    assert last.to == "N__decimal_10_2_3"
    assert finish == Finish()
    assert not any(isinstance(step, Rewrite) for step in steps)
