"""Pieces of files, one after another, are all rows in their order; none is larger than it may be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.sinks.kafka.file_order import File, Piece, pieces

Row = tuple[int, str, int]  # seq, path of the file, number in it
_BYTES_OF_ROW = 10


@st.composite
def files(draw: st.DrawFn) -> dict[str, list[int]]:
    """The seqs of the rows of each file, as they lie: of one seq, rising, or in no order."""
    made: dict[str, list[int]] = {}
    for number in draw(st.permutations(range(draw(st.integers(0, 7))))):
        begin, rows = draw(st.integers(0, 40)), draw(st.integers(0, 12))
        width = draw(st.sampled_from((0, 0, 3, 15)))
        seqs = draw(st.lists(st.integers(begin, begin + width), min_size=rows, max_size=rows))
        made[f"source_table=t{number % 3}/{number}"] = sorted(seqs) if draw(st.booleans()) else seqs
    return made


def listed(seqs: dict[str, list[int]]) -> list[File]:
    return [
        File(path, "t", len(its), _BYTES_OF_ROW * len(its), min(its, default=0), max(its, default=0))
        for path, its in seqs.items()
    ]


def in_order(seqs: dict[str, list[int]]) -> list[Row]:
    return sorted((seq, path, number) for path, its in seqs.items() for number, seq in enumerate(its))


def of_piece(seqs: dict[str, list[int]], piece: Piece) -> list[Row]:
    return in_order({file.path: seqs[file.path] for file in piece.files})[piece.first : piece.end]


@given(files(), st.integers(1, 15), st.integers(1, 15))
def test_pieces_are_all_rows_in_their_order(seqs: dict[str, list[int]], rows: int, of_bytes: int) -> None:
    size = _BYTES_OF_ROW * of_bytes
    made = pieces(listed(seqs), rows=rows, size=size, most=10**6)
    assert made is not None
    assert [row for piece in made for row in of_piece(seqs, piece)] == in_order(seqs)
    assert all(0 < piece.end - piece.first <= min(rows, of_bytes) for piece in made)
    assert all(list(piece.files) == sorted(piece.files, key=lambda file: file.path) for piece in made)


@given(files(), st.integers(1, 15))
def test_only_files_that_overlap_are_too_many_together(seqs: dict[str, list[int]], most: int) -> None:
    """So much and no more is looked at for one piece."""
    made = pieces(listed(seqs), rows=4, size=10**6, most=most)
    if made is None:
        assert pieces(listed(seqs), rows=4, size=10**6, most=sum(map(len, seqs.values()))) is not None
        return
    for piece in made:
        overlap = sum(file.rows for file in piece.files)
        assert overlap <= max(4, most) or (len(piece.files) == 1 and piece.files[0].of_one_seq)


def test_files_of_a_snapshot_are_read_alone() -> None:
    """Each of its chunks has one seq, so no task looks at the seqs of others, however many rows these have."""
    chunks = [File(f"source_table=t/{i}", "t", 1000, 10, 7, 7) for i in range(5)]
    made = pieces(chunks, rows=400, size=10**6, most=500)
    assert made == [
        Piece((chunk,), first, end) for chunk in chunks for first, end in ((0, 333), (333, 666), (666, 1000))
    ]
