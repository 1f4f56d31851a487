"""Silver tables of rows without a key, which are only ever added: batches in any order, reads, and what is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.lake.commits import history, newest_version
from lakehouse_cdc.lake.tables import exists
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.multiset import remaining
from lakehouse_cdc.model.seq import Rank
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.apply.applier import Applier
from lakehouse_cdc.silver.definition.engine import Configured
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.forms import APPEND, HISTORY
from tests.support.bronze_writer import Lake
from tests.support.silver.changes import apply, begin, seq
from tests.support.silver.engines import here, spark_at_length, writers
from tests.support.silver.schema_changes import altered

LOG = TableSchema("shop", "log", (Column("n", "int"), Column("text", "varchar", charset="utf8mb4", length=20)), ())


def appending(spark: SparkSession, lake: Lake, engine: Configured = "spark") -> Applier:
    return Applier(spark, lake.layout, policy=lambda _: Policy(form=APPEND, engine=engine), run_tasks=here)


def came(pos: int, n: int, op: Op = Op.INSERT, **more: Any) -> Change:
    at = seq(pos, Rank.READ if op is Op.READ else Rank.EVENT)
    return Change(at, op, LOG.name, None, None, {"n": n, "text": None, **more})


def end(pos: int, read: int) -> Change:
    return Change(seq(pos, Rank.END), Op.END, LOG.name, after=seq(read, Rank.READ))


def truncated(pos: int) -> Change:
    return Change(seq(pos, Rank.SCHEMA), Op.TRUNCATE, LOG.name)


def counted(rows: list[tuple[int, dict[str, Any]]]) -> Counter[Any]:
    return Counter(tuple(sorted(image.items())) for _, image in rows)


def wanted(changes: list[Change]) -> Counter[Any]:
    """What the fold of bronze says, whose images hash."""
    return remaining(
        Change(
            c.seq, c.op, c.table, None, None, tuple(sorted(c.after.items())) if isinstance(c.after, dict) else c.after
        )
        for c in changes
        if c.op is not Op.SCHEMA
    )


@pytest.mark.long
@spark_at_length
def test_rows_come_once_in_whatever_batches(spark: SparkSession, tmp_path: Path, engine: Configured) -> None:
    lake = Lake(spark, tmp_path, {LOG.name: LOG})
    batches = [
        [begin(LOG), *(came(2, n % 2, Op.READ) for n in range(5))],
        [came(3, 7), came(4, 7)],
        [came(5, 8), truncated(6), came(7, 9), came(8, 9)],
        [came(9, 10), *(came(10, n, Op.READ) for n in (9, 9, 10))],
        [end(11, 10), came(12, 1)],
        [truncated(13), end(15, 14), came(16, 2), came(17, 2)],
    ]
    applier, versions, at = appending(spark, lake, engine), list[int](), list[Counter[Any]]()
    for batch in batches:
        versions.append(apply(lake, applier, batch, versions[-1] if versions else None))
        at.append(counted(lake.rows(LOG.name)))
        assert at[-1] == wanted([c for b in batches[: len(at)] for c in b]), len(at)
    assert at[-1] == {(("n", 2), ("text", None)): 2}
    table = lake.layout.silver_table(LOG.name)
    assert ("deltalake" in writers(table, newest_version(spark, table))) == (engine == "auto")
    # replayed by the same query, each changes nothing; by another one, from any place, the table comes out the same
    for number, last in enumerate(versions):
        one = Versions(versions[number - 1] if number else None, last)
        if number == 5:
            before = len(history(spark, table))
            appending(spark, lake, engine).apply(one, lake.note(one))
            assert len(history(spark, table)) == before
        if number in (1, 3):
            appending(spark, lake, engine).apply(one, lake.note(one, query=f"of an older checkpoint {number}"))
            assert counted(lake.rows(LOG.name)) == at[-1]
    # as of any place, from a version of the table or from bronze alone
    for pos, number in ((2, 0), (4, 1), (8, 2), (12, 4)):
        assert counted(lake.rows_at(LOG.name, seq(pos, Rank.END))) == at[number], pos


@pytest.mark.long
@pytest.mark.parametrize("engine", ["spark", "auto"])
@pytest.mark.parametrize(("op", "verb"), [(Op.UPDATE, "updated"), (Op.DELETE, "deleted")])
def test_an_update_quarantines_the_table_until_it_is_read_again(
    spark: SparkSession, tmp_path: Path, op: Op, verb: str, engine: Configured
) -> None:
    lake = Lake(spark, tmp_path, {LOG.name: LOG})
    applier = appending(spark, lake, engine)
    first = apply(lake, applier, [begin(LOG), came(2, 1), came(3, 1)], None)
    image = {"n": 1, "text": None}
    odd = Change(seq(4), op, LOG.name, None, image, {**image, "text": "x"} if op is Op.UPDATE else None)
    second = apply(lake, applier, [odd, came(5, 6)], first)
    assert f"a row of shop.log was {verb}" in applier.quarantined[LOG.name]
    assert counted(lake.rows(LOG.name)) == {(("n", 1), ("text", None)): 2}
    third = apply(lake, applier, [came(6, 7)], second)
    assert LOG.name in applier.quarantined
    applier = appending(spark, lake, engine)  # a new process tries, and finds the same
    fourth = apply(lake, applier, [came(7, 8)], third)
    assert LOG.name in applier.quarantined
    apply(lake, applier, [*(came(8, n, Op.READ) for n in (1, 6, 7, 8)), end(9, 8)], fourth)
    assert not applier.quarantined
    assert sorted(image["n"] for _, image in lake.rows(LOG.name)) == [1, 6, 7, 8]


@pytest.mark.long
def test_its_columns_change(spark: SparkSession, tmp_path: Path) -> None:
    two = TableSchema("shop", "log", (Column("number", "bigint"), Column("more", "int")), ())
    lake = Lake(spark, tmp_path, {LOG.name: LOG})
    change = altered(LOG, two, 4, number="n", more="")
    rows = [begin(LOG), came(2, 1), came(3, 1), change]
    rows.append(Change(seq(5), Op.INSERT, LOG.name, None, None, {"number": 2, "more": 3}))
    first = apply(lake, appending(spark, lake), rows, None)
    want = [(1, None), (1, None), (2, 3)]
    assert sorted((i["number"], i["more"]) for _, i in lake.rows(LOG.name)) == want
    appending(spark, lake).apply(Versions(None, first), lake.note(Versions(None, first), query="another"))
    assert sorted((i["number"], i["more"]) for _, i in lake.rows(LOG.name)) == want


def test_tracked_columns_need_a_key_and_a_table_with_one_is_not_appended_to(
    spark: SparkSession, tmp_path: Path
) -> None:
    keyed = TableSchema("shop", "keyed", LOG.columns, ("n",))
    lake = Lake(spark, tmp_path, {LOG.name: LOG, keyed.name: keyed})
    tracking = Policy(form=HISTORY, track=("n",))
    applier = Applier(spark, lake.layout, policy=lambda name: Policy(form=APPEND) if name == keyed.name else tracking)
    rows = [
        begin(LOG),
        came(2, 1),
        begin(keyed),
        Change(seq(2), Op.INSERT, keyed.name, (1,), None, {"n": 1, "text": ""}),
    ]
    first = apply(lake, applier, rows, None)
    assert set(applier.quarantined) == {LOG.name, keyed.name}
    assert (
        "shop.log has no primary key, so it is in bronze alone; give tables.shop.log key:"
        in applier.quarantined[LOG.name]
    )
    assert "append is for tables without one" in applier.quarantined[keyed.name]
    assert not exists(spark, lake.layout.silver_table(LOG.name))
    # the configuration is mended: all of bronze is there
    apply(lake, appending(spark, lake), [came(3, 1)], first)
    assert counted(lake.rows(LOG.name)) == {(("n", 1), ("text", None)): 2}


def test_a_key_that_two_rows_have_is_told(spark: SparkSession, tmp_path: Path) -> None:
    given = TableSchema("shop", "log", LOG.columns, ("n",), key_given=True)
    lake = Lake(spark, tmp_path, {LOG.name: given})
    applier = Applier(spark, lake.layout)
    rows = [
        Change(seq(2, Rank.READ), Op.READ, LOG.name, (n,), None, {"n": n, "text": t}) for n, t in [(1, "a"), (1, "b")]
    ]
    apply(lake, applier, [begin(given), *rows], None)
    assert "2 rows of shop.log have the key (n) = (1,)" in applier.quarantined[LOG.name]
