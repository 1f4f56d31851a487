"""The calls that declare a table: they fit what each runtime takes; what AUTO CDC cannot keep is refused by name."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from typing import Any

import pytest
from pyspark import pipelines

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.own_columns import OwnColumns
from lakehouse_cdc.model.table_layout import Table
from lakehouse_cdc.schema.comments import NONE, Comments
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.auto_cdc.declarations import AutoCdcPlan, Call, declare_auto_cdc, has_auto_cdc, perform, takes
from lakehouse_cdc.silver.auto_cdc.schema_eras import Eras
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.definition.transform import Transform
from lakehouse_cdc.silver.forms import APPEND, HISTORY, SOFT_DELETES
from tests.support.silver.auto_cdc import Databricks, Dlt
from tests.support.silver.changes import N, table
from tests.support.silver.schema_changes import altered

HISTORIES = Policy(form=HISTORY, beside=True)
WIDE = Column("n", "text", charset="utf8mb4")


def eras(first: TableSchema, *changes: Any) -> Eras:
    """Those of a table that begins at 1; each change is the image of an `s` row."""
    rows = [(1, json.dumps(first.to_dict())), *((n, json.dumps(c)) for n, c in enumerate(changes, 2))]
    found = Eras.of(first.name, rows)
    assert found is not None
    return found


def change(old: TableSchema, new: TableSchema, filled: dict[str, str] | None = None, **origin: str) -> dict[str, Any]:
    return {**altered(old, new, 2, **origin).after, "filled": filled or {}}


def plan(schema: TableSchema, policy: Policy, *changes: Any) -> AutoCdcPlan:
    target = Table("silver", schema.table, catalog="main")
    return AutoCdcPlan(target, eras(schema, *changes), policy, {"a": "b"})


def test_the_comment_of_the_source_is_in_front_of_ours() -> None:
    ours, theirs = (
        declare_auto_cdc(plan(table("orders", N), Policy(comments=comments)))[0].kwargs["comment"]
        for comments in (NONE, Comments("What is sold"))
    )
    assert ours.startswith("shop.orders as it is now; ")
    assert theirs == f"What is sold ({ours})"


def test_rows_as_they_are_now() -> None:
    made, changes, gone = declare_auto_cdc(plan(table("orders", N), Policy()))
    assert made.function == "create_streaming_table"
    assert made.kwargs["name"] == "main.silver.orders"
    assert made.kwargs["table_properties"] == {"a": "b", "lakehouse_cdc.scd": "1", "lakehouse_cdc.deletes": "hard"}
    assert "cluster_by" not in made.kwargs
    clustered = declare_auto_cdc(plan(table("orders", N), Policy(cluster_by=("n", "a b"))))[0]
    assert clustered.kwargs == {**made.kwargs, "cluster_by": ["n", "`a b`"]}
    assert changes == Call(
        "create_auto_cdc_flow",
        {
            "target": "main.silver.orders",
            "source": "orders__changes",
            "name": "orders__changes",
            "keys": ["id"],
            "sequence_by": "_sequence",
            "apply_as_deletes": "_op = 'd'",
            "except_column_list": ["_op", "_sequence"],
            "stored_as_scd_type": 1,
        },
    )
    # what barriers take away is declared alike: the same table, from the other view
    assert gone == Call(changes.function, {**changes.kwargs, "source": "orders__gone", "name": "orders__gone"})


def test_every_version() -> None:
    _, *flows = declare_auto_cdc(plan(table("orders", N), HISTORIES))
    for flow in flows:
        assert flow.kwargs["stored_as_scd_type"] == 2
        # these move with every change, and begin no version
        assert flow.kwargs["track_history_except_column_list"] == ["_seq", "_commit_ts"]
    _, flow, _ = declare_auto_cdc(plan(table("orders", N), Policy(form=HISTORY, track=("n",))))
    assert flow.kwargs["track_history_column_list"] == ["n"]
    assert "track_history_except_column_list" not in flow.kwargs
    _, flow, _ = declare_auto_cdc(plan(table("orders", N), Policy(form=HISTORY, track=())))
    assert flow.kwargs["track_history_column_list"] == ["id"]


def test_names_that_are_no_identifiers_are_quoted() -> None:
    odd = TableSchema("shop", "a b", (Column("ke.y", "int", False), Column("k`2", "int", False)), ("ke.y", "k`2"))
    made, flow, _ = declare_auto_cdc(plan(odd, Policy()))
    assert made.kwargs["name"] == "main.silver.`a b`"
    assert flow.kwargs["keys"] == ["`ke.y`", "`k``2`"]
    assert flow.kwargs["source"] == "`a b__changes`"


@pytest.mark.parametrize("policy", [Policy(), HISTORIES, Policy(form=HISTORY, track=("n",))])
def test_the_calls_fit_every_runtime_that_has_them(policy: Policy) -> None:
    calls = declare_auto_cdc(plan(table("orders", N), policy))
    databricks, older = Databricks(), Dlt()
    assert has_auto_cdc(databricks)
    assert has_auto_cdc(older)
    perform(databricks, calls)
    assert databricks.calls == calls
    perform(older, calls)
    assert [call.function for call in older.calls] == ["create_streaming_table", "apply_changes", "apply_changes"]
    assert [call.kwargs.get("flow_name") for call in older.calls] == [None, "orders__changes", "orders__gone"]


def test_open_source_takes_the_calls_of_type_1_alone() -> None:
    for call in declare_auto_cdc(plan(table("orders", N), Policy())):
        inspect.signature(getattr(pipelines, call.function)).bind(**call.kwargs)
    _, history, _ = declare_auto_cdc(plan(table("orders", N), HISTORIES))
    with pytest.raises(TypeError, match="track_history"):
        inspect.signature(pipelines.create_auto_cdc_flow).bind(**history.kwargs)
    assert not has_auto_cdc(pipelines)
    assert not takes(pipelines.create_streaming_table, "expect_all")
    with pytest.raises(DefiniteError, match=r"have no create_auto_cdc_flow\(stored|have no .*track_history") as refused:
        perform(pipelines, [history])
    assert "pyspark.pipelines" in refused.value.where


def test_a_runtime_without_the_function_is_refused_by_name() -> None:
    with pytest.raises(DefiniteError, match="have no create_auto_cdc_flow"):
        perform(object(), [Call("create_auto_cdc_flow", {})])


JSON = Column("doc", "json")


@pytest.mark.parametrize(
    ("schema", "policy", "said"),
    [
        (table("one", N), Policy(form=SOFT_DELETES), "deletes: soft"),
        (table("one", N), Policy(freezes=True), "schema_changes: freeze"),
        (table("one", N), Policy(drops=True), "dropped_columns: drop"),
        (table("one", N), Policy(transform=Transform(filter="n > 1")), "rename, computed, filter and metadata"),
        (TableSchema("shop", "one", (N,), ()), Policy(form=APPEND), "a table without a key"),
        (table("one", N), Policy(form=HISTORY, track=("m",)), "has no column m"),
        (table("one", JSON), HISTORIES, "cannot tell one value of doc from another"),
    ],
)
def test_what_cannot_be_kept_is_refused(schema: TableSchema, policy: Policy, said: str) -> None:
    with pytest.raises(DefiniteError, match=said) as refused:
        declare_auto_cdc(plan(schema, policy))
    assert refused.value.hint


def test_a_column_with_a_name_that_silver_or_the_feed_adds_is_known() -> None:
    for name in ("_OP", "_sequence", "_seq", "_commit_ts", "__Start_At", "__END_AT"):
        assert plan(table("one", Column(name, "int")), Policy()).name_taken == name
    taken = plan(table("one", Column("_op", "int"), Column("_seq", "int")), Policy())
    assert replace(taken, target=replace(taken.target, own=OwnColumns("cdc_"))).name_taken is None


def test_a_document_that_is_not_tracked_is_kept() -> None:
    declare_auto_cdc(plan(table("one", JSON), Policy()))
    declare_auto_cdc(plan(table("one", JSON, N), Policy(form=HISTORY, track=("n",))))


def test_nothing_stays_beside_a_column_of_another_type() -> None:
    one, two = table("one", N), table("one", WIDE)
    with pytest.raises(DefiniteError, match="keeps nothing beside n"):
        declare_auto_cdc(plan(one, HISTORIES, change(one, two)))
    declare_auto_cdc(plan(one, Policy(form=HISTORY), change(one, two)))


def test_columns_that_go_stay_and_keep_their_names() -> None:
    one, two = table("one", N, Column("m", "int")), table("one", N)
    found = eras(one, change(one, two))
    assert found.columns == (("id", "int"), ("n", "smallint"), ("m", "int"))
    assert found.values(0, "r") == {"id": "r.`id`", "n": "r.`n`", "m": "r.`m`"}
    assert found.values(1, "r") == {"id": "r.`id`", "n": "r.`n`", "m": "CAST(NULL AS int)"}


@pytest.mark.parametrize(
    ("new", "filled", "origin", "why"),
    [
        (table("one", N, Column("m", "int")), {}, {}, None),
        (table("one"), {}, {}, None),
        (table("one", Column("n", "smallint", False)), {}, {}, None),
        (table("one", N, Column("m", "int")), {"m": "7"}, {}, "column m came with a value in every row"),
        (table("one", Column("m", "smallint")), {}, {"m": "n"}, "column n is called m now"),
        (table("one", WIDE), {}, {}, "column n was smallint, and is string now"),
        (table("one", N), {}, {"n": ""}, "column n came under the name of another one"),
        (table("one", Column("N", "int")), {}, {"N": ""}, "column N came under the name of another one"),
    ],
)
def test_what_a_table_that_stands_cannot_be_brought_through(
    new: TableSchema, filled: dict[str, str], origin: dict[str, str], why: str | None
) -> None:
    one = table("one", N)
    found = eras(one, change(one, new, filled, **origin))
    assert found.rebuild_since(1) == why
    assert found.rebuild_since(2) is None  # it was fed through the change already


def test_another_key_begins_the_feed_anew() -> None:
    other = Column("c", "int", False)
    by_id = table("one", other)
    by_c = TableSchema("shop", "one", by_id.columns, ("c",))
    found = eras(by_id, change(by_id, by_c))
    assert (found.begins, len(found.every), found.key) == (2, 1, (("c", "int"),))
    assert found.rebuild_since(1) == "its key is (c) now"
    assert found.rebuild_since(2) is None
    wider = TableSchema("shop", "one", (Column("id", "bigint", False), other), ("id",))
    assert eras(by_id, change(by_id, wider)).begins == -1  # each key is what it was


def test_a_change_that_does_not_say_what_became_of_the_columns_is_refused() -> None:
    one = table("one", N)
    with pytest.raises(DefiniteError, match="does not say what became of its columns"):
        eras(one, table("one").to_dict())
    assert len(eras(one, one.to_dict()).every) == 1  # it is told again where the log begins anew
    assert Eras.of(one.name, [(1, None)]) is None
