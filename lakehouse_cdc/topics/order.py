"""The order of bronze's rows that come from topics, and how far each partition has come in it. Pure.

Where messages say where in the source's log they are from (`position`), that place makes the seq: so a message has the
same seq whenever it is delivered, and rows are in the source's order, over all topics. Where they do not (`arrival`),
the number of the batch and the offset make it: the order of each partition, which is that of each key. There the place
in bronze is `batch.<number>` and the offset.

A seq leaves room below it for a change of the schema (ordinals begin at 1), and, by arrival, room for as many schemas
of a table as a batch may hold (`ERA`): those of a later one come after all of an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lakehouse_cdc.messages.change import RANKED
from lakehouse_cdc.messages.reading import Place
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.position import Position, file_name
from lakehouse_cdc.model.seq import EPOCH, POS, Rank, Seq

Order = Literal["position", "arrival"]
ERA = 10**12 * POS  # between the seqs of two schemas of a table in one batch, by arrival; no offset is greater
_OF_MESSAGE = 10**5  # rows of a message, at most


def seq_of_place(place: Place, op: Op) -> int:
    """The seq of a row by its place in the source's log, packed.

    Messages of this project's own sink say the rank, too (`RowChange.ordinal`): so what the end of a repeated read
    takes away comes after the rows that it has read.
    """
    rank, row = divmod(place.row, 2 * RANKED)
    if not rank:
        rank = Rank.READ if place.read else Rank.SCHEMA if op is Op.TRUNCATE else Rank.EVENT
    return Seq(1, Position(place.file, 0).number, place.pos, rank, row + 1).pack()


def seq_of_arrival(epoch: int, batch: int, partition: int, offset: int, index: int) -> int:
    """The same of the row `index` of a message by where it is in its topic."""
    return Seq(epoch, batch + 1, offset, Rank.EVENT, partition * _OF_MESSAGE + index + 1).pack()


def batch_file(batch: int) -> str:
    """What stands for the log's file where the order is that of arrival."""
    return file_name("batch", batch + 1)


def first_seq(epoch: int) -> int:
    """Below every row of the epoch: the place of a table's first schema."""
    return epoch * EPOCH


@dataclass(frozen=True)
class Mark:
    """How far a partition has come: the greatest seq in it, and the id of the server whose log it is, 0 if unknown."""

    seq: int
    server: int = 0


Partition = tuple[str, int]


@dataclass(frozen=True)
class Progress:
    """What bronze's newest commit says: the mark of each partition, and of each table a floor.

    The floor is the seq of the last change of a table's schema, or of its last truncation: silver has done that, so
    what is older and comes later would be lost, or return.
    """

    marks: Mapping[Partition, Mark] = field(default_factory=dict)
    floors: Mapping[str, int] = field(default_factory=dict)

    def with_marks(self, marks: Iterable[tuple[Partition, Mark]]) -> Progress:
        """The same, further."""
        held = dict(self.marks)
        for partition, mark in marks:
            before = held.get(partition, Mark(0))
            held[partition] = Mark(max(before.seq, mark.seq), mark.server or before.server)
        return Progress(held, self.floors)

    def with_floors(self, floors: Mapping[str, int]) -> Progress:
        """The same with higher floors of some tables."""
        held = dict(self.floors)
        for table, seq in floors.items():
            held[table] = max(seq, held.get(table, 0))
        return Progress(self.marks, held)

    def to_json(self) -> dict[str, Any]:
        """Plain data, for the note of a commit."""
        marks: dict[str, dict[str, list[int]]] = {}
        for (topic, partition), mark in sorted(self.marks.items()):
            marks.setdefault(topic, {})[str(partition)] = [mark.seq, mark.server]
        return {"marks": marks, "floors": dict(sorted(self.floors.items()))}

    @classmethod
    def of_json(cls, held: Mapping[str, Any] | None) -> Progress:
        """The inverse; nothing for None."""
        if held is None:
            return cls()
        marks = {
            (topic, int(partition)): Mark(*mark)
            for topic, partitions in held["marks"].items()
            for partition, mark in partitions.items()
        }
        return cls(marks, dict(held["floors"]))
