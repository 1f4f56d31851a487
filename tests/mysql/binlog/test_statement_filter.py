"""What a statement that nobody understands counts as."""

from __future__ import annotations

import pytest

from lakehouse_cdc.mysql.binlog.rare_events import Query
from lakehouse_cdc.mysql.binlog.statement_filter import Watch
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.sql.ddl.statement_session import StatementSession
from lakehouse_cdc.sql.lexer import PLAIN

SHOP = TableSchema("shop", "t", (Column("id", "int"),), ("id",))


@pytest.mark.parametrize("text", ["RESHAPE TABLE t BY id", "RESHAPE `shop`.`t`, shop.u", "ALTER MATERIALIZED t"])
def test_a_statement_of_no_known_kind_may_alter_each_table_that_it_mentions(text: str) -> None:
    watch, query = Watch({"shop.t": SHOP}, None, False), Query("shop", text, StatementSession(0), readable=True)
    statement, concerned, effects = watch.judge(query, PLAIN, alone=True)
    assert (concerned, effects) == (False, None)
    found = watch.names(query, statement, effects, alone=True)
    assert found is not None
    assert found.unknown
    assert found.names is not None
    assert "t" in repr(found.names)
