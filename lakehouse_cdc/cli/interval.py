"""The value of `--every`."""

from __future__ import annotations

import typer

from lakehouse_cdc.options.kinds import Invalid
from lakehouse_cdc.options.measures import Seconds

_LEAST = 0.1


def interval(text: str) -> float:
    """The seconds of a number of them, or of a time with its unit; a tenth of one or more."""
    try:
        seconds = Seconds().of_text(text)
    except Invalid as error:
        raise typer.BadParameter(str(error)) from None
    if seconds < _LEAST:
        raise typer.BadParameter("expected 100ms or more")
    return seconds
