"""From Spark's many-lined exceptions to the one line that says what happened.

An error that is raised in a planner, a task or a foreachBatch crosses two processes and comes back as text inside a
Java exception. The innermost error of ours in that text is the cause; its kind, place and hint are read back from it.
"""

from __future__ import annotations

import re
from pathlib import Path

from lakehouse_cdc.errors import CdcError, Code, codes
from lakehouse_cdc.errors.tree import REGISTRY

_OURS = re.compile(r"CDC-(\d{4}) \w+: ([^\r\n]+)")
_LINE = re.compile(r"^(?P<what>.*?)(?: \[(?P<where>[^\]]*)\])?(?: Hint: (?P<hint>.*))?$")
_JAVA = re.compile(r"^(?:[\w.$]+(?:Exception|Error): )+")


def translate(error: BaseException, log: Path | None = None) -> CdcError:
    """The error of ours inside `error`, or a TransientError with Spark's own first line, and where its log lies."""
    if isinstance(error, CdcError):
        return error
    text = str(error)
    found = _OURS.findall(text)
    if found:
        number, line = found[-1]
        match = _LINE.match(line.strip())
        assert match is not None  # every part of the pattern may be empty
        parts = {name: value or "" for name, value in match.groupdict().items()}
        return REGISTRY[int(number)].error(parts["what"], where=parts["where"], hint=parts["hint"])
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    first = _JAVA.sub("", first)
    hint = f"the whole of it stands in {log}" if log is not None else "run again with --verbose for the whole trace"
    code: Code[CdcError] = codes.DELTA_FAILED if "DELTA_" in first else codes.SPARK_FAILED
    return code.error(f"Spark failed: {first[:500]}", hint=hint)
