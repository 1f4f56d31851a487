"""Forms that depend on the order of changes, by deltalake: the folds of `model.history`, continued from the table.

A batch that is newer than all that the table holds (no other comes here) needs of the past only what the table has of
its keys: the versions that are open (`Versions`), or each row's last change and mark (`Marked`). A barrier concerns
every key, so with one the task looks at all of them. The model's own fold continues from there. It is given a number
for a key, and for an image two: its place among those that the batch has, and one that is equal for images that are so
in all that is tracked. Where what the fold makes of a key is not what was there, one MERGE adds a row or moves it.

Every batch leaves a commit, also one that changes nothing. Else one of before it, which comes late, would not be known
for an older one (see the proof in `forms.writers.history`): a delete of a row that only the late one brings is such.

Guards: tests/silver/test_table_tasks.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_cdc.images.typed.columns import NotOurs
from lakehouse_cdc.lake.direct.rust_table import RustTable, Upsert, of_source, of_target
from lakehouse_cdc.model.changelog import Change, Op
from lakehouse_cdc.model.history import Kept, Version, histories, kept
from lakehouse_cdc.model.own_columns import END_AT, START_AT, OwnColumns, longer_than_any
from lakehouse_cdc.silver.batch.contents import Barrier
from lakehouse_cdc.silver.load.bronze_images import SEQ, TIME
from lakehouse_cdc.silver.table_tasks.changes import Changes, range_of, same_rows, whole_numbers, within
from lakehouse_cdc.silver.table_tasks.work import MOST_BYTES, GaveUp, Outcome, TableTask

_MOST_ROWS = 100_000  # of a part, and of what is known: each takes a hundredth of a millisecond or two
_IMAGED, _HELD = map(longer_than_any, ("_lakehouse_cdc_imaged", "_lakehouse_cdc_held"))
_MOMENT = pa.struct([("seq", SEQ), ("commit_ts", TIME)])
_NAME = ""  # of the table, in the model


@dataclass(frozen=True)
class _Image:
    """That at a place among the batch's, -1: the one that the table has. `tracked` is equal where all of that is."""

    place: int
    tracked: int = 0


@dataclass(frozen=True)
class _Line:
    """A row of the table that is added, or moved: then `known` is its place among the known rows, else -1.

    `image` is the place of what it holds, -1: it stays. Moments are seqs; `begin` and `end` are those of the form.
    """

    known: int
    image: int
    seq: int
    begin: int | None
    end: int | None


@dataclass(frozen=True)
class _Batch:
    """What the fold is made of: images, and each change's place among them, or -1; known rows; keys as numbers.

    `times` are the commit times by seq, in microseconds since 1970.
    """

    changes: Changes
    images: pa.Table
    places: npt.NDArray[np.int64]
    known: pa.Table
    keys: npt.NDArray[np.int64]
    known_keys: npt.NDArray[np.int64]
    times: Mapping[int, int]

    def as_model(self, barriers: Sequence[Barrier], tracked: Sequence[int]) -> list[Change]:
        """Changes and barriers; a delete has the image before it. `tracked` is a number for each of the images."""
        found = []
        of_changes = zip(
            whole_numbers(self.changes.seqs), self.changes.ops.to_pylist(), self.keys.tolist(), self.places.tolist(),
            strict=True,
        )  # fmt: skip
        for seq, op, key, place in of_changes:
            image = None if place < 0 else _Image(place, tracked[place])
            before, after = (image, None) if op == "d" else (None, image)
            found.append(Change(seq, Op(op), _NAME, key, before, after))
        return found + [Change(one.seq, Op.END, _NAME, after=one.below) for one in barriers]


@dataclass(frozen=True)
class Folded(ABC):
    """What both have in common; `barriers` are those of the part."""

    barriers: tuple[Barrier, ...]
    most_bytes: ClassVar[int] = MOST_BYTES

    def apply(self, task: TableTask, table: RustTable) -> Outcome:
        """See `work.Work`."""
        if not table.has(task.merges):
            if task.rows > _MOST_ROWS:
                raise NotOurs("so many changes are applied by Spark")
            batch = self._batch(task, table)
            lines = sorted(self._lines(task, batch), key=lambda line: line.image < 0)
            rows = _rows(task, table, batch, lines, self._of_form(task.own, batch, lines))
            if any(line.known >= 0 for line in lines):
                table.upsert(self._upsert(task, table, rows), task.merges)
            else:
                table.append(rows.select(table.schema.names), task.merges)
            table.put_together()
        return Outcome(task.name, table.version)

    @abstractmethod
    def _read(self, task: TableTask) -> tuple[Changes, pa.Table, npt.NDArray[np.int64]]:
        """Changes, their images, and the place of each one's."""

    @abstractmethod
    def _columns(self, task: TableTask) -> tuple[list[str], Any]:
        """Those that are to be known, beside the key's, of rows for which an expression holds."""

    @abstractmethod
    def _lines(self, task: TableTask, batch: _Batch) -> list[_Line]:
        """What the batch does to the table."""

    @abstractmethod
    def _of_form(self, own: OwnColumns, batch: _Batch, lines: Sequence[_Line]) -> dict[str, pa.Array]:
        """The columns of the form."""

    @abstractmethod
    def _upsert(self, task: TableTask, table: RustTable, rows: pa.Table) -> Upsert:
        """How the rows come into the table."""

    def _batch(self, task: TableTask, table: RustTable) -> _Batch:
        changes, images, places = self._read(task)
        key, (columns, where) = list(task.schema.key), self._columns(task)
        among = None
        if not self.barriers:
            ranged = range_of(changes.keys, task.schema)  # by which files are left out
            if ranged is not None:
                near = (pc.field(key[0]) >= ranged[1]) & (pc.field(key[0]) <= ranged[2])
                where = near if where is None else where & near
            among = key[0], pc.unique(changes.keys.column(key[0]))
        read = list(dict.fromkeys([*key, *columns, task.own.seq, task.own.commit_ts]))
        known = table.rows(read, where, among)
        if len(known) > _MOST_ROWS:
            raise NotOurs("so many rows are looked at by Spark")
        of_known = known.select(key).cast(changes.keys.schema)
        if any(column.null_count for column in of_known.columns):
            raise GaveUp("a row of the table has no whole key")
        keys, known_keys = same_rows([changes.keys, of_known])
        if not self.barriers:
            mine = np.isin(known_keys, keys)
            known, known_keys = known.filter(pa.array(mine)), known_keys[mine]
        if len(np.unique(known_keys)) != len(known_keys):
            raise GaveUp("rows of the table have one key")
        times = _times(known.column(task.own.seq), known.column(task.own.commit_ts))
        times |= _times(changes.seqs, changes.times) | {one.seq: one.commit_ts for one in self.barriers}
        return _Batch(changes, images, places, known, keys, known_keys, times)


def _times(seqs: Any, times: Any) -> dict[int, int]:
    return dict(zip(whole_numbers(seqs), times.cast(pa.int64()).to_pylist(), strict=True))


def _rows(
    task: TableTask, table: RustTable, batch: _Batch, lines: Sequence[_Line], of_form: Mapping[str, pa.Array]
) -> pa.Table:
    """The lines, first those with an image, in the table's columns; and whether each has one, and is known."""
    imaged = [line.image for line in lines if line.image >= 0]
    rows = batch.images.take(pa.array(imaged, pa.int64()))
    staying = pa.array([line.known for line in lines[len(imaged) :]], pa.int64())
    if len(staying):
        keys = batch.known.select(list(task.schema.key)).take(staying)
        kinds = {field.name: field.type for field in rows.schema}
        columns = {name: keys.column(name).cast(kind) if name in task.schema.key else pa.nulls(len(staying), kind)
                   for name, kind in kinds.items()}  # fmt: skip
        rows = pa.concat_tables([rows, pa.table(columns)])
    moments = _moments([line.seq for line in lines], batch.times)
    own = {task.own.seq: pc.struct_field(moments, "seq"), task.own.commit_ts: pc.struct_field(moments, "commit_ts")}
    marks = {_IMAGED: [line.image >= 0 for line in lines], _HELD: [line.known >= 0 for line in lines]}
    for name, column in {
        **of_form,
        **own,
        **{name: pa.array(mark, pa.bool_()) for name, mark in marks.items()},
    }.items():
        rows = rows.append_column(name, column)
    return task.with_kept(rows, table)


def _moments(seqs: Sequence[int | None], times: Mapping[int, int]) -> pa.StructArray:
    """(seq, commit time) of each, NULL for None."""
    there = [seq is not None for seq in seqs]
    parts = [
        pa.array([None if seq is None else Decimal(seq) for seq in seqs], SEQ),
        pa.array([None if seq is None else times[seq] for seq in seqs], pa.int64()).cast(TIME),
    ]
    mask = pc.invert(pa.array(there, pa.bool_()))
    return pa.StructArray.from_arrays(parts, fields=list(_MOMENT), mask=mask)


@dataclass(frozen=True)
class Versions(Folded):
    """Type 2. `track` are the columns of which a change begins a version (None: all)."""

    track: tuple[str, ...] | None

    def _read(self, task: TableTask) -> tuple[Changes, pa.Table, npt.NDArray[np.int64]]:
        changes = task.changes()
        images, order = changes.images(_numbers(changes, deleted=False), "after")
        return changes, images, _places(changes, order)

    def _tracked(self, task: TableTask) -> list[str]:
        names = [column.name for column in task.schema.captured]
        return names if self.track is None else [name for name in names if name in self.track]

    def _columns(self, task: TableTask) -> tuple[list[str], Any]:
        return [*self._tracked(task), START_AT], pc.field(END_AT, "seq").is_null()

    def _lines(self, task: TableTask, batch: _Batch) -> list[_Line]:
        tracked = self._tracked(task)
        images, known = batch.images.select(tracked), batch.known.select(tracked)
        numbers = [[0] * len(batch.images), [0] * len(batch.known)]
        if tracked:
            numbers = [one.tolist() for one in same_rows([images, known.cast(images.schema)])]
        starts = whole_numbers(pc.struct_field(batch.known.column(START_AT), "seq"))
        seqs = whole_numbers(batch.known.column(task.own.seq))
        before = {
            (_NAME, key): [Version(start, None, seq, _Image(-1, number))]
            for key, start, seq, number in zip(batch.known_keys.tolist(), starts, seqs, numbers[1], strict=True)
        }
        places = {key: place for place, (_, key) in enumerate(before)}
        after = histories(batch.as_model(self.barriers, numbers[0]), lambda image: image.tracked, before)
        lines = []
        for (name, key), versions in after.items():
            was = before.get((name, key), [])
            for version in versions:
                held = bool(was) and version.start == was[0].start
                if not (held and version == was[0]):
                    known_at = places[key] if held else -1
                    lines.append(_Line(known_at, version.image.place, version.seq, version.start, version.end))
        return lines

    def _of_form(self, own: OwnColumns, batch: _Batch, lines: Sequence[_Line]) -> dict[str, pa.Array]:
        starts = [None if line.known >= 0 else line.begin for line in lines]  # it keeps that which it has
        return {START_AT: _moments(starts, batch.times), END_AT: _moments([line.end for line in lines], batch.times)}

    def _upsert(self, task: TableTask, table: RustTable, rows: pa.Table) -> Upsert:
        imaged, held = of_source(_IMAGED), of_source(_HELD)
        moved = [name for name in table.schema.names if name not in (START_AT, *task.kept)]
        return Upsert(
            rows,
            task.schema.key,
            f"{held} AND {of_target(END_AT)}['seq'] IS NULL",
            updates=[(imaged, moved), (f"NOT {imaged}", [END_AT])],
            inserts=(f"NOT {held}", table.schema.names),
            within=None if self.barriers else within(rows, task.schema),
        )


@dataclass(frozen=True)
class Marked(Folded):
    """Soft deletes."""

    def _read(self, task: TableTask) -> tuple[Changes, pa.Table, npt.NDArray[np.int64]]:
        changes = task.changes(befores=True)
        images, order = changes.images(_numbers(changes, deleted=False), "after")
        gone = _numbers(changes, deleted=True)
        befores, order_of_gone = changes.images(gone[changes.with_image("before")[gone]], "before")
        order = np.concatenate([order, order_of_gone])
        return changes, pa.concat_tables([images, befores]), _places(changes, order)

    def _columns(self, task: TableTask) -> tuple[list[str], Any]:
        return [task.own.deleted_at], None

    def _lines(self, task: TableTask, batch: _Batch) -> list[_Line]:
        changes = batch.as_model(self.barriers, [0] * len(batch.images))
        if any(one.op is Op.DELETE and one.before is None and not one.missed for one in changes):
            raise NotOurs("a row was deleted of which there is no image")
        seqs, gone = whole_numbers(batch.known.column(task.own.seq)), batch.known.column(task.own.deleted_at)
        held = zip(batch.known_keys.tolist(), seqs, gone.is_null().to_pylist(), strict=True)
        before = {(_NAME, key): Kept(seq, None if there else _EARLIER, _Image(-1)) for key, seq, there in held}
        places = {key: place for place, (_, key) in enumerate(before)}
        return [
            _Line(places.get(key, -1), row.image.place, row.seq, None, row.gone)
            for (name, key), row in kept(changes, before).items()
            if row != before.get((name, key))
        ]

    def _of_form(self, own: OwnColumns, batch: _Batch, lines: Sequence[_Line]) -> dict[str, pa.Array]:
        return {own.deleted_at: pc.struct_field(_moments([line.end for line in lines], batch.times), "commit_ts")}

    def _upsert(self, task: TableTask, table: RustTable, rows: pa.Table) -> Upsert:
        own, imaged = task.own, of_source(_IMAGED)
        newer = f"{of_source(own.seq)} > {of_target(own.seq)}"
        return Upsert(
            rows,
            task.schema.key,
            "true",
            updates=[
                (f"{imaged} AND {newer}", table.schema.names),
                (f"NOT {imaged} AND {of_target(own.deleted_at)} IS NULL", [own.seq, own.commit_ts, own.deleted_at]),
            ],
            inserts=(imaged, table.schema.names),
            within=None if self.barriers else within(rows, task.schema),
        )


_EARLIER = -1  # the moment at which a row went that was gone before


def _numbers(changes: Changes, *, deleted: bool) -> npt.NDArray[np.int64]:
    return np.flatnonzero(changes.deleted.to_numpy(zero_copy_only=False) == deleted)


def _places(changes: Changes, order: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Of each change the place in that order, or -1."""
    places = np.full(len(changes), -1, np.int64)
    places[order] = np.arange(len(order))
    return places
