"""128-bit seqs by numpy equal Python's own integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.source.bronze_rows import constant_seqs, event_seqs

rows = st.lists(st.tuples(st.integers(0, 10**13 - 1), st.integers(0, 10**10 - 1)), min_size=1, max_size=20)


@given(st.integers(0, 9999), st.integers(0, 10**10 - 1), rows)
def test_event_seqs(epoch: int, file: int, events: list[tuple[int, int]]) -> None:
    pos, ordinal = (np.array(column, dtype=np.int64) for column in zip(*events, strict=True))
    got = [int(v) for v in event_seqs(epoch, file, pos, ordinal).to_pylist()]
    assert got == [Seq(epoch, file, p, Rank.EVENT, o).pack() for p, o in events]


@given(st.integers(0, 10**38 - 1), st.integers(0, 5))
def test_constant_seqs(seq: int, n: int) -> None:
    assert constant_seqs(seq, n).to_pylist() == [seq] * n
