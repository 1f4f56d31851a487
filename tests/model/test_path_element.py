"""Names of any length and script as elements of a path."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.model.path_element import fitted
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.source.requests.requests import Signals

NAMES = st.text(st.characters(codec="utf-8", max_codepoint=0xFFFF, exclude_characters="\0"), min_size=1, max_size=140)
LONG = "данные" * 10 + "." + "таблица" * 9


@given(NAMES, st.booleans())
def test_an_element_fits_and_stays_as_it_is_where_it_fitted(name: str, escaped: bool) -> None:
    element = quote(name, safe="") if escaped else name
    found = fitted(element)
    assert len(found.encode()) <= 255
    assert (found == element) == (len(element.encode()) <= 255)
    if escaped:
        begin = found if found == element else found[:-33]
        assert "%" not in re.sub(r"%[0-9A-F]{2}", "", begin), "an escape was cut"


@given(st.lists(NAMES, min_size=2, max_size=5, unique=True))
def test_two_names_never_meet(names: list[str]) -> None:
    begin = "x" * 250  # so that they differ in what is cut
    assert len({fitted(begin + name) for name in names}) == len(names)


@pytest.mark.parametrize("script", ["таблица", "表", "tåble", "a/b"])
def test_every_path_of_a_long_name_can_be_made(tmp_path: Path, script: str) -> None:
    name = f"{(script * 64)[:64]}.{(script * 64)[:64]}"
    layout = Layout("p", bronze="b", silver="s", path=str(tmp_path), silver_name="{database}__{table}")
    for table in (layout.silver_table(name), layout.tombstones(name)):
        Path(str(table.path)).mkdir(parents=True)


def test_signals_name_their_tables_however_long(tmp_path: Path) -> None:
    signals = Signals(str(tmp_path))
    for table in (LONG, "shop.orders"):
        signals.request(table)
        signals.request_repair(table, "abc")
    assert signals.requests() == {LONG: "", "shop.orders": ""}
    assert signals.repairs() == {LONG: ("abc", ""), "shop.orders": ("abc", "")}
    signals.note_repair(LONG, "abc", "17")
    assert signals.repairs()[LONG] == ("abc", "17")
    signals.drop_repair(LONG)
    assert set(signals.repairs()) == {"shop.orders"}


def test_signals_of_an_earlier_release_count(tmp_path: Path) -> None:
    (tmp_path / "signals").mkdir()
    (tmp_path / "signals" / "snapshot-shop.a%2Fb").write_text("42")
    (tmp_path / "signals" / "repair-shop.c").write_text("abc 7")
    signals = Signals(str(tmp_path))
    assert (signals.requests(), signals.repairs()) == ({"shop.a/b": "42"}, {"shop.c": ("abc", "7")})
