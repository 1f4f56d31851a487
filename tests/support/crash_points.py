"""Crashes at commits: what is raised at a failpoint of `lake.failpoints`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.failpoints import Door, Hook, Moment, install


class Crash(Exception):
    """What a test throws into a batch."""


@contextmanager
def hooked(hook: Hook) -> Iterator[None]:
    """Every commit calls the hook."""
    install(hook)
    try:
        yield
    finally:
        install(None)


@contextmanager
def failing_at(
    door: Door,
    moment: Moment,
    name: str,
    *,
    number: int = 1,
    error: Callable[[str], Exception] = codes.INVARIANT_BROKEN.error,
) -> Iterator[None]:
    """The commit of that number to the table (or file) `name` fails, before or after it is made."""
    met = 0

    def hook(at: Door, when: Moment, of: str) -> None:
        nonlocal met
        if (at, when, of) == (door, moment, name):
            met += 1
            if met == number:
                raise error(f"crash {when.value}: {at.value}: {of}")

    with hooked(hook):
        yield
    assert met >= number, f"{name} has {met} times reached {moment.value}: {door.value}"


@contextmanager
def failing_at_random(rng: random.Random, probability: float) -> Iterator[None]:
    """Any commit may come to nothing by a crash, or be the last before one."""

    def hook(door: Door, moment: Moment, name: str) -> None:
        if rng.random() < probability:
            raise Crash(f"{moment.value}: {door.value}: {name}")

    with hooked(hook):
        yield


@dataclass
class Counted:
    """The failpoints that were reached, in order; the one of number `fails` raises."""

    fails: int | None = None
    reached: list[tuple[Door, Moment, str]] = field(default_factory=list)

    def __call__(self, door: Door, moment: Moment, name: str) -> None:
        self.reached.append((door, moment, name))
        if len(self.reached) - 1 == self.fails:
            raise Crash(f"{moment.value}: {door.value}: {name}")
