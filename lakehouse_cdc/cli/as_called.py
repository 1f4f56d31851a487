"""Commands in messages, as they have to be typed where they are shown.

Messages name a command in one form, `lakehouse-cdc NAME ... -c pipeline.yml`. Who calls the program by `uv run`, or has
another file, has to type another one. So what people see is written as this call was made; JSON, logs and tables keep
the one form. A text that is written so twice is as if it was once.

Guards: tests/cli/test_as_called.py; tests/cli/test_printed_commands.py has every command of a message.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

COMMANDS = (
    "as-of", "bundle", "config", "dead-letters", "demo", "doctor", "init", "maintain", "monitoring", "redact",
    "report", "reset", "run", "signal", "status", "verify",
)  # fmt: skip
_UV_RUN = "UV_RUN_RECURSION_DEPTH"  # set by `uv run` for what it runs
_PROGRAM = re.compile(rf"(?<!uv run )\blakehouse-cdc(?= (?:{'|'.join(COMMANDS)})\b)")
_FILE = re.compile(r"(?<= -c )pipeline\.yml(?!\.?\w)")


def program() -> str:
    """The words that call this program again."""
    return "uv run lakehouse-cdc" if os.environ.get(_UV_RUN) else "lakehouse-cdc"


def as_called(text: str, file: Path | None = None) -> str:
    """A message for people, with its commands as they are to be typed. `file` is the pipeline's, if one was given."""
    text = _PROGRAM.sub(program(), text)
    return text if file is None else _FILE.sub(lambda _: shlex.quote(str(file)), text)
