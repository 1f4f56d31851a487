"""Tasks of the forms that depend on the order of changes against the model, batch by batch, without Spark."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse_cdc.images.typed.columns import NotOurs, arrow_type
from lakehouse_cdc.lake.direct.rust_table import Once, RustTable
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.history import Kept, Version, histories, kept
from lakehouse_cdc.model.own_columns import DEFAULT, END_AT, START_AT
from lakehouse_cdc.model.seq import Rank
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.batch.contents import Barrier
from lakehouse_cdc.silver.definition.engine import DELTALAKE, ENGINE
from lakehouse_cdc.silver.definition.form import Form
from lakehouse_cdc.silver.forms import HISTORY, SOFT_DELETES
from lakehouse_cdc.silver.load.bronze_images import SEQ, TIME
from lakehouse_cdc.silver.table_tasks import folded
from lakehouse_cdc.silver.table_tasks.folded import Marked, Versions
from lakehouse_cdc.silver.table_tasks.work import OF_FORMS, GaveUp, TableTask, Work, applied
from lakehouse_cdc.silver.tables.table_definition import STATISTICS, statistics
from tests.support.bronze_writer import bronze_rows, commit_time
from tests.support.crash_points import Crash, failing_at_random
from tests.support.silver.changes import N, insert, seq, table
from tests.support.silver.crashes import split_up
from tests.support.silver.engines import plain_names
from tests.support.silver.histories import KINDS, generated
from tests.support.silver.schema_changes import update

KEPT = "was__dropped"
TRACKS = {"all": None, "some": ("tiny", "text", "d"), "none": ()}


@dataclass
class Place:
    """A silver table, with a column that the source has no more, and the files of bronze beside it."""

    folder: Path
    schema: TableSchema
    form: Form
    track: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        fields = [(c.name, arrow_type(require(c, self.schema.name))) for c in self.schema.captured]
        fields += [(KEPT, pa.string()), *((name, OF_FORMS[kind]) for name, kind in self.form.columns(DEFAULT))]
        properties = {ENGINE: DELTALAKE, STATISTICS: self.bounded}
        DeltaTable.create(
            str(self.folder / "t"),
            pa.schema([*fields, (DEFAULT.seq, SEQ), (DEFAULT.commit_ts, TIME)]),
            configuration=properties,
            raise_if_key_not_exists=False,
        )

    @property
    def bounded(self) -> str:
        return statistics(self.schema, self.schema.key, form=self.form, own=DEFAULT, bare=True)

    def task(self, changes: Sequence[Change], batch: int, query: str = "q") -> TableTask:
        """What a batch with these changes is to the table."""
        name = f"{query}{batch}.parquet"
        pq.write_table(bronze_rows(changes, lambda *_: self.schema), self.folder / name)
        marks = [c for c in changes if c.op in (Op.TRUNCATE, Op.END)]
        barriers = tuple(
            Barrier(c.seq, micros(c.seq), c.seq if c.op is Op.TRUNCATE else int(c.after))
            for c in sorted(marks, key=lambda c: c.seq)
        )
        work: Work = Versions(barriers, self.track) if self.form is HISTORY else Marked(barriers)
        return TableTask(
            name=self.schema.name,
            bronze=str(self.folder),
            files=(name,),
            rows=len(changes),
            table=str(self.folder / "t"),
            schema=self.schema,
            schema_ids=frozenset([self.schema.id]),
            own=DEFAULT,
            of_form=tuple(self.form.columns(DEFAULT)),
            kept=frozenset([KEPT]),
            bounded=self.bounded,
            merges=Once(query, batch, "note"),
            work=work,
        )

    @property
    def opened(self) -> RustTable:
        return RustTable(str(self.folder / "t"), "t")

    def found(self) -> dict[Any, Any]:
        """What the table has, as the model says it."""
        held: dict[Any, Any] = {}
        for row in sorted(self.opened.rows(self.opened.schema.names).to_pylist(), key=lambda row: int(row["_seq"])):
            image = {c.name: row[c.name] for c in self.schema.captured}
            name = self.schema.name, tuple(image[k] for k in self.schema.key)
            assert row["_commit_ts"] == commit_time(int(row["_seq"]))
            assert row[KEPT] is None
            if self.form is HISTORY:
                start, end = (moment(row[column]) for column in (START_AT, END_AT))
                held.setdefault(name, []).append(Version(start, end, int(row["_seq"]), image))
            else:
                assert name not in held
                held[name] = (int(row["_seq"]), row["_deleted_at"], image)
        return {name: sorted(versions, key=lambda v: v.start) for name, versions in held.items()} if (
            self.form is HISTORY
        ) else held  # fmt: skip

    def wanted(self, changes: Sequence[Change]) -> dict[Any, Any]:
        if self.form is HISTORY:
            return {**histories(changes, self.tracked)}
        return {name: told(row) for name, row in kept(changes).items()}

    def tracked(self, image: Any) -> Any:
        return [value for name, value in image.items() if self.track is None or name in self.track]


def told(row: Kept) -> tuple[int, datetime | None, Any]:
    return row.seq, None if row.gone is None else commit_time(row.gone), row.image


def moment(value: Any) -> Any:
    """The seq of a moment, whose time is right."""
    if value is None or value["seq"] is None:
        return None
    assert value["commit_ts"] == commit_time(int(value["seq"]))
    return int(value["seq"])


def micros(of: int) -> int:
    return round(commit_time(of).timestamp() * 1_000_000)


FORMS: dict[str, tuple[Form, tuple[str, ...] | None]] = {
    **{f"history of {name}": (HISTORY, track) for name, track in TRACKS.items()},
    "soft deletes": (SOFT_DELETES, None),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("kind", range(KINDS))
def test_after_each_batch_the_table_is_the_models(
    tmp_path: Path, seed: int, kind: int, form: tuple[Form, tuple[str, ...] | None]
) -> None:
    """Some batches crash before or after their commit, and each comes again."""
    rng = random.Random(seed + kind)
    schema, changes = plain_names(*generated(rng, kind, 60))
    place, done = Place(tmp_path, schema, *form), list[Change]()
    for batch, part in enumerate(split_up(changes, 6, rng)):
        task, before = place.task(part, batch), place.opened.version
        with failing_at_random(rng, 0.2), suppress(Crash):
            applied(task)
        version = applied(task).version
        done += part
        assert place.found() == place.wanted(done), batch
        assert place.opened.has(task.merges)
        assert before < version == applied(task).version == place.opened.version


ONE = table("one", N)
IMAGE = {"id": 1, "n": 5}


@pytest.mark.parametrize("form", [HISTORY, SOFT_DELETES])
@pytest.mark.parametrize("keys", [[1, 1], [None]], ids=["a key twice", "no whole key"])
def test_rows_that_a_change_of_the_key_has_left_are_sparks(tmp_path: Path, form: Form, keys: list[int | None]) -> None:
    place = Place(tmp_path, ONE, form)
    applied(place.task([insert(ONE, 2, 1, n=5)], 0))
    held = place.opened.rows(place.opened.schema.names).to_pylist()
    rows = pa.Table.from_pylist([{**held[0], "id": key} for key in keys], schema=place.opened.schema)
    write_deltalake(str(tmp_path / "t"), rows, mode="overwrite")
    truncation = Change(seq(4, Rank.SCHEMA), Op.TRUNCATE, ONE.name)
    with pytest.raises(GaveUp):
        applied(place.task([update(ONE, 3, IMAGE, n=6), truncation], 1))


@pytest.mark.parametrize("form", [HISTORY, SOFT_DELETES])
def test_many_changes_and_many_rows_are_sparks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Form) -> None:
    """Rows of other keys do not count, but where a barrier concerns them."""
    place = Place(tmp_path, ONE, form)
    monkeypatch.setattr(folded, "_MOST_ROWS", 3)
    with pytest.raises(NotOurs):
        applied(place.task([insert(ONE, 2, key, n=5) for key in range(4)], 0))
    for batch in range(3):
        applied(place.task([insert(ONE, 2, 2 * batch + key, n=5) for key in (1, 2)], batch))
    applied(place.task([update(ONE, 3, IMAGE, n=6)], 3))
    with pytest.raises(NotOurs):
        applied(place.task([Change(seq(4, Rank.SCHEMA), Op.TRUNCATE, ONE.name)], 4))
    assert len(place.found()) == 6


def test_a_delete_of_which_there_is_no_image_is_sparks(tmp_path: Path) -> None:
    """But for a key that was looked for: that marks a row that is there, and keeps what it held."""
    place = Place(tmp_path, ONE, SOFT_DELETES)
    applied(place.task([insert(ONE, 2, 1, n=5)], 0))
    with pytest.raises(NotOurs):
        applied(place.task([Change(seq(3), Op.DELETE, ONE.name, (1,))], 1))
    missed = [Change(seq(4, Rank.READ), Op.DELETE, ONE.name, (key,)) for key in (1, 2)]
    applied(place.task(missed, 1))
    assert place.found() == {(ONE.name, (1,)): (missed[0].seq, commit_time(missed[0].seq), IMAGE)}


ENDLESS = """
import time
from lakehouse_cdc.silver.table_tasks import work
work._tried = lambda task: time.sleep(task)
work.run([0, 0], 30)
print("two were done", flush=True)
work.run([0, 60], 1)
"""


@pytest.mark.process
def test_a_table_that_takes_for_ever_ends_the_process_which_says_where_it_was() -> None:
    ran = subprocess.run([sys.executable, "-c", ENDLESS], capture_output=True, text=True, check=False, timeout=120)
    assert (ran.returncode, ran.stdout) == (1, "two were done\n")
    assert "in run" in ran.stderr
