"""Full names and patterns: every pair of names has its own, and what was written before reads as it did."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.model.table_name import join, last_match, matches, pattern_of, split

PART = st.text("ab.`*[]!", min_size=1, max_size=5)
PLAIN = st.text("ab`*[]!", min_size=1, max_size=5)


@given(PART, PART)
def test_a_name_is_read_as_it_was_written(database: str, table: str) -> None:
    assert split(join(database, table)) == (database, table)


@given(PLAIN, PLAIN)
def test_names_without_dots_are_as_they_always_were(database: str, table: str) -> None:
    assert join(database, table) == f"{database}.{table}"


@pytest.mark.parametrize(
    ("database", "table", "name"),
    [
        ("shop", "a.b", "shop.`a.b`"),
        ("my.db", "orders", "`my.db`.orders"),
        ("my.db", "a.b", "`my.db`.`a.b`"),
        ("a`b", "c.d", "`a``b`.`c.d`"),
        ("a`b", "c", "a`b.c"),
    ],
)
def test_a_part_with_a_dot_is_in_backticks(database: str, table: str, name: str) -> None:
    assert join(database, table) == name


def test_a_name_of_an_earlier_release_with_dots_is_read_up_to_its_first() -> None:
    assert split("shop.a.b") == ("shop", "a.b")


@given(PART, PART, PART, PART)
def test_the_pattern_of_a_table_matches_it_and_no_other(a: str, b: str, c: str, d: str) -> None:
    one, other = join(a, b), join(c, d)
    assert matches(one, pattern_of(one))
    assert matches(one, one)
    if one.count(".") > 1 or "`" not in one:
        assert matches(other, pattern_of(one)) is (one == other)


@given(PLAIN, PLAIN, st.text("ab.*?[]!", max_size=6))
def test_a_pattern_without_backticks_matches_names_without_dots_as_ever(database: str, table: str, glob: str) -> None:
    name = join(database, table)
    assert matches(name, glob) is (fnmatchcase(name, glob) or name == glob)


@pytest.mark.parametrize(
    ("pattern", "database", "table", "matching"),
    [
        ("shop.*", "shop", "a.b", True),
        ("shop.a*", "shop", "a.b", True),
        ("shop.*b", "shop", "a.b", True),
        ("shop.*", "shop.x", "t", False),
        ("shop*.*", "shop.x", "t", True),
        ("*", "my.db", "a.b", True),
        ("shop.a.b", "shop", "a.b", True),
        ("shop.`a.b`", "shop", "a.b", True),
        ("shop.`a.*`", "shop", "a.b", False),
        ("shop.`a.*`", "shop", "a.*", True),
        ("`my.db`.*", "my.db", "a.b", True),
        ("`my.db`.orders", "my.db", "orders", True),
        ("`my.db`.orders", "my", "db.orders", False),
        ("`shop`.`orders`", "shop", "orders", True),
        ("shop.`a``.b`", "shop", "a`.b", True),
        ("shop.`a", "shop", "`a", True),
    ],
)
def test_matches(pattern: str, database: str, table: str, matching: bool) -> None:
    assert matches(join(database, table), pattern) is matching


def test_the_last_pattern_that_matches_decides() -> None:
    rules = {"shop.*": 1, "shop.`a.b`": 2, "crm.*": 3}
    assert [last_match(rules, name) for name in ("shop.t", "shop.`a.b`", "x.y")] == [1, 2, None]
    assert last_match([*rules.items()], "shop.`a.b`") == 2
