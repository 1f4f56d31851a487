"""Under which settings silver's tables were looked at last, and nothing was left to be done: a file beside checkpoints.

To look at each table takes time, so it is not done again under the same settings. Without the file, or with an older
one, all tables are looked at.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.source.state.state_store import write_whole

NAME = "silver_settings"


class LastLook:
    """That of the pipeline of `config`, whose checkpoints are in the folder `state`."""

    def __init__(self, state: Path, config: PipelineConfig) -> None:
        self._path = state / NAME
        self._digest = sha256(repr((config.target, config.tables)).encode()).hexdigest()

    @property
    def is_of_now(self) -> bool:
        """Whether the settings were those of now."""
        return self._path.exists() and self._path.read_text(encoding="utf-8") == self._digest

    def note(self) -> None:
        """The tables have been looked at under the settings of now."""
        write_whole(self._path, self._digest)

    def forget(self) -> None:
        """Have them looked at again."""
        self._path.unlink(missing_ok=True)
