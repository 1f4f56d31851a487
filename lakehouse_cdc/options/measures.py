"""Times and sizes, which people write with their unit: `10s`, `32MB`.

A unit of size is a power of 1024, as in the settings of MySQL and of Spark. A number without a unit is of seconds or of
bytes, which the names of the options say (`idle_seconds`, `chunk_bytes`).
"""

from __future__ import annotations

from typing import Any

from lakehouse_cdc.options.kinds import Integer, Invalid, JsonSchema, Number, Text

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_POWERS = {"K": 10, "M": 20, "G": 30}
_SIZE = Text(rf"[1-9][0-9]{{0,5}}[{''.join(_POWERS)}]i?B", "a size with its unit, such as 512KB, 32MB or 1GB")


class Duration(Text):
    """A time above zero with its unit, `500ms`, `1s`, `2m` or `1h`; the value stays as it was written."""

    def __init__(self) -> None:
        pattern = rf"(?=[0-9.]*[1-9])[0-9]{{1,6}}(\.[0-9]{{1,3}})?({'|'.join(_SECONDS)})"
        super().__init__(pattern, "a time above zero with its unit, such as 500ms, 1s, 2m or 1h", "time with its unit")


def seconds(duration: str) -> float:
    """How many seconds a value of `Duration` is."""
    number = duration.rstrip("".join(_SECONDS))
    return float(number) * _SECONDS[duration.removeprefix(number)]


class Seconds(Number):
    """A number of seconds above zero, or a time with its unit."""

    def __init__(self) -> None:
        super().__init__(title="seconds, or a time with its unit")

    def check(self, value: Any) -> float:
        if not isinstance(value, str):
            return super().check(value)
        try:
            return seconds(Duration().check(value))
        except Invalid:
            raise Invalid("expected a number of seconds, or a time with its unit, such as 500ms, 10s or 2m") from None

    def of_text(self, text: str) -> float:
        try:
            return super().of_text(text)
        except Invalid:
            return self.check(text)

    def json_schema(self) -> JsonSchema:
        return {"anyOf": [super().json_schema(), Duration().json_schema()]}


class Bytes(Integer):
    """A whole number of bytes above zero, or a size with its unit."""

    def __init__(self) -> None:
        super().__init__(title="bytes, or a size with its unit")

    def check(self, value: Any) -> int:
        if not isinstance(value, str):
            return super().check(value)
        try:
            text = _SIZE.check(value).removesuffix("B").removesuffix("i")
        except Invalid:
            raise Invalid(f"expected a whole number of bytes, or {_SIZE.expected}") from None
        return int(text[:-1]) << _POWERS[text[-1]]

    def of_text(self, text: str) -> int:
        try:
            return super().of_text(text)
        except Invalid:
            return self.check(text)

    def json_schema(self) -> JsonSchema:
        return {"anyOf": [super().json_schema(), _SIZE.json_schema()]}
