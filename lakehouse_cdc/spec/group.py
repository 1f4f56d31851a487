"""A replication group as a random model: a primary that takes writes, and replicas that apply them later.

Some replicas apply in another order what is of other keys, and servers purge a part of their log. The primary may be
lost, with what nobody has applied. `spec.failover` is the model of a stream over such a group.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

TABLES = ("t", "u")
KEYS = range(4)


class Write(NamedTuple):
    """A change of one key; `after` None: the row is deleted."""

    table: str
    key: int
    after: int | None


@dataclass(frozen=True)
class Transaction:
    """Writes; or a statement on a table, with no row: `alter`, or `break`, which it cannot be followed after."""

    gtid: int
    writes: tuple[Write, ...] = ()
    ddl: Literal["", "alter", "break"] = ""
    table: str = ""


@dataclass(eq=False)  # each is itself
class Server:
    """All that it executed. Its log begins after `begins` of that, and a SELECT sees the first `visible`.

    A place is a number of transactions; `shift` makes a position of it, another one on each server.
    """

    shift: int = 0
    begins: int = 0
    visible: int = 0
    history: list[Transaction] = field(default_factory=list)

    def gtids(self, place: int) -> frozenset[int]:
        return frozenset(one.gtid for one in self.history[:place])

    def rows(self, table: str, place: int) -> dict[int, int]:
        """The table after so many transactions."""
        writes = [w for one in self.history[:place] for w in one.writes if w.table == table]
        return {key: value for key, value in {w.key: w.after for w in writes}.items() if value is not None}


class Group:
    """Three servers; `at` is the one that a stream finds."""

    def __init__(self, rng: random.Random) -> None:
        self.random = rng
        self.servers = [Server(shift=self.random.choice([0, 3, 50])) for _ in range(3)]
        self.primary = self.at = self.servers[0]
        self._number = 0

    def pass_time(self) -> None:
        """Let transactions be committed, applied and become visible."""
        for _ in range(self.random.randrange(5)):
            server = self.random.choice(self.servers)
            if server is self.primary and self.random.random() < 0.6:
                self._commit()
            elif server.visible < len(server.history):
                server.visible += 1
            elif server is not self.primary:
                self._apply(server)

    def _commit(self) -> None:
        self._number += 1
        server, table, chance = self.primary, self.random.choice(TABLES), self.random.random()
        if chance < 0.2:  # its lock shows that all before it is visible
            server.history.append(Transaction(self._number, ddl="alter" if chance < 0.12 else "break", table=table))
            server.visible = len(server.history)
            return
        writes = []
        for key in self.random.sample(KEYS, self.random.choice([1, 1, 2])):
            after = None if self.random.random() < 0.4 else self._number
            writes.append(Write(table, key, after))
        server.history.append(Transaction(self._number, tuple(writes)))

    def _apply(self, server: Server) -> None:
        done = server.gtids(len(server.history))
        left = [one for one in self.primary.history if one.gtid not in done]
        if len(left) > 1 and self.random.random() < 0.08 and not _depend(*left[:2]):
            left[:2] = left[1::-1]
        if left:
            server.history.append(left[0])
            if left[0].ddl:
                server.visible = len(server.history)

    def fail_over(self) -> None:
        """Another server is there from now on; the primary may be lost."""
        others = [one for one in self.servers if one is not self.at]
        if not others or self.random.random() < 0.6:
            return
        self.at = self.random.choice(others)
        if self.at is not self.primary and self.random.random() < 0.4:
            self.servers.remove(self.primary)
            self.primary = self.at
            there = self.primary.gtids(len(self.primary.history))
            # one with more than that cannot be a replica of it
            self.servers = [one for one in self.servers if one.gtids(len(one.history)) <= there]
        if self.at.begins < self.at.visible and self.random.random() < 0.2:
            self.at.begins = self.random.randint(self.at.begins, self.at.visible)


def _depend(first: Transaction, second: Transaction) -> bool:
    if first.ddl or second.ddl:
        return True
    return bool({(w.table, w.key) for w in first.writes} & {(w.table, w.key) for w in second.writes})
