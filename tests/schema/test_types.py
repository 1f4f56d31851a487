"""The type map: what each type becomes, and what is refused, by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.schema.charsets import CHARSETS
from lakehouse_cdc.schema.column_choice import Choice, left_out
from lakehouse_cdc.schema.table import Column, Generated, TableSchema
from lakehouse_cdc.schema.type_registry import SPATIAL
from lakehouse_cdc.schema.types import check_table, faults, mapped, require

ID = Column("id", "bigint", nullable=False)
REFUSED = ["xmltype", "sql_variant", "something_new"]
REFUSED_CHARSETS = ["cp1252", "binary", "big5hkscs", None]


def schema(*columns: Column, key: tuple[str, ...] = ("id",)) -> TableSchema:
    return TableSchema("shop", "orders", (ID, *columns), key)


@pytest.mark.parametrize(
    ("column", "silver"),
    [
        (Column("c", "tinyint"), "tinyint"),
        (Column("c", "tinyint", unsigned=True), "smallint"),
        (Column("c", "smallint"), "smallint"),
        (Column("c", "smallint", unsigned=True), "int"),
        (Column("c", "mediumint"), "int"),
        (Column("c", "mediumint", unsigned=True), "int"),
        (Column("c", "int"), "int"),
        (Column("c", "int", unsigned=True), "bigint"),
        (Column("c", "bigint"), "bigint"),
        (Column("c", "bigint", unsigned=True), "decimal(20,0)"),
        (Column("c", "decimal", precision=38, scale=30), "decimal(38,30)"),
        (Column("c", "float"), "float"),
        (Column("c", "double", unsigned=True), "double"),
        (Column("c", "date"), "date"),
        (Column("c", "datetime", fraction=6), "timestamp_ntz"),
        (Column("c", "timestamp", fraction=6), "timestamp"),
        (Column("c", "decimal", precision=39, scale=2), "string"),
        (Column("c", "decimal", precision=65, scale=30), "string"),
        (Column("c", "time", fraction=3), "string"),
        (Column("c", "year"), "smallint"),
        (Column("c", "bit", length=1), "boolean"),
        (Column("c", "bit", length=63), "bigint"),
        (Column("c", "bit", length=64), "decimal(20,0)"),
        (Column("c", "enum", charset="utf8mb4", values=("a",)), "string"),
        (Column("c", "set", charset="utf8mb4", values=("a",)), "string"),
        (Column("c", "vector"), "array<float>"),
        (Column("c", "json"), "variant"),
        (Column("c", "json", carried="text"), "string"),
        (Column("c", "date", carried="text"), "string"),
        (Column("c", "date", carried="null"), "date"),
        *((Column("c", t), "binary") for t in SPATIAL),
        *((Column("c", t, length=9), "binary") for t in ("binary", "varbinary")),
        *((Column("c", t), "binary") for t in ("tinyblob", "blob", "mediumblob", "longblob")),
        *((Column("c", "varchar", length=9, charset=charset), "string") for charset in CHARSETS),
        *((Column("c", t, charset="utf8mb4"), "string") for t in ("tinytext", "text", "mediumtext", "longtext")),
    ],
)
def test_what_a_type_becomes(column: Column, silver: str) -> None:
    assert require(column, "shop.orders").silver == silver
    check_table(schema(column))


@pytest.mark.parametrize(
    ("column", "declared"),
    [
        *((Column("odd", name), name) for name in REFUSED),
        *((Column("odd", "char", length=9, charset=c), f"char(9) character set {c}") for c in REFUSED_CHARSETS if c),
        *((Column("odd", "text", charset=c), f"text character set {c}") for c in REFUSED_CHARSETS if c),
        (Column("odd", "varchar", length=9, charset=None), "varchar(9)"),
    ],
)
def test_a_type_that_is_not_known_is_refused_with_table_and_column(column: Column, declared: str) -> None:
    assert mapped(column) is None
    with pytest.raises(DefiniteError, match="not supported yet") as caught:
        check_table(schema(column))
    assert caught.value.what.startswith(f"column odd of shop.orders has type {declared},")
    assert caught.value.where == "shop.orders"
    assert "exclude" in caught.value.hint
    check_table(schema(replace(column, captured=False)))


def test_a_table_needs_no_primary_key() -> None:
    check_table(schema(key=()))


@pytest.mark.parametrize("kind", ["float", "double"])
def test_a_table_with_a_floating_point_key_is_not_read_in_ranges(kind: str) -> None:
    columns = schema(Column("weight", kind, nullable=False), key=("id", "weight"))
    check_table(columns)
    assert columns.primary_key == ("id", "weight")
    assert columns.range_key == ()
    assert replace(columns, key=("id",)).range_key == ("id",)


@pytest.mark.parametrize("generated", ["virtual", "unlogged"])
def test_a_generated_column_without_a_value_is_refused_where_it_is_captured(generated: Generated) -> None:
    table = schema(Column("seen", "int", generated=generated))
    with pytest.raises(DefiniteError, match=r"column seen of shop.orders is a (virtual )?generated column"):
        check_table(table)
    left = Choice().chosen(table)
    check_table(left)
    assert [*left_out(left)] == ["seen"]
    assert Choice(generated="fail").chosen(table) == table


def test_a_column_of_the_key_cannot_be_excluded() -> None:
    table = TableSchema("shop", "orders", (replace(ID, captured=False),), ("id",))
    with pytest.raises(DefiniteError, match="id is part of the primary key"):
        check_table(table)


def test_faults_tells_all_of_them_and_check_table_the_first() -> None:
    label = Column("f", "enum", charset="latin1", values=("",))
    table = schema(Column("a", "xmltype"), Column("b", "int"), Column("c", "xml"), label, key=("f",))
    found = [fault.what for fault in faults(table)]
    assert [what.split(",")[0] for what in found] == [
        "column a of shop.orders has type xmltype",
        "column c of shop.orders has type xml",
        "the primary key of shop.orders holds f enum(''): an ENUM with an empty label",
    ]
    with pytest.raises(DefiniteError) as caught:
        check_table(table)
    assert caught.value.what == found[0]


def test_no_fault_where_all_is_known() -> None:
    assert faults(schema(Column("a", "int"))) == []


def test_no_name_of_a_column_is_a_fault() -> None:
    """Bronze has a row as one value; what silver cannot hold is silver's to refuse."""
    assert faults(schema(*(Column(name, "int") for name in ("_seq", "_commit_ts", "__END_AT")))) == []
