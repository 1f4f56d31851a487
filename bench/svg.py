"""The few elements of SVG that the charts are made of."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape


def framed(width: float, height: float, parts: Sequence[str]) -> str:
    """The picture, on white: a README is read on dark ground, too."""
    frame = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    return "\n".join([frame, f'<rect width="{width}" height="{height}" fill="#fff"/>', *parts, "</svg>", ""])


def text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    """A line of text that begins, ends or has its middle at x."""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" fill="#333">{escape(text)}</text>'
