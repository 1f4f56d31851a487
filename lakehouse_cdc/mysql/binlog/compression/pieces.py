"""The pieces of a buffer: one, unless more is compressed in it than is expanded at once (see `compression.events`)."""

from __future__ import annotations

from collections.abc import Iterator

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.mysql.binlog.compression.events import Events, expand


class Pieces:
    """What the scan goes through, and what it has found to be compressed in it."""

    def __init__(self) -> None:
        self._later: list[Iterator[Events]] = []  # the last one comes first
        self.fault: DefiniteError | None = None  # why the last event of what was expanded is not

    def of(self, buffer: Events) -> Iterator[Events]:
        """The buffer, and after it what was put off when it, and that in turn, was `expanded`.

        Raises DefiniteError, without its place, for a payload that does not hold what it says.
        """
        self._later = [iter((buffer,))]
        while self._later:
            piece = next(self._later[-1], None)
            if piece is None:
                self._later.pop()
            else:
                yield piece

    def expanded(self, piece: Events, at: int) -> Events:
        """The piece with its packed events from `at` on expanded, or as many as are at once."""
        expansion = expand(piece, at)
        self.fault = expansion.fault
        if expansion.later is not None:
            self._later.append(expansion.later)
        return expansion.data
