"""Equal rows as a stack."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.model.copies import settled

pytestmark = pytest.mark.unit


@given(steps=st.lists(st.sampled_from([1, -1]), max_size=30))
def test_what_is_on_top_and_what_goes(steps: list[int]) -> None:
    on_top, gone = settled(steps)
    heights = [0, *accumulate(steps)]
    assert gone == -min(heights)
    assert len(on_top) - gone == heights[-1]
    lasting = [i for i, step in enumerate(steps) if step > 0 and min(heights[i + 1 :]) >= heights[i + 1]]
    assert on_top == lasting
