"""Which names a selection takes: globs, exclusions anywhere, and never MySQL's own tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.errors import ConfigError
from lakehouse_cdc.schema.selection import SYSTEM_SCHEMAS, Selection, glob_hint, nearest

PART = st.text("abAB_*?", min_size=1, max_size=4)
PATTERNS = st.lists(st.builds("{}{}.{}".format, st.sampled_from(["", "", "!"]), PART, PART), max_size=5)
NAMES = st.builds("{}.{}".format, st.text("abAB_", min_size=1, max_size=3), st.text("abAB_", min_size=1, max_size=3))


@pytest.mark.parametrize(
    ("patterns", "name", "matches"),
    [
        (["shop.orders"], "shop.orders", True),
        (["shop.orders"], "shop.orders_old", False),
        (["shop.orders"], "shop.Orders", False),
        (["Shop.*"], "shop.orders", False),
        (["shop.*"], "shop.orders", True),
        (["shop.*"], "shop2.orders", False),
        (["shop?.*"], "shop2.orders", True),
        (["shop_[ab].*"], "shop_b.orders", True),
        (["shop_[ab].*"], "shop_c.orders", False),
        (["*.orders"], "anything.orders", True),
        (["shop.*", "!shop.audit"], "shop.audit", False),
        (["!shop.audit", "shop.*"], "shop.audit", False),
        (["!shop.audit", "shop.*", "shop.audit"], "shop.audit", False),
        (["shop.*", "!*.tmp_*"], "shop.tmp_1", False),
        (["shop.*", "!*.tmp_*"], "shop.orders", True),
        (["a.x", "b.y"], "a.y", False),
        (["shop.*"], "shop._orders_gho", False),
        (["shop.*"], "shop._orders_ghc", False),
        (["shop.*"], "shop._orders_20261122120000_del", False),
        (["shop._*"], "shop.__orders_new", False),
        (["shop.*"], "shop._orders_old", False),
        (["shop.*", "shop._orders_old"], "shop._orders_old", True),
        (["shop._orders_old", "!*._*"], "shop._orders_old", False),
        (["shop.*"], "shop.orders_old", True),
        (["shop.*"], "shop._new", True),
        (["shop.*"], "shop._orders_news", True),
        (["shop.*"], "shop.`a.b`", True),
        (["shop.*"], "`shop.x`.a", False),
        (["shop.`a.b`", "`my.db`.orders"], "shop.`a.b`", True),
        (["shop.`a.b`", "`my.db`.orders"], "`my.db`.orders", True),
        (["*.*", "!shop.`x.y`"], "shop.`x.y`", False),
        (["*.*", "!shop.`x.y`"], "shop.`x.z`", True),
        (["*.*", "!shop.x.y"], "shop.`x.y`", False),
        (["*.*"], "mysql.`a.b`", False),
        (["*.*"], "`mysql.x`.t", True),
        (["shop.*"], "shop.`_a.b_new`", False),
    ],
)
def test_matches(patterns: list[str], name: str, matches: bool) -> None:
    assert Selection(patterns).matches(name) is matches


@pytest.mark.parametrize("schema", [*SYSTEM_SCHEMAS, "INFORMATION_SCHEMA", "MySQL"])
def test_system_schemas_never_match(schema: str) -> None:
    selection = Selection(["*.*", f"{schema}.*", f"{schema}.user"])
    assert not selection.matches(f"{schema}.user")
    assert selection.matches(f"{schema}x.user")
    assert selection.unmatched([f"{schema}.user"]) == list(selection.patterns)


@pytest.mark.parametrize("pattern", ["orders", "*", "!orders", "", "!", ".orders", "shop.", "!shop.", "`a.b`"])
def test_a_pattern_without_both_parts_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(ConfigError, match="does not name tables") as caught:
        Selection(["shop.*", pattern])
    assert f"'{pattern}'" in caught.value.what
    assert "database.table" in caught.value.hint


@pytest.mark.parametrize(
    ("pattern", "glob"),
    [
        (r"shop\..*", "shop.*"),
        (r"!shop\..*", "!shop.*"),
        ("^shop", "shop.*"),
        (r"^shop\.orders$", "shop.orders"),
        ("shop..*", "shop.*"),
        (r"shop\.orders_.+", "shop.orders_*"),
    ],
)
def test_a_regular_expression_is_noticed(pattern: str, glob: str) -> None:
    assert glob_hint(pattern) == f'patterns are globs, not regular expressions: write "{glob}"'
    Selection([glob.removeprefix("!")])


@pytest.mark.parametrize("pattern", ["shop.*", "*.*", "shop.a*", "s[ab]?.*", "!shop.x", "shop.`a.b`", "*", "shop"])
def test_a_glob_is_no_regular_expression(pattern: str) -> None:
    assert glob_hint(pattern) == ""


@pytest.mark.parametrize("patterns", [[], ["!shop.audit"]])
def test_exclusions_alone_select_nothing(patterns: list[str]) -> None:
    with pytest.raises(ConfigError, match="no table is selected"):
        Selection(patterns)


def test_unmatched_tells_the_patterns_that_match_none_exclusions_aside() -> None:
    selection = Selection(["shop.orders", "shop.ordres", "!shop.audit", "!shop.nothing", "shop.audit", "crm.*"])
    assert selection.unmatched(["shop.orders", "shop.audit", "shop.items"]) == ["shop.ordres", "crm.*"]
    assert selection.unmatched([]) == ["shop.orders", "shop.ordres", "shop.audit", "crm.*"]


def test_an_exclusion_that_excludes_nothing_since_it_is_a_regular_expression_is_named() -> None:
    selection = Selection(["shop.*", "!shop.to_come", r"!shop\..*_log", "!shop.cost$"])
    assert selection.unmatched(["shop.orders", "shop.cost$"]) == [r"!shop\..*_log"]


def test_the_name_that_is_nearest_to_a_pattern() -> None:
    names = ["c.orders", "c.order_lines"]
    assert nearest("C.Orders", names) == "c.orders"
    assert nearest("C.*lines", names) == "c.order_lines"
    assert nearest("c.ordres", names) == "c.orders"
    assert nearest("zzz.q", names) == ""


@given(PATTERNS.flatmap(lambda patterns: st.tuples(st.just(patterns), st.permutations(patterns))), NAMES)
def test_the_order_of_patterns_means_nothing(both: tuple[list[str], list[str]], name: str) -> None:
    one, other = both
    assert Selection(["a.*", *one]).matches(name) == Selection([*other, "a.*"]).matches(name)


@given(PATTERNS, NAMES)
def test_no_pattern_brings_back_what_is_excluded(patterns: list[str], name: str) -> None:
    assert not Selection(["*.*", *patterns, f"!{name}", name]).matches(name)


@given(PATTERNS, NAMES)
def test_a_pattern_is_unmatched_or_captures_a_name_that_is_not_excluded(patterns: list[str], name: str) -> None:
    selection = Selection(["a.*", *patterns])
    without_exclusions = Selection([p for p in selection.patterns if not p.startswith("!")])
    included = without_exclusions.patterns
    assert (len(selection.unmatched([name])) < len(included)) == without_exclusions.matches(name)
