"""Names of tables: where they lie, how they are written in SQL, and when two of them would meet."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.errors import ConfigError, DefiniteError
from lakehouse_cdc.model.commit_note import CommitNote, SourcePoint
from lakehouse_cdc.model.table_layout import Layout, Table, quoted

LOCAL = Layout("p", bronze="b", silver="s", path="/lake")


def test_a_local_table_is_a_folder_below_the_path() -> None:
    assert LOCAL.changes.path == "/lake/b/changes"
    assert LOCAL.silver_table("shop.orders").sql == "delta.`/lake/s/orders`"
    assert LOCAL.tombstones("shop.orders").path == "/lake/s/orders__tombstones"


def test_a_table_on_databricks_has_three_names() -> None:
    layout = Layout("p", bronze="b", silver="s", catalog="my cat", silver_name="{database}__{table}")
    assert layout.silver_table("shop.orders").sql == "`my cat`.`s`.`shop__orders`"
    assert layout.changes.path is None


def test_a_name_may_hold_dots() -> None:
    assert LOCAL.silver_table("shop.a.b").name == "a.b"


OF_DELTA = ("_delta_log", "_samples")
names = st.text(st.sampled_from("ab./\\%:`é _\n"), min_size=1, max_size=5) | st.sampled_from(OF_DELTA)


@given(names, names)
def test_no_two_names_share_a_folder_and_none_leaves_its_schema(one: str, other: str) -> None:
    paths = [Table("s", name, root="/lake").path or "" for name in (one, other)]
    assert (paths[0] == paths[1]) == (one == other)
    for path in paths:
        assert path.startswith("/lake/s/")
        assert path.count("/") == 3
        assert not path.endswith(("/.", "/..", *(f"/{name}" for name in OF_DELTA)))


@pytest.mark.parametrize(
    ("name", "in_unity", "in_hive"),
    [
        ("orders", True, True), ("order_2", True, True), ("a-b", True, False), ("таблица", True, False),
        ("a.b", False, False), ("a b", False, False), ("a/b", False, False), ("a\x7f", False, False),
        ("x" * 255, True, True), ("x" * 256, False, True),
    ],
)  # fmt: skip
def test_names_that_catalogs_take(name: str, in_unity: bool, in_hive: bool) -> None:
    assert Table("s", name, root="/lake").has_usable_name
    assert Table("s", name, catalog="main").has_usable_name == in_unity
    for catalog in ("spark_catalog", "hive_metastore"):
        assert Table("s", name, catalog=catalog).has_usable_name == in_hive


def test_source_tables_whose_silver_tables_have_one_name() -> None:
    for one, other in (("shop.t", "crm.t"), ("shop.t", "crm.T"), ("shop.t", "shop.t__tombstones")):
        group = tuple(sorted([one, other]))
        assert LOCAL.sharing_names(["shop.u", one, other]) == {one: group, other: group}
    assert LOCAL.takes_ledger("shop.Ledger")
    assert not LOCAL.takes_ledger("shop.t")
    apart = Layout("p", bronze="b", silver="s", path="/lake", silver_name="{database}__{table}")
    assert apart.sharing_names(["shop.t", "crm.t"]) == {}
    named = replace(LOCAL, silver_names=(("crm.*", "of_{database}_{table}"), ("crm.v", "v")))
    assert [named.silver_table(f"crm.{name}").name for name in "tv"] == ["of_crm_t", "v"]
    assert named.sharing_names(["shop.t", "crm.t", "shop.v", "crm.v"]).keys() == {"shop.v", "crm.v"}


SOURCES = st.builds("{}.{}{}".format, st.sampled_from("ab"), st.sampled_from("tTu"), st.sampled_from([
    "", "__tombstones", "__tombstones__tombstones",
]))  # fmt: skip


@given(st.sets(SOURCES))
def test_a_group_is_what_names_connect(sources: set[str]) -> None:
    shared = LOCAL.sharing_names(sources)
    for source in sources:
        connected, more = {source}, {source}
        while more:
            names = frozenset[str]().union(*map(LOCAL.silver_names_of, more))
            more = {other for other in sources if LOCAL.silver_names_of(other) & names} - connected
            connected |= more
        assert shared.get(source, (source,)) == tuple(sorted(connected))


def test_first_come_first_named() -> None:
    layout = replace(LOCAL, into=(("s?.o", "all"),))
    come = ["b.t", "a.t", "a.u", "c.T", "s1.o", "s2.o", "b.all", "a.ledger", "b.t__tombstones", "b.u__tombstones"]
    assert layout.without_name(come) == {"a.t", "c.T", "b.all", "a.ledger", "b.t__tombstones", "b.u__tombstones"}
    assert layout.without_name(come[::-1]) == {"b.t", "a.t", "c.T", "a.u", "s1.o", "s2.o", "a.ledger"}


def test_a_layout_is_in_one_place() -> None:
    with pytest.raises(ConfigError):
        Layout("p", bronze="b", path="/lake", catalog="c")
    with pytest.raises(ConfigError, match="no silver tables"):
        Layout("p", bronze="b", path="/lake").silver_table("shop.t")


@given(st.text(max_size=8))
def test_a_quoted_name_is_one_identifier(name: str) -> None:
    text = quoted(name)
    assert text[0] == text[-1] == "`"
    assert text[1:-1].replace("``", "") == name.replace("`", "")


def test_a_commit_note_survives_and_others_metadata_is_nobodys() -> None:
    note = CommitNote("p", "q", 3, SourcePoint(1, "u", "binlog.000002", 2**40, "u:1-7", 5), bronze_version=9)
    read = CommitNote("p", "q", 3, note.source_point, reading={"shop.t": 10**37})
    held = CommitNote("p", "q", 3, note.source_point, 9, through=10**37, frozen="{}")
    for one in (note, read, held):
        assert CommitNote.parse(one.text()) == one
    for text in (None, "", "{}", "3", "[]", '{"lakehouse_cdc": {"pipeline": "p"}}', '{"lakehouse_cdc": 1}'):
        assert CommitNote.parse(text) is None


def test_an_offset_without_a_position_is_refused() -> None:
    with pytest.raises(DefiniteError, match="no position"):
        SourcePoint.of_offset({})
