"""Under which settings silver's tables were looked at last, and nothing was left to be done: a file beside checkpoints.

To look at each table takes time, so it is not done again under the same settings. Without the file, or with an older
one, all tables are looked at.
"""

from __future__ import annotations

from hashlib import sha256

from lakehouse_cdc.lake.files.choice import Location, files_at
from lakehouse_cdc.pipeline.config.model import PipelineConfig

NAME = "silver_settings"


class LastLook:
    """That of the pipeline of `config`, whose checkpoints are in the place `state`."""

    def __init__(self, state: Location, config: PipelineConfig) -> None:
        self._files = files_at(state)
        self._digest = sha256(repr((config.target, config.tables)).encode()).hexdigest()

    @property
    def is_of_now(self) -> bool:
        """Whether the settings were those of now."""
        return self._files.read(NAME) == self._digest

    def note(self) -> None:
        """The tables have been looked at under the settings of now."""
        self._files.write(NAME, self._digest)

    def forget(self) -> None:
        """Have them looked at again."""
        self._files.delete(NAME)
