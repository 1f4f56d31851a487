"""Which tables silver refuses for the name of a column, and what it says is the way out."""

from __future__ import annotations

import pytest

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.own_columns import OwnColumns
from lakehouse_cdc.model.table_layout import Table
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.definition.transform import Transform
from lakehouse_cdc.silver.forms import HISTORY

SILVER = Table("silver", "orders", root="/lake")
PART = Table("silver", "orders", root="/lake", part="shop.orders")
CDC = Table("silver", "orders", root="/lake", own=OwnColumns("cdc_"))
ID = Column("id", "int")


def orders(*names: str, key: tuple[str, ...] = ("id",)) -> TableSchema:
    return TableSchema("shop", "orders", (ID, *(Column(name, "int") for name in names)), key)


@pytest.mark.parametrize("name", ["_seq", "_SEQ", "_Commit_ts", "_deleted_at", "__start_at", "__END_AT"])
def test_a_name_that_silver_adds_is_refused_in_any_case_whatever_the_form(name: str) -> None:
    refused = Policy().refusal([orders(name)], SILVER)
    assert refused is not None
    assert refused.code is codes.COLUMN_NAME_UNUSABLE
    assert f"column {name} of shop.orders" in refused.what
    assert f'tables: {{"shop.orders": {{rename: {{{name}: NAME}}}}}}' in refused.hint


def test_the_hint_names_the_prefix_where_that_helps() -> None:
    seq, start = (Policy().refusal([orders(name)], SILVER) for name in ("_seq", "__START_AT"))
    assert seq is not None
    assert "target.metadata_prefix" in seq.hint
    assert start is not None
    assert "metadata_prefix" not in start.hint


def test_the_hint_renames_the_column_by_the_name_that_the_source_has() -> None:
    refused = Policy(transform=Transform(rename={"number": "_seq"})).refusal([orders("number")], SILVER)
    assert refused is not None
    assert "rename: {number: NAME}" in refused.hint


def test_what_is_not_called_so_in_silver_is_not_refused() -> None:
    assert Policy().refusal([orders("_seq", "_commit_ts")], CDC) is None
    assert Policy().refusal([orders("cdc_seq")], CDC) is not None
    assert Policy(transform=Transform(rename={"_SEQ": "number"})).refusal([orders("_seq")], SILVER) is None
    excluded = TableSchema("shop", "orders", (ID, Column("_seq", "int", captured=False)), ("id",))
    assert Policy().refusal([excluded], SILVER) is None


def test_the_source_table_is_a_column_of_a_table_of_several_alone() -> None:
    assert Policy().refusal([orders("_source_table")], SILVER) is None
    assert Policy().refusal([orders("_source_table")], PART) is not None


def test_every_schema_counts_that_the_silver_table_goes_through() -> None:
    plain, odd = orders("n"), orders("_seq")
    assert Policy().refusal([odd, plain], SILVER) is not None
    assert Policy().refusal([plain, odd], SILVER) is not None
    assert Policy(freezes=True).refusal([plain, odd], SILVER) is None
    keyless = orders("_seq", key=())
    assert Policy().refusal([keyless, plain], SILVER) is None  # it begins with the key
    tracking = Policy(form=HISTORY, track=("n",))
    unusable = codes.COLUMN_NAME_UNUSABLE
    for policy, code in ((Policy(), unusable), (Policy(form=HISTORY), unusable), (tracking, codes.SILVER_KEY_MISSING)):
        refused = policy.refusal([plain, keyless], SILVER)
        assert refused is not None
        assert refused.code is code
    assert Policy().refusal([odd, orders("n", key=())], SILVER) is None  # it begins when the key is gone
