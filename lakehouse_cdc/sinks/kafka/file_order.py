"""The order of rows by the files that hold them, and its cuts into pieces for tasks. Pure.

A row comes before another if its seq is smaller; of one seq, if the path of its file is; and in one file, if it lies
before it. The commits of bronze and the files that they added never change, so neither does this order.

Delta keeps the least and the greatest seq of each file. Files whose stretches do not overlap follow each other as they
are, and no task has to look at both; the others form a group, whose tasks each look at the seqs of all of its rows.
So groups of many rows are not taken apart (`pieces` gives None).
Guard: tests/sinks/kafka/test_file_order.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """A file of rows of one source table; `size` is that of its rows in bytes, `least` and `greatest` are seqs."""

    path: str
    table: str
    rows: int
    size: int
    least: int
    greatest: int

    @property
    def of_one_seq(self) -> bool:
        """Whether its rows are in order as they lie."""
        return self.least == self.greatest


@dataclass(frozen=True)
class Piece:
    """Of the rows of these files, in their order, those from number `first` on up to `end`; `files` are by path."""

    files: tuple[File, ...]
    first: int
    end: int


def pieces(files: Iterable[File], *, rows: int, size: int, most: int) -> list[Piece] | None:
    """All rows in their order, in pieces of about so many rows and bytes.

    None where a group of files that overlap has more than `most` rows.
    """
    made: list[Piece] = []
    gathered: list[File] = []
    for group in _groups(sorted((one for one in files if one.rows), key=lambda one: (one.least, one.path))):
        if _rows(group) > most and not (len(group) == 1 and group[0].of_one_seq):
            return None
        if gathered and not _fits([*gathered, *group], rows, size):
            made += _cut(gathered, rows, size)
            gathered = []
        gathered += group
        if not _fits(gathered, rows, size):
            made += _cut(gathered, rows, size)
            gathered = []
    return [*made, *_cut(gathered, rows, size)]


def _groups(files: Sequence[File]) -> Iterator[list[File]]:
    """Files whose stretches overlap, together; in order."""
    group: list[File] = []
    end = (-1, "")
    for file in files:
        if group and (file.least, file.path) > end:
            yield group
            group = []
        group.append(file)
        end = max(end, (file.greatest, file.path))
    if group:
        yield group


def _cut(files: Sequence[File], rows: int, size: int) -> Iterator[Piece]:
    """Pieces of as many rows each, as nearly as that can be."""
    if not files:
        return
    count, ordered = _rows(files), tuple(sorted(files, key=lambda one: one.path))
    parts = min(count, max(math.ceil(count / rows), math.ceil(_size(files) / size)))
    for part in range(parts):
        yield Piece(ordered, count * part // parts, count * (part + 1) // parts)


def _fits(files: Sequence[File], rows: int, size: int) -> bool:
    return _rows(files) <= rows and _size(files) <= size


def _rows(files: Iterable[File]) -> int:
    return sum(file.rows for file in files)


def _size(files: Iterable[File]) -> int:
    return sum(file.size for file in files)
