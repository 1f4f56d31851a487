"""The names of silver's own columns: they never meet, whatever the prefix is, and a table's columns say the prefix."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.errors import ConfigError
from lakehouse_cdc.model.own_columns import DEFAULT, OwnColumns, longer_than_any
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.pipeline.config.model import PipelineConfig

prefixes = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,31}", fullmatch=True)
LAYOUT = Layout("p", bronze="b", silver="s", path="/lake", into=(("shop.part_*", "parts"),))


def test_the_names_with_the_default_prefix() -> None:
    assert DEFAULT.all_forms == (
        "_seq",
        "_commit_ts",
        "_deleted_at",
        "_row_hash",
        "_row_copy",
        "__START_AT",
        "__END_AT",
    )
    assert (DEFAULT.source_table, *DEFAULT.of_feed) == ("_source_table", "_op", "_sequence")


def test_two_names_do_not_begin_with_the_prefix() -> None:
    assert OwnColumns("cdc_").all_forms == (
        "cdc_seq",
        "cdc_commit_ts",
        "cdc_deleted_at",
        "cdc_row_hash",
        "cdc_row_copy",
        "__START_AT",
        "__END_AT",
    )


@given(prefixes)
def test_no_two_names_meet_in_any_case(prefix: str) -> None:
    own = OwnColumns(prefix)
    names = [*own.all_forms, own.source_table, *own.of_feed]
    assert len({name.lower() for name in names}) == len(names)


@given(prefixes, st.lists(st.text(min_size=1)))
def test_the_columns_of_a_table_say_the_prefix(prefix: str, names: list[str]) -> None:
    own = OwnColumns(prefix)
    assert OwnColumns.of_columns([*names, own.deleted_at, own.seq, own.commit_ts]) == own


def test_a_column_of_a_source_has_at_most_64_characters() -> None:
    assert len(longer_than_any("n")) > 64
    assert longer_than_any("n") != longer_than_any("m")


@pytest.mark.parametrize("prefix", ["", "1_", "a b", "a-", "é", "a.", "`", "a" * 33])
def test_other_prefixes_are_refused(prefix: str) -> None:
    with pytest.raises(ConfigError, match="metadata_prefix"):
        config(prefix)


@pytest.mark.parametrize("prefix", ["_", "__", "cdc_", "CDC", "x1", "a" * 32])
def test_a_prefix_of_letters_digits_and_underscores(prefix: str) -> None:
    assert config(prefix).target.metadata_prefix == prefix


def config(prefix: str) -> PipelineConfig:
    target = {"path": "/lake", "bronze": "b", "silver": "s", "metadata_prefix": prefix}
    source = {"url": "mysql://u@h:1", "tables": ["shop.*"]}
    return PipelineConfig.parse({"name": "p", "source": source, "target": target})


def test_the_layout_gives_its_names_to_every_table() -> None:
    layout = replace(LAYOUT, own=OwnColumns("cdc_"))
    part = layout.silver_table("shop.part_1")
    assert part.stamp == {"cdc_source_table": "'shop.part_1'"}
    assert part.rows("t.") == "t.cdc_source_table = 'shop.part_1'"
    assert part.reserved == (*layout.own.all_forms, "cdc_source_table")
    assert layout.silver_table("shop.orders").reserved == layout.own.all_forms
