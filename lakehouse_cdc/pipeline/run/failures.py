"""From Spark's many-lined exceptions to the one line that says what happened.

An error that is raised in a planner, a task or a foreachBatch crosses two processes and comes back as text inside a
Java exception. The innermost error of ours in that text is the cause; its kind, place and hint are read back from it.
"""

from __future__ import annotations

import re
from pathlib import Path

from lakehouse_cdc import errors
from lakehouse_cdc.errors import CdcError, DefiniteError, TransientError

_OURS = re.compile(r"lakehouse_cdc\.errors\.(DefiniteError|ConfigError|TransientError): ([^\r\n]+)")
_LINE = re.compile(r"^(?P<what>.*?)(?: \[(?P<where>[^\]]*)\])?(?: Hint: (?P<hint>.*))?$")
_JAVA = re.compile(r"^(?:[\w.$]+(?:Exception|Error): )+")


def translate(error: BaseException, log: Path | None = None) -> CdcError:
    """The error of ours inside `error`, or a TransientError with Spark's own first line, and where its log lies."""
    if isinstance(error, CdcError):
        return error
    text = str(error)
    found = _OURS.findall(text)
    if found:
        kind, line = found[-1]
        match = _LINE.match(line.strip())
        assert match is not None  # every part of the pattern may be empty
        parts = {name: value or "" for name, value in match.groupdict().items()}
        made: CdcError = getattr(errors, kind)(parts["what"], where=parts["where"], hint=parts["hint"])
        return made
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    first = _JAVA.sub("", first)
    hint = f"the whole of it stands in {log}" if log is not None else "run again with --verbose for the whole trace"
    kind_of_failure = DefiniteError if "DELTA_" in first else TransientError
    return kind_of_failure(f"Spark failed: {first[:500]}", hint=hint)
