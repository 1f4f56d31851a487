"""Errors across Spark, as data.

Purpose: an error that is raised in a planner, a task, a foreachBatch or a SQL expression reaches the driver as text
inside a Java exception. So its text ends with a mark and its JSON there (`CdcError.as_json`), and `decoded` reads the
same error back: code, what, where, hint, table and position.

Why it holds: whatever is put around or after the JSON, the mark says where it begins and JSON itself where it ends. It
is one line of ASCII, and no character in it is one that Spark's message templates replace (<, >, $); the mark's own %
is escaped inside, so a text of the user that holds a mark is not taken for one. A JSON that was cut off, or whose code
this release does not know, is not an error of ours: the caller reports Spark's text instead.
Tests: tests/errors/test_codec.py (any text), tests/errors/test_across_spark.py (a planner, a task, a foreachBatch).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from lakehouse_cdc.errors.tree import REGISTRY, CdcError

MARK = "%cdc-error%"
_ESCAPED = str.maketrans({char: f"\\u{ord(char):04x}" for char in "%<>$"})  # none of them is part of JSON's own syntax


def encoded(error: CdcError) -> str:
    """The mark and the error."""
    return MARK + json.dumps(error.as_json()).translate(_ESCAPED)


def decoded(text: str) -> CdcError | None:
    """The last error in `text`, which is the innermost of Java's causes and of Python's; None if there is none."""
    decoder, error = json.JSONDecoder(), None
    at = text.find(MARK)
    while at >= 0:
        at += len(MARK)
        try:
            data, _ = decoder.raw_decode(text, at)
            code = REGISTRY[int(data["code"].removeprefix("CDC-"))]
            error = code.error(
                data["error"], where=data["where"], hint=data["hint"], table=data["table"], position=data["position"]
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            pass
        at = text.find(MARK, at)
    return error


@contextmanager
def crossing() -> Iterator[None]:
    """Around all that Spark calls: an error of ours that leaves it has its data in its text."""
    try:
        yield
    except CdcError as error:
        error.trailer = f" {encoded(error)}"
        raise
