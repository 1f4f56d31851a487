"""The feed of AUTO CDC against the specification: what AUTO CDC makes of it is the fold, for every form and history."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from lakehouse_cdc.errors import TransientError
from lakehouse_cdc.lake.tables import read
from lakehouse_cdc.model.changelog import Change, Op, fold
from lakehouse_cdc.model.history import histories
from lakehouse_cdc.model.own_columns import DEFAULT
from lakehouse_cdc.model.seq import Rank
from lakehouse_cdc.pipeline.run.failures import translate
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.auto_cdc import feed
from lakehouse_cdc.silver.auto_cdc.schema_eras import Eras
from lakehouse_cdc.silver.definition.form import MOMENT
from tests.support.bronze_writer import Lake, commit_time
from tests.support.silver.alterations import moment
from tests.support.silver.altered_histories import AlteredHistory, uncertain
from tests.support.silver.auto_cdc import Event, type_1, type_2
from tests.support.silver.changes import N, begin, delete, insert, seq, table
from tests.support.silver.crashes import split_up
from tests.support.silver.histories import KINDS, TEXT, generated
from tests.support.silver.schema_changes import altered

OWN = DEFAULT


def eras(lake: Lake, name: str) -> Eras:
    rows = read(lake.spark, lake.layout.schemas).where(f"source_table = '{name}'").orderBy("seq").collect()
    found = Eras.of(name, [(int(row["seq"]), row["schema"]) for row in rows])
    assert found is not None
    return found


def events(rows: DataFrame, of: Eras) -> list[Event]:
    """The rows of a feed. What is deleted carries its key alone."""
    own = [("_seq", "decimal(38,0)"), ("_commit_ts", "timestamp"), ("_op", "string")]
    wanted = StructType.fromDDL(", ".join(f"`{n.replace('`', '``')}` {k}" for n, k in [*of.columns, *own]))
    assert rows.schema.simpleString()[:-1].startswith(wanted.simpleString()[:-1])
    assert rows.schema["_sequence"].dataType == DataType.fromDDL(MOMENT)
    found = []
    for row in rows.collect():
        image = {name: bytes(v) if isinstance(v := row[name], bytearray) else v for name, _ in of.columns}
        at = row["_sequence"]
        assert (at.seq, at.commit_ts) == (row["_seq"], row["_commit_ts"])
        assert at.commit_ts.timestamp() == commit_time(int(at.seq)).timestamp()
        key = tuple(image[name] for name, _ in of.key)
        assert None not in key
        found.append(Event(key, int(at.seq), None if row["_op"] == "d" else image))
    return found


def whole_feed(lake: Lake, name: str) -> list[Event]:
    """Both flows, as a batch over all of bronze."""
    bronze, of = read(lake.spark, lake.layout.changes), eras(lake, name)
    return events(feed.changes(bronze, of, OWN), of) + events(feed.gone(feed.barriers(bronze), bronze, of, OWN), of)


def written(spark: SparkSession, folder: Path, kind: int, rng: random.Random) -> tuple[Lake, str, list[Change]]:
    """A lake whose bronze holds a generated history of a table, in some commits."""
    schema, changes = generated(rng, kind, 60)
    lake = Lake(spark, folder, {schema.name: schema})
    for part in split_up(changes, 3, rng):
        lake.commit(part)
    return lake, schema.name, changes


def test_columns_of_both_flows_have_the_comments_of_the_source(spark: SparkSession, tmp_path: Path) -> None:
    one = table("one", N)
    lake = Lake(spark, tmp_path, {one.name: one})
    lake.commit([begin(one), insert(one, 2, 1, n=1)])
    bronze, of = read(lake.spark, lake.layout.changes), eras(lake, one.name)
    for rows in (
        feed.changes(bronze, of, OWN, {"n": "how many"}),
        feed.gone(feed.barriers(bronze), bronze, of, OWN, {"n": "how many"}),
    ):
        comments = {field.name: field.metadata.get("comment") for field in rows.schema.fields}
        assert {name: text for name, text in comments.items() if text} == {"n": "how many"}


@pytest.mark.long
def test_what_auto_cdc_makes_of_the_feed_is_the_fold(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for kind in rng.sample(range(KINDS), 3):
        lake, name, changes = written(spark, tmp_path / str(kind), kind, rng)
        fed = whole_feed(lake, name)
        assert type_1(fed) == {key: row for (_, key), row in fold(changes).items()}
        for track in (None, (), ("tiny", "ü. `x`")):

            def tracked(image: Any, track: Any = track) -> Any:
                return [value for column, value in image.items() if track is None or column in track]

            assert type_2(fed, tracked) == {key: versions for (_, key), versions in histories(changes, tracked).items()}


@pytest.mark.long
def test_each_batch_of_the_streams_gives_what_it_gives_of_the_whole(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """Barriers in the batches of a stream, late, against bronze as it is by then: nothing else comes of them."""
    rng = random.Random(seed)
    lake, name, _ = written(spark, tmp_path, 0, rng)
    of, bronze = eras(lake, name), read(spark, lake.layout.changes)
    wanted = sorted((e.key, e.sequence) for e in whole_feed(lake, name) if e.row is None)
    assert wanted
    where = lake.layout.changes.path or ""
    streamed = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(where)
    drain(feed.barriers(streamed), tmp_path / "barriers")
    drain(feed.changes(streamed, of, OWN), tmp_path / "fed", "parquet")
    marks = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(str(tmp_path / "barriers"))
    drain(feed.gone(marks, bronze, of, OWN), tmp_path / "gone", "parquet")
    came = events(spark.read.parquet(str(tmp_path / "fed"), str(tmp_path / "gone")), of)
    assert sorted((e.key, e.sequence) for e in came if e.row is None) == wanted
    assert type_1(came) == type_1(whole_feed(lake, name))


def drain(rows: DataFrame, to: Path, form: str = "delta") -> None:
    """All that is there now, by a stream, into a table."""
    query = rows.writeStream.format(form).option("checkpointLocation", f"{to}-checkpoint").trigger(availableNow=True)
    query.start(str(to)).awaitTermination()


def plain(value: Any) -> Any:
    """One that can be a part of a key."""
    return bytes(value) if isinstance(value, bytearray) else moment(value)


@pytest.mark.long
def test_rows_of_earlier_schemas_read_as_the_changes_have_left_them(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    for n in range(3):
        history = AlteredHistory(rng, "t")
        history.grow(50)
        lake = Lake(spark, tmp_path / str(n), {"shop.t": history.first})
        for part in split_up(history.changes, 2, rng):
            lake.commit(part)
        rekeyed, unknown = uncertain(lake.written, history.doubts)
        names = [c.name for c in history.schema.captured]

        def comparable(
            rows: Iterable[tuple[int, Any]],
            names: list[str] = names,
            rekeyed: int = rekeyed,
            unknown: Callable[[int], set[str]] = unknown,
        ) -> Counter[Any]:
            known = [(at, {c: plain(image[c]) for c in names if c not in unknown(at)}) for at, image in rows]
            return Counter((at, frozenset(image.items())) for at, image in known if at > rekeyed)

        assert comparable(type_1(whole_feed(lake, "shop.t")).values()) == comparable(fold(lake.written).values())


@pytest.mark.long
def test_a_row_of_a_newer_schema_stops_the_feed_and_the_next_one_has_its_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    one = table("one", N)
    two = table("one", N, Column("m", "int"))
    lake = Lake(spark, tmp_path, {one.name: one})
    lake.commit([begin(one), insert(one, 2, 1, n=5), insert(one, 2, 2, n=6)])
    older = eras(lake, one.name)
    lake.commit([altered(one, two, 3, m="")])
    bronze = read(spark, lake.layout.changes)
    assert len(events(feed.changes(bronze, older, OWN), older)) == 2  # the change itself stops nothing
    lake.commit([delete(one, 4, 1), insert(two, 5, 3, n=7, m=8)])
    bronze = read(spark, lake.layout.changes)
    with pytest.raises(PySparkException) as stopped:
        feed.changes(bronze, older, OWN).collect()
    error = translate(stopped.value)
    assert isinstance(error, TransientError)
    assert error.what == "shop.one has rows of a schema that is newer than this update"
    assert error.where.startswith("shop.one seq ")
    assert error.hint == "start the next update: it has the columns, and continues from here"
    assert type_1(whole_feed(lake, one.name)) == {
        (2,): (seq(2), {"id": 2, "n": 6, "m": None}),
        (3,): (seq(5), {"id": 3, "n": 7, "m": 8}),
    }


@pytest.mark.long
def test_columns_may_be_called_as_those_of_bronze_are(spark: SparkSession, tmp_path: Path) -> None:
    names = ("seq", "op", "key", "era", "next", "below", "commit_ts")
    columns = tuple(Column(name, "int", False) for name in names)
    one = TableSchema("shop", "one", columns, ("seq", "op", "key"))
    lake = Lake(spark, tmp_path, {one.name: one})
    image = dict.fromkeys(names, 7)
    lake.commit([begin(one), Change(seq(2), Op.INSERT, one.name, (7, 7, 7), None, image)])
    assert type_1(whole_feed(lake, one.name)) == {(7, 7, 7): (seq(2), image)}
    lake.commit([Change(seq(3, Rank.SCHEMA), Op.TRUNCATE, one.name)])
    assert type_1(whole_feed(lake, one.name)) == {}


@pytest.mark.long
def test_a_column_that_comes_back_does_not_bring_its_values_back(spark: SparkSession, tmp_path: Path) -> None:
    """The schema is the same as it was, so only the seq tells its rows from those of before."""
    note = Column("t", "text", **TEXT)
    with_t, without = table("one", note), table("one")
    lake = Lake(spark, tmp_path, {with_t.name: with_t})
    back = altered(without, with_t, 5, t="")
    back = Change(back.seq, back.op, back.table, None, back.before, {**back.after, "filled": {"t": "new"}})
    lake.commit([begin(with_t), insert(with_t, 2, 1, t="old"), altered(with_t, without, 3), insert(without, 4, 2)])
    lake.commit([back, insert(with_t, 6, 3, t="later")])
    found = {key: row["t"] for key, (_, row) in type_1(whole_feed(lake, with_t.name)).items()}
    assert found == {(1,): "new", (2,): "new", (3,): "later"}
    assert eras(lake, with_t.name).rebuild_since(seq(1, Rank.SCHEMA)) is not None
    assert json.loads(json.dumps(back.after))["origin"] == {"id": "id"}
