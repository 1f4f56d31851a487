"""The picture of a terminal, which asks no other host for anything: where its font is not installed, another one is."""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Sequence
from xml.etree import ElementTree

from rich.console import Console
from rich.text import Text

from tests.newcomer.terminal import COLUMNS

_FONTS = re.compile(r"\s*@font-face \{[^}]*\}")
_TEXT = "{http://www.w3.org/2000/svg}text"
_STYLES = {"$ ": "bold", "verified:": "green"}  # by how a line begins: of what the terminal shows, colours are not kept
_FIGURE = re.compile(r"\d[\d.,:]*\d|\d")
_RULE = re.compile(r"─+")


def svg(lines: Sequence[str]) -> str:
    """An SVG file that shows these lines."""
    lines = "\n".join(lines).rstrip().split("\n")
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), highlight=False)
    for line in lines:
        text = Text(line)
        for begin, style in _STYLES.items():
            if line.startswith(begin):
                text.stylize(style, 0, len(line) if begin == "$ " else len(begin))
        console.print(text)
    return _FONTS.sub("", console.export_svg(title="lakehouse-cdc demo", unique_id="demo"))


def read(picture: str) -> list[str]:
    """The lines that an SVG file of `svg` shows."""
    parts: dict[float, list[tuple[float, str]]] = defaultdict(list)
    for text in ElementTree.fromstring(picture).iter(_TEXT):
        if "clip-path" in text.attrib:  # the others are the window's
            parts[float(text.attrib["y"])].append((float(text.attrib["x"]), text.text or ""))
    return ["".join(words for _, words in sorted(parts[y])).replace("\xa0", " ").rstrip() for y in sorted(parts)]


def words(lines: Sequence[str]) -> list[str]:
    """What is the same in each run: without figures, and without what they make wider, as columns and lines."""
    return _FIGURE.sub("#", _RULE.sub("", " ".join(lines))).split()
