"""The picture of a terminal, which asks no other host for anything: where its font is not installed, another one is."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from tests.newcomer.terminal import COLUMNS

_FONTS = re.compile(r"\s*@font-face \{[^}]*\}")


def svg(lines: Sequence[str]) -> str:
    """An SVG file that shows these lines."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), highlight=False)
    for line in lines:
        style = "bold" if line.startswith("$ ") else "green" if line.startswith("verified:") else ""
        console.print(Text(line, style=style))
    return _FONTS.sub("", console.export_svg(title="lakehouse-cdc demo", unique_id="demo"))
