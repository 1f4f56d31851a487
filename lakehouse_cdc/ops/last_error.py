"""The error that ended the last run, in a file beside the checkpoints, so that `status` can say why nothing moves.

Invariant: the file is there exactly if the last run ended by an error, or waits for one to pass, and no later one has
got further than that. A run removes it when it ends well, or as soon as each of its streams has completed a trigger:
then whatever stopped the last one is over. `since` is when the same error, of the same place, stopped a run for the
first time.

It is for people alone: nothing is decided by it, and a run that cannot write it fails by its own error.

Guards: tests/pipeline/test_last_error.py.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.lake.files.choice import Location, files_at
from lakehouse_cdc.lake.files.port import FAILURES, Files

_NAME = "last_error.json"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LastError:
    """An error, as `CdcError.as_json` has it; `since` and `at` are the first and the last time in UTC, ISO 8601.

    `tries`: how often a run that waits for it to pass has failed, 0 where none waits; `until`: when it stops waiting.
    """

    since: str
    at: str
    error: dict[str, str]
    tries: int = 0
    until: str = ""

    @property
    def sentence(self) -> str:
        """What a person reads."""
        error = self.error
        where = f" [{error['where']}]" if error["where"] else ""
        return f"{error['code']} {error['name']}: {error['error']}{where}"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    def is_the_same(self, error: dict[str, str]) -> bool:
        """Whether `error` has the same cause, as far as its code and its place say."""
        return all(self.error[part] == error[part] for part in ("code", "where", "table"))


def read(place: Location) -> LastError | None:
    """The error that ended the last run of the pipeline whose checkpoints are in `place`."""
    return _read(files_at(place))


def _read(files: Files) -> LastError | None:
    text = files.read(_NAME)
    return None if text is None else LastError(**json.loads(text))


class Record:
    """The file of one pipeline, for the run that holds it."""

    def __init__(self, place: Location) -> None:
        self._files = files_at(place)

    def over(self) -> None:
        """All streams work."""
        try:
            self._files.delete(_NAME)
        except FAILURES as failure:
            _log.warning("cannot delete %s, so `status` still shows an error that is over: %s", self._name, failure)

    def waits(self, error: CdcError, tries: int, until: datetime) -> None:
        """The run waits for an error to pass, after so many tries; until then there will be others."""
        self._write(error, tries, until.isoformat(timespec="seconds"))

    def ends(self, error: CdcError) -> None:
        """The error ends the run. Not kept before the first batch, and while another process runs the pipeline."""
        try:
            begun = error.code is not codes.TABLES_LOCKED and self._files.is_there
        except FAILURES as failure:
            _log.warning("cannot read %s, so `status` will not show this error: %s", self._files.where, failure)
            return
        if begun:
            self._write(error)

    @property
    def _name(self) -> str:
        return f"{self._files.where}/{_NAME}"

    def _write(self, error: CdcError, tries: int = 0, until: str = "") -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        try:
            before, data = _read(self._files), error.as_json()
            since = before.since if before is not None and before.is_the_same(data) else now
            self._files.write(_NAME, json.dumps(LastError(since, now, data, tries, until).to_json()))
        except FAILURES as failure:
            _log.warning("cannot write %s, so `status` will not show this error: %s", self._name, failure)


@contextmanager
def recorded(place: Location) -> Iterator[Record]:
    """Keep the error that ends the block, none if it ends well."""
    record = Record(place)
    try:
        yield record
    except CdcError as error:
        record.ends(error)
        raise
    record.over()
