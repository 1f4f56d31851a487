"""A terminal of 80 columns: a program runs in it, and what it shows in the end can be read."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COLUMNS, ROWS = 80, 24
# an escape sequence (ECMA-48, 5.4): parameters, and a letter
_PART = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|(\r|\n|\x08)|\x1b[\]()][^\x07]*\x07?|([^\x1b\r\n\x08]+)")


@dataclass(frozen=True)
class Ran:
    """The exit code of a command, and the lines that its terminal showed when it ended."""

    code: int
    lines: tuple[str, ...]


def run(command: Sequence[str | Path], folder: Path, environment: Mapping[str, str], user: str | None) -> Ran:
    """Run a command in a terminal of its own, as `user` where one is given."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    how: dict[str, Any] = {"user": user, "group": user, "extra_groups": []} if user else {}
    program = subprocess.Popen(
        command, cwd=folder, env=dict(environment), stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True, **how,
    )  # fmt: skip
    os.close(theirs)
    said = bytearray()
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        said += part
    os.close(ours)
    return Ran(program.wait(), tuple(shown(said.decode("utf-8", "replace"))))


def shown(text: str) -> list[str]:
    """What is there to read after a program has written this: lines may have been written over."""
    lines: list[str] = [""]
    row = column = 0
    for part in _PART.finditer(text):
        number, letter, control, words = part.groups()
        if control == "\n":
            row += 1
        elif control == "\r":
            column = 0
        elif control == "\x08":
            column = max(column - 1, 0)
        elif letter == "A":
            row = max(row - int(number or 1), 0)
        elif letter == "K":
            kept = lines[row][:column] if number in ("", "0") else ""
            lines[row] = kept
        elif words:
            line = lines[row].ljust(column)
            lines[row] = line[:column] + words + line[column + len(words) :]
            column += len(words)
        lines += [""] * (row + 1 - len(lines))
    return [line.rstrip() for line in lines]
