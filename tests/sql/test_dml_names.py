"""The names in statements that were logged as text, and what they lead to."""

from __future__ import annotations

from itertools import product

import pytest

from lakehouse_cdc.sql.dml_names import Names, all_names, body_names, dml_names, is_dml, lower
from lakehouse_cdc.sql.references import ANY, Definition, References, Sight, write_of

WRITES = [
    ("INSERT INTO ops.beat (ts) VALUES (NOW(6)), (1)", {"ops.beat"}),
    ("insert low_priority ignore `b``t` set a = 1", {"d.b`t"}),
    ("/* who */ -- what\n REPLACE DELAYED INTO .t VALUES ('a''b', \"c\", 'd\\'', 1.5e3, 0xff)", {"d.t"}),
    ("REPLACE INTO 9a (t) SELECT u FROM shop.v", {"d.9a"}),
    ("UPDATE t x SET x.a = (SELECT MAX(b) FROM u)", {"d.t"}),
    ("UPDATE t, s.u SET t.a = u.a", {"d.t", "s.u", "d.s"}),
    ("DELETE QUICK FROM t WHERE a IN (1, 2) ORDER BY b, c LIMIT 3", {"d.t"}),
    ("DELETE FROM a USING a JOIN b", {"d.a", "d.b"}),
    ("DELETE a, b.* FROM a, b", {"d.a", "d.b"}),
    ("LOAD DATA LOCAL INFILE 't' REPLACE INTO TABLE s.u FIELDS TERMINATED BY ',' (a, @v) SET b = @v", {"s.u"}),
    ("WITH t AS (SELECT 1) DELETE FROM u WHERE a IN (SELECT * FROM t)", {"d.u"}),
    ("SET STATEMENT max_statement_time = 1 FOR INSERT INTO u VALUES (1)", {"d.u"}),
    ("(SELECT `s`.`f`(1))", set()),
    ("DO s.f(1)", set()),
    ("CALL s.p(1)", set()),
]  # fmt: skip


def used(names: Names | None, use: str) -> set[str]:
    assert names is not None
    return {f"{database}.{name}" for found, database, name in names.nodes if found == use}


@pytest.mark.parametrize(("sql", "tables"), WRITES)
def test_the_tables_that_are_written(sql: str, tables: set[str]) -> None:
    assert used(dml_names(sql, "D", plain_quotes=True), "write") == tables


def test_routines_are_found_wherever_they_are_called() -> None:
    for sql in ("SELECT s.f(1)", "DO 1 + s . f (2)", "INSERT INTO t VALUES (1, s.f(2))", "CALL s.f", "CALL s.f()"):
        assert "s.f" in used(dml_names(sql, "d", plain_quotes=True), "call"), sql
    assert used(dml_names("INSERT INTO t (a) VALUES (NOW(), COUNT(*))", "d", plain_quotes=True), "call") == set()
    assert used(dml_names("SELECT `now`()", "d", plain_quotes=True), "call") == {"d.now"}


def test_what_differs_in_its_literals_is_one() -> None:
    found = {
        dml_names(f"REPLACE INTO b VALUES ({n}, '{n}', {n}.5), (1, 'x', 2)", "d", plain_quotes=True) for n in range(9)
    }
    assert len(found) == 1


def test_quotes_that_are_not_understood_have_every_word_count() -> None:
    for sql, plain in (("UPDATE a SET b = 'c\\', d = 'e'", False), ("UPDATE a SET b = 'c", True)):
        names = dml_names(sql, "x", plain_quotes=plain)
        assert names is not None
        assert all(names.may_name(word) for word in "abc")
        assert not names.may_name("f")
    names = dml_names("UPDATE a SET b = 'my \\ table'", "x", plain_quotes=False)
    assert names is not None
    assert names.may_name("my table")
    assert not names.may_name("your table")


def test_other_statements_are_not_taken_for_dml() -> None:
    for sql in (
        "CREATE TABLE t (a INT)",
        "SET STATEMENT a = 1 FOR FLUSH TABLES",
        "ALTER TABLE t ADD a INT",
        "XA COMMIT 'a'",
    ):
        assert not is_dml(sql)
        assert dml_names(sql, "d", plain_quotes=True) is None


def test_names_are_compared_as_servers_do() -> None:
    assert lower("İÄß") == "İäß"


VIEW = References(
    {("read", "a", "v"): Names(frozenset({("read", "d", "t")})), ("write", "a", "v"): body_names("UPDATE d.t", "a")}
)
LEADS = [
    ("UPDATE a.v SET b = 1", True),
    ("INSERT INTO a.u SELECT * FROM a.v", False),
    ("INSERT INTO a.u VALUES (1)", False),
    ("UPDATE d.t SET b = 1", True),
]


def both_ways(references: References, names: Names, definitions: list[Definition] | None = None) -> bool:
    """Whether `d.t` is reached, for a planner and for a task, whose answer never lacks what the planner's has."""
    later = definitions or []
    planner = bool(references.adding(later).reached(names, {"d.t"}))
    task = references.sources("d.t").meet([names], later)
    assert task >= planner
    return planner


@pytest.mark.parametrize(("sql", "leads"), LEADS)
def test_what_leads_to_a_table(sql: str, leads: bool) -> None:
    names = dml_names(sql, "d", plain_quotes=True)
    assert names is not None
    assert both_ways(VIEW, names) == leads
    assert VIEW.sources("d.t").meet([names], []) == leads
    assert References.from_json(VIEW.to_json()) == VIEW


def test_definitions_in_the_log_lead_on() -> None:
    names = dml_names("INSERT INTO a.u VALUES (1)", "d", plain_quotes=True)
    assert names is not None
    trigger = all_names(
        "CREATE TRIGGER a.r AFTER INSERT ON a.u FOR EACH ROW UPDATE a.v SET x = 1", "d", plain_quotes=True
    )
    renamed = all_names("RENAME TABLE a.u TO a.u2, a.u3 TO a.u", "d", plain_quotes=True)
    assert both_ways(VIEW, names, [Definition(trigger, new=True)])
    assert not both_ways(VIEW, names, [Definition(renamed)])
    assert not both_ways(References(), names, [Definition(trigger, new=True)])
    moved = dml_names("INSERT INTO a.u3 VALUES (1)", "d", plain_quotes=True)
    assert moved is not None
    assert both_ways(VIEW, moved, [Definition(trigger, new=True), Definition(renamed)])


def test_what_was_there_before_is_not_known() -> None:
    names = dml_names("INSERT INTO a.u VALUES (1)", "d", plain_quotes=True)
    assert names is not None
    for sql, whole, leads in (
        ("DROP TRIGGER a.r", {"a"}, True), ("DROP TRIGGER b.r", {"b"}, False), ("DROP VIEW a.u", set(), True),
        ("CREATE VIEW a.w AS SELECT 1", set(), False),
    ):  # fmt: skip
        found = Definition(all_names(sql, "b", plain_quotes=True), new=sql.startswith("CREATE"), whole=frozenset(whole))
        assert bool(References().without([found]).reached(names, {"d.t"})) == leads, sql


def test_what_is_hidden_leads_everywhere() -> None:
    plain, called = (
        dml_names(sql, "d", plain_quotes=True)
        for sql in ("INSERT INTO a.u VALUES (1)", "INSERT INTO mysql.h VALUES (f())")
    )
    assert plain is not None
    assert called is not None
    for tables, routines, triggers in product((True, False), (True, False), ((ANY,), ("a",), ("b",), ())):
        references = References(sight=Sight(tables, routines, frozenset(triggers)))
        assert both_ways(references, plain) == (not tables or not {ANY, "a"} & set(triggers))
        assert both_ways(references, called) == (not routines)


def test_a_table_s_own_write_is_a_source() -> None:
    assert write_of("D.T") in References().sources("d.t").nodes
