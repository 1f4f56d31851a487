"""Commands in hints, for tables and positions of any name."""

from __future__ import annotations

import shlex

import pytest

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.table_name import join, matches
from lakehouse_cdc.model.way_out import pass_by, read_again, reason


@pytest.mark.parametrize(
    "table", [("shop", "orders"), ("a.b", "c d"), ("shop", "or'ders"), ("shop", "[a]"), ("`", "$x")]
)
def test_a_table_is_named_as_a_shell_and_the_command_take_it(table: tuple[str, str]) -> None:
    *command, pattern = shlex.split(read_again(join(*table)))
    assert command == ["lakehouse-cdc", "signal", "-c", "pipeline.yml", "snapshot"]
    assert matches(join(*table), pattern)
    assert not matches("shop.a", pattern)


def test_a_statement_is_named_by_its_end() -> None:
    assert pass_by("binlog.000042:157") == "lakehouse-cdc signal -c pipeline.yml pass binlog.000042:157"


def test_a_reason_has_the_code_and_what_to_do() -> None:
    assert reason(codes.TABLE_GONE, "it is gone", "Create it.", "shop.t") == (
        "CDC-4007: it is gone; Create it; then: lakehouse-cdc signal -c pipeline.yml snapshot shop.t"
    )
