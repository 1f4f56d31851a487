"""Where the words of libraries go: into the pipeline's log, so that the console is for the user.

Spark's Python side logs whole traces of calls that end because the streams are being stopped.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from lakehouse_cdc.telemetry import batch_log


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
    """Makes the file's folder, too.

    What cannot be written, as on a full disk, is left out: the library would raise what the file could not be opened
    for, in the middle of what the record is about, and print a trace on the console for each later one.
    """

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def _open(self) -> TextIOWrapper:
        Path(self.baseFilename).parent.mkdir(parents=True, exist_ok=True)
        return super()._open()


@contextmanager
def json_lines(stream: TextIO) -> Iterator[None]:
    """Within the block each batch, and each warning of this package, is a line of JSON on the stream."""
    ours, before = logging.getLogger(__package__.partition(".")[0]), batch_log.log.level
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_JsonLine())
    handler.addFilter(lambda record: record.levelno >= logging.WARNING or hasattr(record, batch_log.FIELDS))
    ours.addHandler(handler)
    batch_log.log.setLevel(logging.INFO)
    try:
        yield
    finally:
        ours.removeHandler(handler)
        batch_log.log.setLevel(before)


class _JsonLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] | None = getattr(record, batch_log.FIELDS, None)
        if fields is None:
            time = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
            fields = {"time": time, "logger": record.name, "message": record.getMessage()}
            if record.exc_info:
                fields["trace"] = self.formatException(record.exc_info)
        event = "batch" if hasattr(record, batch_log.FIELDS) else "log"
        return json.dumps({"event": event, "level": record.levelname, **fields}, default=str)
