"""Where in the binlog: a file and a byte, ordered by the file's number, never by its name.

File names sort wrongly as text (`.999999` before `.1000000`), so the numeric suffix decides; two logs with different
base names cannot be compared and say so. A position is always the end of an event, 64 bits wide: the 32-bit field in
an event's header wraps at 4 GiB, so positions here are sums of event sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import total_ordering

from lakehouse_cdc.errors import codes

FIRST_EVENT = 4  # every binlog file starts with four magic bytes
START_LIMIT = 1 << 32  # a request for a dump has four bytes for the position to start at


@total_ordering
@dataclass(frozen=True)
class Position:
    """`file` such as mysql-bin.000042, and `pos`, the byte offset at the end of an event."""

    file: str
    pos: int

    @classmethod
    def parse(cls, text: str) -> Position:
        """The inverse of `str`. Raises ConfigError."""
        file, _, pos = text.rpartition(":")
        if not file or not pos.isdecimal():
            raise codes.MOMENT_INVALID.error(f"'{text}' is no position", hint="write FILE:POS, as binlog.000042:1234")
        return cls(file, int(pos))

    @property
    def base(self) -> str:
        """The log's base name: mysql-bin of mysql-bin.000042."""
        return self.file.rpartition(".")[0]

    @property
    def number(self) -> int:
        """The file's number. Raises DefiniteError where the name has no numeric suffix."""
        suffix = self.file.rpartition(".")[2]
        if not suffix.isdecimal():
            raise codes.POSITION_INVALID.error(
                f"'{self.file}' is not the name of a binlog file", hint="expected NAME.NUMBER"
            )
        return int(suffix)

    @property
    def startable(self) -> bool:
        """Whether a dump can be requested from here; a file's end past that is the beginning of the next file."""
        return self.pos < START_LIMIT

    @property
    def next_file(self) -> Position:
        """Where the file after this one begins."""
        return Position(file_name(self.base, self.number + 1), FIRST_EVENT)

    def __lt__(self, other: Position) -> bool:
        if self.base != other.base:
            raise codes.POSITIONS_INCOMPARABLE.error(
                f"positions of two different logs cannot be compared: {self} and {other}"
            )
        return (self.number, self.pos) < (other.number, other.pos)

    def __str__(self) -> str:
        return f"{self.file}:{self.pos}"


def file_name(base: str, number: int) -> str:
    """The name the server gives to file `number`: at least six digits."""
    return f"{base}.{number:06d}"
