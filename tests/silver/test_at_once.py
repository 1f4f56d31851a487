"""A change of the schema in one step: each column of the new schema holds what the source says that it holds."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.images.typed.columns import arrow_type
from lakehouse_cdc.lake.table_state import delta_type, sql_type
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.definition.casts import widens
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.evolution.at_once import at_once, constant
from lakehouse_cdc.silver.evolution.plan import evolution
from lakehouse_cdc.silver.evolution.steps import Cluster, Count, Forget, Phase, Rewrite, TakeOver, Unite

VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "int": (pa.int32(), lambda n: n - 2**31),
    "bigint": (pa.int64(), lambda n: n - 2**63),
    "string": (pa.string(), lambda n: f"text {n}"),
    "date": (pa.date32(), lambda n: date(1, 1, 1 + n)),
}
WIDER = {"int": "bigint", "bigint": "bigint", "text": "text", "date": "datetime"}
MYSQL = {"int": "int", "bigint": "bigint", "text": "string", "date": "date"}
NAMES = ("a", "A", "b", "B", "c", "d", "x", "X", "y")
KEY = Column("id", "int", False)


def column(name: str, kind: str) -> Column:
    return Column(name, kind, charset="utf8mb4" if kind == "text" else None)


def names(rng: Random) -> list[str]:
    chosen: dict[str, str] = {}
    for name in rng.sample(NAMES, rng.randint(0, len(NAMES))):
        chosen.setdefault(name.lower(), name)
    return list(chosen.values())


def schemas(rng: Random) -> tuple[TableSchema, TableSchema, dict[str, str], dict[str, str]]:
    """Two schemas, where columns of the new one come from, whose types are the same or wider, and constants."""
    old = TableSchema("shop", "t", (KEY, *(column(n, rng.choice([*MYSQL])) for n in names(rng))), ("id",))
    sources, made, origin, filled = [*old.columns[1:]], [KEY], {"id": "id"}, {}
    rng.shuffle(sources)
    for name in names(rng):
        kind = rng.choice([*MYSQL])
        if sources and rng.random() < 0.7:
            source = sources.pop()
            origin[name], kind = source.name, source.type
            kind = WIDER[kind] if rng.random() < 0.4 else kind
        elif kind != "date" and rng.random() < 0.5:
            filled[name] = "7"
        made.append(column(name, kind))
    return old, TableSchema("shop", "t", tuple(made), ("id",)), origin, filled


def held(old: TableSchema, rng: Random, rows: int) -> pa.Table:
    """A table of the old schema, with columns that were kept and are of no schema, and one that says what has ended."""
    columns = {c.name: require(c, "t").silver for c in old.columns}
    for name in NAMES:
        if name.lower() not in {one.lower() for one in columns} and rng.random() < 0.4:
            columns[name] = "int"
    made = {}
    for name, kind in columns.items():
        values = [None if rng.random() < 0.2 else VALUES[kind][1](n) for n in range(rows)]
        made[name] = pa.array(values, VALUES[kind][0])
    made["ended"] = pa.array([rng.choice([None, 1]) for _ in range(rows)], pa.int64())
    return pa.table(made)


@given(seed=st.integers(0, 2**32), drops=st.booleans(), ends=st.booleans())
def test_each_column_holds_what_it_held_under_its_old_name(seed: int, drops: bool, ends: bool) -> None:
    rng = Random(seed)
    old, new, origin, filled = schemas(rng)
    rows = held(old, rng, rng.randint(0, 5))
    fields = [{"name": f.name, "type": delta_type(kind_of(f.type)), "metadata": {"of": f.name}} for f in rows.schema]
    present = {f.name: kind_of(f.type) for f in rows.schema if f.name != "ended"}
    steps = evolution(old, new, origin, present, Phase.BEFORE, filled, Policy(drops=drops))
    made = at_once(fields, steps, {name: f"new {name}" for name in NAMES})
    assert made is not None
    kinds = {c.name: arrow_type(require(c, "t")) for c in new.captured}
    after = made.rows(rows, kinds, "ended" if ends else None)
    assert after.column_names == [f["name"] for f in made.fields]
    assert len(after) == len(rows)
    current = [not ends or one is None for one in rows.column("ended").to_pylist()]
    taken = {c.name.lower() for c in new.captured}
    for c in new.captured:
        field = next(f for f in made.fields if f["name"] == c.name)
        assert (sql_type(field["type"]), after.schema.field(c.name).type) == (require(c, "t").silver, kinds[c.name])
        if c.name in origin:
            assert after.column(c.name).to_pylist() == [moment(v, c) for v in rows.column(origin[c.name]).to_pylist()]
            assert field["metadata"] == {"of": origin[c.name]}
        else:
            made_of = constant(filled[c.name], kinds[c.name]) if c.name in filled else None
            value = None if made_of is None else made_of.as_py()
            assert (c.name in filled) == (value is not None)
            assert after.column(c.name).to_pylist() == [value if is_current else None for is_current in current]
            assert field["metadata"] == {"comment": f"new {c.name}"}
    left = {*origin.values()}
    kept = {n for n in present if n.lower() not in taken and n not in left}
    assert {*after.column_names} - {c.name for c in new.captured} == {"ended", *([] if drops else kept)}
    for name in {"ended", *([] if drops else kept)}:
        assert after.column(name).equals(rows.column(name))
    if not made.changes_rows:
        assert [f["name"] for f in made.fields if f["name"] in rows.column_names] == rows.column_names
        assert not filled


def kind_of(kind: pa.DataType) -> str:
    return next((name for name, (one, _) in VALUES.items() if one == kind), "bigint")


def moment(value: Any, wanted: Column) -> Any:
    is_day = wanted.type == "datetime" and value is not None
    return datetime(value.year, value.month, value.day) if is_day else value


def test_an_added_column_changes_no_row() -> None:
    old = TableSchema("shop", "t", (KEY,), ("id",))
    new = replace(old, columns=(column("a", "int"), KEY, column("b", "text")))
    fields = [{"name": "id", "type": "integer", "metadata": {}}, {"name": "seq", "type": "long", "metadata": {}}]
    made = at_once(fields, evolution(old, new, {"id": "id"}, {"id": "int"}, Phase.BEFORE), {})
    assert made is not None
    assert not made.changes_rows
    assert [field["name"] for field in made.fields] == ["a", "id", "b", "seq"]


@pytest.mark.parametrize(
    "step", [Rewrite((), ()), TakeOver(()), Forget(), Unite(), Cluster(()), Count()], ids=lambda s: type(s).__name__
)
def test_any_other_step_is_sparks(step: Any) -> None:
    assert at_once([], [step], {}) is None


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("-128", pa.int8(), -128), ("9223372036854775807", pa.int64(), 2**63 - 1), ("123456", pa.float32(), 123456.0),
        ("-999999999999999", pa.float64(), -999999999999999.0), ("1.50", pa.decimal128(10, 2), Decimal("1.50")),
        ("18446744073709551615", pa.decimal128(20, 0), Decimal(2**64 - 1)), ("", pa.string(), ""),
        ("1", pa.bool_(), True),
    ],
)  # fmt: skip
def test_a_constant_is_what_its_text_says(text: str, kind: pa.DataType, value: Any) -> None:
    made = constant(text, kind)
    assert made is not None
    assert made.as_py() == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [("128", pa.int8()), ("1.5", pa.int32()), ("x", pa.int32()), ("2", pa.bool_()), ("1.555", pa.decimal128(10, 2)),
     ("2020-01-01", pa.date32()), ("1e3", pa.float64())],
)  # fmt: skip
def test_a_constant_that_the_type_does_not_hold_just_so_is_sparks(text: str, kind: pa.DataType) -> None:
    assert constant(text, kind) is None


def test_every_type_that_is_wider_takes_all_values() -> None:
    """What Delta widens without the rows, Arrow casts without a loss."""
    kinds = {
        "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(),
        "double": pa.float64(), "date": pa.date32(), "timestamp_ntz": pa.timestamp("us"),
        **{f"decimal({p},{s})": pa.decimal128(p, s) for p, s in ((5, 0), (10, 0), (10, 2), (12, 2), (20, 0), (38, 4))},
    }  # fmt: skip
    extremes: dict[pa.DataType, list[Any]] = {
        pa.int8(): [-(2**7), 2**7 - 1], pa.int16(): [-(2**15), 2**15 - 1], pa.int32(): [-(2**31), 2**31 - 1],
        pa.int64(): [-(2**63), 2**63 - 1], pa.float32(): [1.5, float("inf"), -0.0], pa.float64(): [1e300],
        pa.date32(): [date.min, date.max], pa.timestamp("us"): [datetime.min],
    }  # fmt: skip
    met = 0
    for held_kind, kind in kinds.items():
        values = extremes.get(kind)
        if values is None:
            values = [Decimal((sign, (9,) * kind.precision, -kind.scale)) for sign in (0, 1)]
        for wanted, other in kinds.items():
            if widens(held_kind, wanted):
                met += 1
                assert pa.array(values, kind).cast(other).cast(kind).to_pylist() == values
    assert met > 20
