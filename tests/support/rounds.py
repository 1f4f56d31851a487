"""How often a test that draws at random repeats itself."""

from __future__ import annotations

from hypothesis import settings


def rounds(brief: int) -> int:
    """`brief` by default; twenty times as many with `--hypothesis-profile thorough`."""
    return brief * settings().max_examples // settings.get_profile("brief").max_examples
