"""What the tests of silver have in common."""

from __future__ import annotations

import random

import pytest


@pytest.fixture
def seed() -> int:
    """One at random: a whole history is made from it. Pytest shows it where the test fails."""
    drawn = random.SystemRandom().getrandbits(32)
    print(f"seed {drawn}")
    return drawn
