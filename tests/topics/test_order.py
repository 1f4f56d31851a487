"""The order of rows from topics is that of the source, and what a commit says of topics comes back from it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.messages.formats import READERS, ReadFormat
from lakehouse_cdc.messages.reading import Reason, Unreadable
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.commit_note import CommitNote, SourcePoint
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.topics.declared import Declarations, column
from lakehouse_cdc.topics.letters import Selection
from lakehouse_cdc.topics.order import ERA, Mark, Progress, first_seq, seq_of_arrival, seq_of_place
from tests.messages.test_round_trip import ID, change, written

SCHEMA = TableSchema("shop", "t", (ID, Column("v", "int")), ("id",))
DECLARED = Declarations({"shop.t": {"id": "int", "v": "int"}}, {})
# what the sink writes is one of these: an event, a row that was read, or one that a truncation or a pass takes away
_rows = st.tuples(
    st.integers(1, 3), st.integers(4, 9), st.sampled_from([(Rank.EVENT, Op.INSERT), (Rank.EVENT, Op.DELETE),
    (Rank.SCHEMA, Op.DELETE), (Rank.READ, Op.READ), (Rank.END, Op.DELETE)]), st.integers(0, 3),
)  # fmt: skip


def seq_in_copy(name: ReadFormat, row: tuple[int, int, tuple[Rank, Op], int]) -> tuple[int, int]:
    """The seq of a row of bronze, and the one that its message gives it."""
    file, pos, (rank, op), ordinal = row
    seq = Seq(1, file, pos, rank, ordinal).pack()
    image = {"id": 7, "v": 1}
    of = replace(
        change(op, image if op is Op.DELETE else None, None if op is Op.DELETE else image),
        seq=seq, file=f"bin.{file:06d}", pos=pos,
    )  # fmt: skip
    message = written(name, of, SCHEMA)[0]
    [read] = READERS[name](DECLARED.made())(message.key, message.value)
    assert read.place is not None
    return seq, seq_of_place(read.place, read.op)


@pytest.mark.parametrize("name", ["debezium-json", "maxwell"])
@given(_rows, _rows)
def test_rows_of_the_sink_keep_their_order(name: ReadFormat, one: object, other: object) -> None:
    (a, x), (b, y) = (seq_in_copy(name, row) for row in (one, other))  # type: ignore[arg-type]
    if a != b:
        assert (a < b) == (x < y)
    assert x > first_seq(1)


def test_by_arrival_the_order_is_that_of_batches_eras_and_offsets() -> None:
    seqs = [
        first_seq(2),
        seq_of_arrival(2, 0, 5, 0, 0),
        seq_of_arrival(2, 0, 5, 0, 1),
        seq_of_arrival(2, 0, 0, 10**12 - 1, 0),
        seq_of_arrival(2, 0, 0, 0, 0) + ERA,
        seq_of_arrival(2, 0, 0, 0, 0) + 9 * ERA,
        seq_of_arrival(2, 1, 0, 0, 0),
        first_seq(3),
    ]
    assert seqs == sorted({*seqs})


def test_what_a_commit_says_comes_back() -> None:
    progress = Progress({("a.b", 0): Mark(10**37, 3), ("a.b", 11): Mark(5), ("c", 2): Mark(7)}, {"shop.t": 10**36})
    note = CommitNote("p", "q", 3, SourcePoint(1, "", "bin.000001", 4), topics=progress.to_json())
    back = CommitNote.parse(note.text())
    assert back == replace(note, topics=json.loads(json.dumps(progress.to_json())))
    assert back is not None
    assert Progress.of_json(back.topics) == progress
    assert Progress.of_json(None) == Progress()
    assert not back.in_order  # several partitions
    assert replace(note, topics=Progress({("c", 2): Mark(7)}).to_json()).in_order
    assert replace(note, topics=None).in_order


def test_marks_and_floors_only_rise() -> None:
    progress = Progress({("t", 0): Mark(10, 3)}, {"shop.t": 5})
    further = progress.with_marks([(("t", 0), Mark(7)), (("t", 1), Mark(4))]).with_floors({"shop.t": 3, "shop.u": 1})
    assert further == Progress({("t", 0): Mark(10, 3), ("t", 1): Mark(4)}, {"shop.t": 5, "shop.u": 1})


@pytest.mark.parametrize(
    "text", ["int", "bigint unsigned", "decimal(10,2)", "varchar(20)", "enum('a','b')", "datetime(6)"]
)
def test_types_are_written_as_mysql_does(text: str) -> None:
    assert column("a`b", text).declared == text
    assert column("a`b", text).name == "a`b"


@pytest.mark.parametrize("text", ["hologram", "int, ADD COLUMN x int", "int) ; DROP TABLE t", ""])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(Unreadable) as raised:
        column("a", text)
    assert raised.value.reason is Reason.UNKNOWN_TYPE


def test_a_selection_is_a_condition() -> None:
    assert Selection().sql == "true"
    assert Selection("a'b", "t").sql == "reason = 'a\\'b' AND topic = 't'"
