"""The steps that take a silver table through a change of its schema, each one commit; and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Phase(IntEnum):
    """How far a change has come, as the table says; BEFORE: it has not begun."""

    BEFORE = 0
    PARTING = 1
    JOINING = 2


@dataclass(frozen=True)
class Enter:
    """Say that a phase begins; everything older than the change has been applied."""

    phase: Phase


@dataclass(frozen=True)
class RenameColumn:
    """Moves no data."""

    name: str
    to: str


@dataclass(frozen=True)
class AddColumn:
    """NULL in every row; after the column `after`, or first."""

    name: str
    type: str
    after: str | None


@dataclass(frozen=True)
class Fill:
    """What rows hold in new columns where they have NULL: (name, type, value as text) of each."""

    columns: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class DropColumn:
    """A column whose name is needed, or that is not to be kept. Moves no data."""

    name: str


@dataclass(frozen=True)
class Widen:
    """A type that Delta reads old files by."""

    name: str
    type: str


@dataclass(frozen=True)
class Recast:
    """A column whose values are carried over where both types say the same, else NULL."""

    name: str
    held: str
    type: str


@dataclass(frozen=True)
class TakeOver:
    """What new columns hold of those that they were: (name, the other one) of each."""

    columns: tuple[tuple[str, Recast], ...]


@dataclass(frozen=True)
class Compute:
    """Computed columns again, where what they are computed from has got other values; some get a wider type first."""

    wider: tuple[tuple[str, str], ...]
    expressions: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Rewrite:
    """All rows again, in one commit. `key` are the new key's columns that stay as they are."""

    columns: tuple[Recast, ...]
    key: tuple[str, ...]


@dataclass(frozen=True)
class Forget:
    """All tombstones, for a horizon: deletions of keys that had another shape."""


@dataclass(frozen=True)
class Unite:
    """Take rows away that met under one key."""


@dataclass(frozen=True)
class Cluster:
    """Files by these columns, from here on; by none, while others come and go: Delta drops no such column."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Count:
    """Digests of rows, and the numbers of those that are equal, which may be others now."""


@dataclass(frozen=True)
class Finish:
    """The table is of the new schema."""


@dataclass(frozen=True)
class Retake:
    """What every row of a frozen table holds in columns that follow another one: (name, type, text or NULL) of each."""

    columns: tuple[tuple[str, str, str | None], ...]


@dataclass(frozen=True)
class Stay:
    """The table is of the new schema, in the shape that it had; `frozen` is what it says of that."""

    frozen: str


Step = (
    Enter | RenameColumn | AddColumn | Fill | DropColumn | Widen | Rewrite | TakeOver | Forget | Unite | Finish
    | Retake | Stay | Compute | Cluster | Count
)  # fmt: skip
