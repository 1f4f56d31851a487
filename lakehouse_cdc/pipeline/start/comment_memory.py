"""Which comments of the source silver's tables were given: a file of JSON beside the checkpoints.

Without it, all tables that have comments on the source are looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from lakehouse_cdc.source.state.state_store import write_whole

NAME = "silver_comments"
Remembered = Mapping[str, str]  # column of the source -> the digest of its comment


class Memory:
    """What silver's tables were given, by source table: a file of JSON beside the checkpoints."""

    def __init__(self, state: Path) -> None:
        self._path = state / NAME
        self._given: dict[str, Remembered] = {}
        if self._path.exists():
            self._given = json.loads(self._path.read_text(encoding="utf-8"))

    def of(self, name: str) -> Remembered:
        """What the silver table of `name` was given."""
        return self._given.get(name, {})

    def note(self, name: str, given: Remembered) -> None:
        """That is what it was given."""
        if given != self.of(name):
            self._given[name] = given
            write_whole(self._path, json.dumps(self._given, sort_keys=True, ensure_ascii=False))
