"""Rows that count their own versions, so that nobody else's count is needed to know what bronze must hold.

Each row of `counters` is inserted with n = 1, and each change of it adds one. So of a row that the source has with n
there were the versions 1 to n, and no others. A version that is lost leaves a hole in what bronze has of the row, one
that came twice is there twice, and one that was rolled back or invented is too many. A row that a snapshot read has,
instead of all versions before, the one that was read.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

CREATE = "CREATE TABLE counters (id INT NOT NULL PRIMARY KEY, n INT NOT NULL)"
_ADD = "INSERT INTO counters VALUES (%s, 1) ON DUPLICATE KEY UPDATE n = n + 1"


def count(cursor: Any, rng: random.Random, rows: int) -> None:
    """Change up to five rows of so many in one transaction, some of them more than once. Autocommit is off."""
    for _ in range(rng.randint(1, 5)):
        cursor.execute(_ADD, [rng.randrange(rows)])
    cursor.connection.commit() if rng.random() < 0.9 else cursor.connection.rollback()


def misfits(found: Iterable[tuple[str, int, int]], source: Mapping[int, int]) -> list[str]:
    """What is wrong with the (op, id, n) that bronze has of the rows, of which the source has {id: n} now."""
    versions: dict[int, list[int]] = {}
    read: dict[int, list[int]] = {}
    wrong = []
    for op, id_, n in found:
        versions.setdefault(id_, []).append(n)
        if op == "r":
            read.setdefault(id_, []).append(n)
    for id_ in sorted(versions.keys() | source.keys()):
        first = min(read.get(id_, [1]))
        expected = list(range(first, source.get(id_, 0) + 1))
        if len(read.get(id_, [])) > 1 or sorted(versions.get(id_, [])) != expected:
            wrong.append(f"{id_}: read {read.get(id_)}, in all {sorted(versions.get(id_, []))}, and not {expected}")
    return wrong
