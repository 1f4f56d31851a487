"""How the configuration wants columns carried: what each rule touches, and what it leaves alone."""

from __future__ import annotations

import pytest

from lakehouse_cdc.errors import ConfigError, DefiniteError
from lakehouse_cdc.schema.representation import Rules, carry
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.types import check_table, require

COLUMNS = (
    Column("id", "int", nullable=False),
    Column("day", "date"),
    Column("at", "datetime", fraction=3),
    Column("since", "timestamp"),
    Column("vintage", "year"),
    Column("doc", "json"),
    Column("price", "decimal", precision=10, scale=2),
    Column("flag", "bit", length=1),
    Column("size", "enum", charset="utf8mb4", values=("a",)),
)
TABLE = TableSchema("shop", "items", COLUMNS, ("id",))


def carried(rules: Rules, table: TableSchema = TABLE) -> dict[str, str]:
    """The columns that are not carried by the type map's default."""
    return {c.name: c.carried for c in carry(table, rules).columns if c.carried}


def silver(rules: Rules) -> dict[str, str]:
    return {c.name: require(c, "shop.items").silver for c in carry(TABLE, rules).columns}


def test_by_default_nothing_is_said() -> None:
    assert carry(TABLE, Rules()) == TABLE
    assert carry(TABLE, Rules()).id == TABLE.id


def test_zero_dates() -> None:
    dates = ("day", "at", "since")
    assert carried(Rules(zero_dates="null")) == dict.fromkeys(dates, "null")
    assert carried(Rules(zero_dates="text")) == dict.fromkeys(dates, "text")
    assert silver(Rules(zero_dates="null")) == silver(Rules())
    assert [silver(Rules(zero_dates="text"))[name] for name in dates] == ["string"] * 3


def test_the_map_of_lakeflow_connect() -> None:
    found = silver(Rules(type_map="lakeflow"))
    assert {found[name] for name in ("at", "vintage", "doc", "size")} == {"string"}
    assert (found["day"], found["since"], found["flag"], found["price"]) == (
        "date",
        "timestamp",
        "boolean",
        "decimal(10,2)",
    )


def test_overrides_win_over_both() -> None:
    rules = Rules("text", "lakeflow", {"shop.*": {"PRICE": "text", "doc": "native"}, "shop.items": {"day": "native"}})
    assert carried(rules) == {
        "price": "text", "at": "text", "vintage": "text", "since": "text",
    }  # fmt: skip
    assert carried(Rules("null", types={"shop.items": {"day": "native"}}))["day"] == "null"
    assert carried(Rules(types={"other.*": {"price": "text"}})) == {}


def test_a_key_is_carried_by_its_own_type() -> None:
    table = TableSchema("shop", "items", COLUMNS, ("day", "vintage"))
    assert set(carried(Rules("text", "lakeflow"), table)) == {"at", "since", "doc"}
    check_table(carry(table, Rules(types={"shop.items": {"day": "text"}})))  # where it is said so of the column itself
    with pytest.raises(
        DefiniteError, match=r"the primary key of shop\.items holds vintage year, which cannot be carried as text"
    ):
        check_table(carry(table, Rules(types={"shop.items": {"vintage": "text"}})))


@pytest.mark.parametrize(
    ("columns", "what"),
    [({"nothing": "text"}, "shop.items has no column nothing"), ({"flag": "text"}, "flag bit.1. cannot be carried")],
)
def test_what_cannot_be_is_refused(columns: dict[str, str], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        carry(TABLE, Rules(types={"shop.*": columns}))
