"""Named failpoints: before and after each commit of a table or a topic, and each file that stands for one.

Purpose: tests let the process fail, or look, at exactly the moment between two commits. All commits are made by few
functions (their doors), and each door is a failpoint, so a commit that is added later is covered, too. In production no
hook is installed, and a door costs two comparisons.

A door also asks whether this process may still commit, where somebody has to know that (`guarded_by`).

Invariant: nothing else commits. `tests/lake/test_failpoints.py` finds code that goes around the doors, and checks that
a run of the pipeline reaches each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum


class Door(str, Enum):
    """What makes commits."""

    CREATE = "a table is created"
    WRITE = "Spark writes rows"
    ADD = "files that were written beside Spark are added"
    MERGE = "a MERGE"
    STATEMENT = "a statement changes columns, properties or values"
    FILE = "a file beside the checkpoint is written"
    TOPIC = "a topic of Kafka is created"
    RECORDS = "records are committed to Kafka"


class Moment(str, Enum):
    """Before the commit, or after it."""

    BEFORE = "before"
    AFTER = "after"


Hook = Callable[[Door, Moment, str], None]
_hook: Hook | None = None
_guards: list[Callable[[], None]] = []


def install(hook: Hook | None) -> None:
    """Call `hook(door, moment, name)` at each failpoint of this process; `name` is of the table, file, topic or sink.

    What it raises keeps a commit from being made, or comes after it was made. None takes the hook out. For tests.
    """
    global _hook
    _hook = hook


@contextmanager
def guarded_by(check: Callable[[], None]) -> Iterator[None]:
    """Within the block `check` is called before each commit of this process, which is not made if it raises."""
    _guards.append(check)
    try:
        yield
    finally:
        _guards.remove(check)


@contextmanager
def commit_to(door: Door, name: str) -> Iterator[None]:
    """The body makes one commit."""
    for check in tuple(_guards):
        check()
    if _hook is not None:
        _hook(door, Moment.BEFORE, name)
    yield
    if _hook is not None:
        _hook(door, Moment.AFTER, name)
