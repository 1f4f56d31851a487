"""Which virtual columns have one value for every session: proven from the expression, refused where it is not."""

from __future__ import annotations

import pytest

from lakehouse_cdc.schema.table import Column
from lakehouse_cdc.sql.generated_columns import same_everywhere

COLUMNS = [
    Column("a", "int"), Column("u", "bigint", unsigned=True), Column("d", "decimal", precision=9, scale=3),
    Column("s", "varchar", length=20, charset="utf8mb4"), Column("c", "char", length=5, charset="utf8mb4"),
    Column("doc", "json"), Column("ts", "timestamp"), Column("dt", "datetime"), Column("f", "double"),
    Column("odd`name", "int"), Column("twice", "int"), Column("hour", "int"),
]  # fmt: skip


def proven(expression: str, kind: str = "varchar") -> bool:
    return same_everywhere(Column("g", kind), expression, COLUMNS, virtual={"twice": True, "hour": False, "g": False})


@pytest.mark.parametrize(
    "expression",
    [
        "(`a` * 2)",
        "json_unquote(json_extract(`doc`,'$.k'))",  # as 5.7 and MariaDB show it
        r"json_unquote(json_extract(`doc`,_utf8mb4\'$.k\'))",  # as 8.0 and 9 do
        r"concat(`s`,_utf8mb4\'it\\\'s\',`a`)",
        "concat(`s`,'it\\'s',`a`)",
        "if(isnull(`ts`),1,NULL)",
        "if((`dt` is null),1,NULL)",
        "if(`dt` is not null,`a`,1)",
        r"(case when (`a` > 3) then _utf8mb4\'x\' else `s` end)",
        r"(`s` = _utf8mb4\'b\')",
        "cast(`s` as signed)",
        "lcase(`s`)",
        "(`u` + 1)",
        "(`d` - 1.5)",
        "(`a` % 3)",
        "`a` DIV 2",
        "sha2(`s`,256)",
        "X'41'",
        "(`odd``name` + 1)",
        "(`twice` + 1)",
        "coalesce(`s`,'none')",
    ],
)
def test_one_value(expression: str) -> None:
    assert proven(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "hour(`ts`)",
        "`ts`",
        "concat(`ts`)",
        "date_format(`dt`,'%Y')",
        "cast(`dt` as date)",
        "concat(`c`)",
        "(`f` + 1)",
        "(`a` / 2)",
        "(`u` - 1)",
        "(`s` like 'a%')",
        "(`s` = 'b')",  # compared by the session's collation, for all that is known
        "nullif(json_unquote(json_extract(`doc`,'$.k')),'b')",
        "some_function(`a`)",
        "user()",
        "@@session.sql_mode",
        "(`hour` + 1)",  # a virtual one that is not proven
        "(`g` + 1)",
        "(`nowhere` + 1)",
        "format(`a`,2)",
        "dayname('2024-01-01')",
        "convert_tz(`dt`,'+00:00','SYSTEM')",
        "'unfinished",
        "",
    ],
)
def test_not_proven(expression: str) -> None:
    assert not proven(expression)


def test_the_type_of_the_column_counts() -> None:
    assert proven("(`a` * 2)", "bigint")
    for kind in ("timestamp", "date", "enum", "float", "year"):
        assert not proven("(`a` * 2)", kind)
