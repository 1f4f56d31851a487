"""The few elements of SVG that the charts are made of."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from xml.sax.saxutils import escape

_LINE = 17
# a letter of the widest font that a browser takes for sans-serif (DejaVu Sans), on average, by the font's size
_LETTER = 0.58


def framed(width: float, height: float, parts: Sequence[str]) -> str:
    """The picture, on white: a README is read on dark ground, too."""
    frame = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    return "\n".join([frame, f'<rect width="{width}" height="{height}" fill="#fff"/>', *parts, "</svg>", ""])


def text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, colour: str = "#333") -> str:
    """A line of text that begins, ends or has its middle at x."""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{escape(text)}</text>'


def paragraphs(x: float, y: float, width: float, said: Sequence[str]) -> tuple[list[str], float]:
    """Each text in as many lines as a width of so many units needs; and where the next line would be."""
    size, parts = 12, []
    for one in said:
        for line in textwrap.wrap(one, int(width / (size * _LETTER)), subsequent_indent="    "):
            indent = len(line) - len(line.lstrip())
            parts.append(text(x + 4 * indent, y, line.lstrip(), size=size, colour="#555"))
            y += _LINE
    return parts, y
