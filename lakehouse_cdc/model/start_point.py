"""Where in the log a stream without snapshots begins, as the option `start` says it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Literal

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.gtid import GtidSet
from lakehouse_cdc.model.position import Position

StartKind = Literal["now", "earliest", "time", "position", "gtid"]
StartValue = str | dict[str, str]  # as the file has it
WORDS: tuple[StartKind, ...] = ("now", "earliest")
TIME = (
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[T ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"
    r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
)
PLACES: Mapping[StartKind, tuple[str, str]] = {  # the pattern of each text, and what is expected
    "time": (TIME, "a time with its zone, such as 2026-01-31T12:00:00+00:00"),
    "position": (r"[^:]+\.[0-9]+:[0-9]{1,18}", "FILE:POS, such as binlog.000042:1234"),
    "gtid": (r"[0-9A-Za-z_:,\-\s]+", "a GTID set, such as 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-42, or 0-1-42"),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_FRACTION = re.compile(r"\.([0-9]+)")  # before Python 3.11 it must have six digits


@dataclass(frozen=True)
class StartPoint:
    """One of these: the end of the log, the oldest event, a time, a position, or what a GTID set holds already."""

    kind: StartKind
    text: str = ""

    @classmethod
    def of(cls, value: StartValue) -> StartPoint:
        """What a value of the option means. Raises ConfigError where a text is a time or a set that is none."""
        if isinstance(value, str):
            return cls("now" if value == "now" else "earliest")
        [(name, text)] = value.items()
        kind = next(kind for kind in PLACES if kind == name)
        point = cls(kind, text)
        try:
            point._require_sense()
        except (ValueError, DefiniteError):
            raise codes.OPTION_INVALID.error(
                f"option 'start' cannot be '{text}'", hint=f"expected {PLACES[kind][1]}"
            ) from None
        return point

    def _require_sense(self) -> None:
        """Raise ValueError or DefiniteError for a text of the right form that means nothing."""
        if self.kind == "time":
            self.micros  # noqa: B018
        elif self.kind == "gtid":
            self.gtids  # noqa: B018

    @property
    def micros(self) -> int:
        """The time, in microseconds since 1970. Raises ValueError for a day that no month has."""
        text = _FRACTION.sub(lambda digits: f".{digits[1]:0<6}", self.text.replace("Z", "+00:00"))
        return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)

    @property
    def position(self) -> Position:
        """The position."""
        return Position.parse(self.text)

    @property
    def gtids(self) -> GtidSet:
        """The GTID set. Raises DefiniteError for what is none."""
        return GtidSet.parse(self.text)

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}" if self.text else self.kind


NOW = StartPoint("now")


def option_text(value: StartValue) -> str:
    """A value as the text of the source's option."""
    return value if isinstance(value, str) else json.dumps(value)
