"""Where the words of libraries go: into the pipeline's log, so that the console is for the user.

Spark's Python side logs whole traces of calls that end because the streams are being stopped.
"""

from __future__ import annotations

import logging
from io import TextIOWrapper
from pathlib import Path


def log_to(path: Path) -> None:
    """Send this process's warnings and errors to a file, which is made with the first of them.

    It stays so until the process ends or the next call: threads of Spark's client speak last.
    """
    root = logging.getLogger()
    for handler in [h for h in root.handlers if isinstance(h, _LogFile)]:
        root.removeHandler(handler)
        handler.close()
    added = _LogFile(path, encoding="utf-8", delay=True)
    added.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    added.setLevel(logging.WARNING)
    root.addHandler(added)


class _LogFile(logging.FileHandler):
    """Makes the file's folder, too."""

    def _open(self) -> TextIOWrapper:
        Path(self.baseFilename).parent.mkdir(parents=True, exist_ok=True)
        return super()._open()
