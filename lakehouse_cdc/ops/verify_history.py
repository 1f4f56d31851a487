"""What `verify` found, over time: a line of JSON for each, in a file beside the checkpoints, for metrics and reports.

The last thousand are kept. No values and no keys of rows are in it. It is for people alone: nothing is decided by it,
and where it cannot be written, that is logged.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import asdict

from lakehouse_cdc.lake.files.choice import Location, files_at
from lakehouse_cdc.lake.files.port import FAILURES
from lakehouse_cdc.model.verification import Verification

NAME = "verified.jsonl"
_MOST = 1_000
_EVERY = 30.0  # seconds between two looks whether another process has verified
_log = logging.getLogger(__name__)


def note(place: Location, one: Verification) -> None:
    """Add it."""
    files = files_at(place)
    try:
        kept = (files.read(NAME) or "").splitlines()
        files.write(NAME, "".join(f"{line}\n" for line in [*kept[1 - _MOST :], json.dumps(asdict(one))]))
    except FAILURES as error:
        _log.warning("cannot write %s/%s, so metrics and reports will not show this: %s", files.where, NAME, error)


def read(place: Location) -> list[Verification]:
    """All that is kept, oldest first; a line that is none is left out."""
    try:
        text = files_at(place).read(NAME) or ""
    except FAILURES:
        return []
    kept = []
    for line in text.splitlines():
        try:
            kept.append(Verification(**json.loads(line)))
        except (ValueError, TypeError):  # noqa: PERF203  of another release
            continue
    return kept


class VerifyWatch:
    """Looks for what other processes verify, during a run."""

    def __init__(self, place: Location, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._place, self._clock = place, clock
        self._looked, self._seen = -float("inf"), 0.0

    def tick(self) -> list[Verification]:
        """The last one of each layer, where there is a new one; it is looked for now and then only."""
        now = self._clock()
        if now - self._looked < _EVERY:
            return []
        self._looked = now
        last = {one.layer: one for one in read(self._place) if one.at > self._seen}
        self._seen = max([self._seen, *(one.at for one in last.values())])
        return [*last.values()]
