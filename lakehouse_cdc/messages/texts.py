"""Values as pieces of JSON. Each is composed as text, so that no number passes through a double.

A piece is a function of a value that is not NULL. What a column holds is said by `schema.types.mapped`. Those that
`columnwise` knows by name are written a column at a time, too; the ones here say what is written.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

from lakehouse_cdc.schema.masks import gives_text
from lakehouse_cdc.schema.table import Column
from lakehouse_cdc.schema.type_registry import Kind
from lakehouse_cdc.schema.types import require

Piece = Callable[[Any], str]
quoted: Piece = encode_basestring
_EPOCH = datetime(1970, 1, 1)
_FIRST_DAY = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)


def source_type(column: Column) -> str:
    """The type that decides how its values are written; "text" of one that is carried as text, or masked."""
    return "text" if column.carried == "text" or gives_text(column) else column.type


def may_be_null(column: Column) -> bool:
    """Whether images may have NULL there, which masks and dates that no calendar has become."""
    return column.nullable or column.carried == "null" or bool(column.mask)


def kind_of(column: Column, table: str) -> Kind:
    """How its values come in images."""
    return require(column, table).kind


def base64(value: bytes) -> str:
    """The bytes in base64, in quotes."""
    return f'"{b64encode(value).decode()}"'


def number(value: Any) -> str:
    """An integer or a decimal, all its digits; no exponent."""
    return format(value, "f") if isinstance(value, Decimal) else str(int(value))


def truth(value: Any) -> str:
    """true or false."""
    return "true" if value else "false"


def single(value: float) -> str:
    """The shortest number that is the same in 32 bits."""
    import numpy as np

    return str(np.float32(value))


def floats(value: Iterable[float]) -> str:
    """A VECTOR as a list of such."""
    return f"[{','.join(map(single, value))}]"


def iso_date(value: date) -> str:
    """yyyy-mm-dd, without quotes."""
    return value.isoformat()


def moment(value: datetime, fraction: int, between: str, zone: str = "") -> str:
    """A date and a time with `fraction` digits of a second, without quotes; one with a zone is in UTC as it is."""
    text = value.replace(tzinfo=None).isoformat(between, "microseconds")
    return text[: 20 + fraction if fraction else 19] + zone


@dataclass(frozen=True)
class Moments:
    """The piece of such moments, in quotes."""

    fraction: int
    between: str
    zone: str = ""

    def __call__(self, value: datetime) -> str:
        return f'"{moment(value, self.fraction, self.between, self.zone)}"'


def days(value: date) -> str:
    """Days since 1970."""
    return str(value.toordinal() - _FIRST_DAY)


def millis(value: datetime) -> str:
    """Milliseconds since 1970; what is below one is cut off."""
    return str(micros_since_1970(value) // 1000)


def micros(value: datetime) -> str:
    """Microseconds since 1970."""
    return str(micros_since_1970(value))


def micros_since_1970(value: datetime) -> int:
    """As if it were in UTC, where it has no zone."""
    return (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND


def row_object(pieces: Mapping[str, Piece], image: Mapping[str, Any]) -> str:
    """A JSON object with the columns that the image has, in the order of `pieces`."""
    return f"{{{','.join(members(pieces, image))}}}"


def members(pieces: Mapping[str, Piece], image: Mapping[str, Any]) -> list[str]:
    """The same, each member by itself."""
    return [
        f"{quoted(name)}:{'null' if (value := image[name]) is None else piece(value)}"
        for name, piece in pieces.items()
        if name in image
    ]


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The values before, of the columns whose values differ; 0.0 and -0.0 do."""
    return {name: value for name, value in before.items() if name not in after or _differ(value, after[name])}


def _differ(one: Any, other: Any) -> bool:
    return bool(one != other) or (one == 0 and str(one) != str(other))
