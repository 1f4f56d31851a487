"""Which comments of the source silver's tables were given: a file of JSON beside the checkpoints.

Without it, all tables that have comments on the source are looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from lakehouse_cdc.lake.files.choice import Location, files_at

NAME = "silver_comments"
Remembered = Mapping[str, str]  # column of the source -> the digest of its comment


class Memory:
    """What silver's tables were given, by source table: a file of JSON beside the checkpoints."""

    def __init__(self, state: Location) -> None:
        self._files = files_at(state)
        self._given: dict[str, Remembered] = json.loads(self._files.read(NAME) or "{}")

    def of(self, name: str) -> Remembered:
        """What the silver table of `name` was given."""
        return self._given.get(name, {})

    def note(self, name: str, given: Remembered) -> None:
        """That is what it was given."""
        if given != self.of(name):
            self._given[name] = given
            self._files.write(NAME, json.dumps(self._given, sort_keys=True, ensure_ascii=False))
