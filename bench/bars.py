"""A chart of bars: one contest, a bar for each contender, what its words mean, and where and when it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.svg import framed, paragraphs, text

_WIDTH, _LEFT, _RIGHT, _MARGIN, _LINE = 800, 220, 100, 16, 24
OURS, OTHERS = "#1f6feb", "#8b949e"


@dataclass(frozen=True)
class Bar:
    """One contender: how long its bar is, what is written beside it, and its colour."""

    name: str
    value: float
    said: str
    colour: str = OURS


def chart(title: str, measure: str, bars: Sequence[Bar], notes: Sequence[str]) -> str:
    """The bars, all by one scale from zero; below them the notes, each of which explains a word."""
    parts = [text(_MARGIN, 26, title, size=15), text(_MARGIN, 46, measure, colour="#555")]
    most, y = max(bar.value for bar in bars), 64.0
    for bar in bars:
        width = max(1, round((_WIDTH - _LEFT - _RIGHT) * bar.value / most))
        parts.append(text(_LEFT - 8, y + 12, bar.name, anchor="end"))
        parts.append(f'<rect x="{_LEFT}" y="{y}" width="{width}" height="{_LINE - 7}" fill="{bar.colour}"/>')
        parts.append(text(_LEFT + width + 6, y + 12, bar.said))
        y += _LINE
    said, y = paragraphs(_MARGIN, y + 18, _WIDTH - 2 * _MARGIN, notes)
    return framed(_WIDTH, y, [*parts, *said])
