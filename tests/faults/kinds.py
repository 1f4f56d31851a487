"""What a kind of fault is: it is there for the time of a block, and gone after it.

A kind raises `Missed` where there was nothing that it could hit (no connection to cut, no statement to end): it is not
counted then. So a count is of faults that something ran into.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pymysql

    from lakehouse_cdc.testing import MySqlServer
    from tests.faults.lake import Disk
    from tests.faults.supervised import Supervised
    from tests.faults.writers import Writers
    from tests.support.relay import Relay


class Missed(Exception):
    """There was nothing to hit."""


@dataclass
class World:
    """What faults are made in. `admin` is a connection as root past the relay; `user` is who reads the source."""

    server: MySqlServer
    relay: Relay
    rng: random.Random
    writers: Writers
    admin: pymysql.Connection[Any]
    user: str = "cdc"
    run: Supervised | None = None
    disk: Disk | None = None

    def ask(self, sql: str, *args: object) -> list[tuple[Any, ...]]:
        """All rows of a statement, as root."""
        with self.admin.cursor() as cursor:
            cursor.execute(sql, args)
            return list(cursor.fetchall())

    @property
    def process(self) -> Supervised:
        """The pipeline's process."""
        assert self.run is not None
        return self.run

    @property
    def lake(self) -> Disk:
        """The file system that the lake is on."""
        assert self.disk is not None
        return self.disk


@dataclass(frozen=True)
class Kind:
    """`seconds`: how long it lasts, at least and at most. `weight`: how often it is drawn, beside the others."""

    name: str
    fault: Callable[[World], AbstractContextManager[None]]
    seconds: tuple[float, float]
    weight: int = 1


def kind(
    name: str, seconds: tuple[float, float], weight: int = 1
) -> Callable[[Callable[[World], Iterator[None]]], Kind]:
    """Makes one of a function that yields while the fault is there."""
    return lambda body: Kind(name, contextmanager(body), seconds, weight)


@dataclass
class Tally:
    """How many faults of each kind were made, and how many had nothing to hit."""

    made: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)

    def inject(self, one: Kind, world: World, during: Callable[[float], object]) -> bool:
        """One fault, which is there while `during(seconds)` lasts; whether it hit anything."""
        low, high = one.seconds
        try:
            with one.fault(world):
                during(world.rng.uniform(low, high))
        except Missed:
            self.missed[one.name] += 1
            return False
        self.made[one.name] += 1
        return True

    def table(self, kinds: Sequence[Kind]) -> str:
        """For people, a line for each kind."""
        lines = [f"{one.name:45} {self.made[one.name]:5} {self.missed[one.name]:7}" for one in kinds]
        return "\n".join([f"{'kind of fault':45} {'made':>5} {'missed':>7}", *lines, f"{self.made.total():51}"])


def draw(kinds: Sequence[Kind], rng: random.Random) -> Kind:
    """One of them, by their weights."""
    return rng.choices(kinds, [one.weight for one in kinds])[0]
