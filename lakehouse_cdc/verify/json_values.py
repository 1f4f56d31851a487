"""JSON texts as values, exactly: what the server printed against what a VARIANT of silver holds.

Both texts are brought to one canonical form by Python's own parser; neither the loader's kernels nor Spark's
`parse_json`, which made the VARIANT, has a part in that. Two numbers are equal if they are equal as real numbers, to
the last digit: 1.0 is 1, and 0.1 is not 0.10000000000000001. The order of an object's fields, white space and the
spelling of escapes do not count, nor does the sign of a zero.

A VARIANT holds a number as a decimal of at most 38 digits, 38 of them after the point, or as a double, and Spark
takes one that is written with an exponent for a double. What neither holds exactly has no place in silver: `of_source`
then gives the value that is nearest, which silver should have instead, and says that it is not the source's. The same
holds for a name that an object has twice, and for half of a surrogate pair.

A double that a VARIANT prints with an exponent is read as a double, for Java before 19 may print more digits than are
needed (JDK-4511638).
"""

from __future__ import annotations

import json
import math
from decimal import Context, Decimal
from typing import Any, NamedTuple

_SURE = 18  # characters of a whole number that is surely a decimal of Spark's
MAX_DIGITS = 38  # of a decimal, and of its scale
_LONGEST_INTEGER = 400  # digits up to which a whole number is one of Python's
_EXACT = Context(prec=100_000)


class Canonical(NamedTuple):
    """A document's canonical form, and whether a VARIANT holds the document exactly."""

    text: str
    representable: bool


def of_source(text: str) -> Canonical:
    """The canonical form of what a VARIANT can hold of a document that the source printed. Raises ValueError."""
    return _Reading(from_variant=False).read(text)


def of_variant(text: str) -> str:
    """The canonical form of a VARIANT that Spark's `to_json` printed. Raises ValueError."""
    return _Reading(from_variant=True).read(text).text


class _Reading:
    def __init__(self, *, from_variant: bool) -> None:
        self._from_variant = from_variant
        self._representable = True
        self._decimals: list[str] = []

    def read(self, text: str) -> Canonical:
        value = json.loads(
            text, parse_int=self._whole, parse_float=self._number, parse_constant=float, object_pairs_hook=self._object
        )
        canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), default=self._decimal)
        if "\\ud" in canonical and not self._from_variant:
            try:
                text.encode()
                json.dumps(value, ensure_ascii=False, default=str).encode()
            except UnicodeEncodeError:  # half of a surrogate pair
                self._representable = False
        # the decimals, which JSON has no form for, follow in the order of their places
        return Canonical("\n".join([canonical, *self._decimals]), self._representable)

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            self._representable = False
        return members

    def _whole(self, token: str) -> Any:
        return int(token) if len(token) <= _SURE else self._number(token)

    def _number(self, token: str) -> Any:
        nearest = float(token)
        if repr(nearest) == token:  # as most are printed
            return _simple(nearest)
        exact = Decimal(token)
        if "e" in token or "E" in token:
            if not self._from_variant and exact != Decimal(repr(nearest)):
                self._representable = False
            return _simple(nearest)
        if not self._from_variant and not _is_held(token, exact):
            self._representable = self._representable and exact == Decimal(repr(nearest))
            return _simple(nearest)
        return _canonical(exact)

    def _decimal(self, value: Any) -> str:
        assert isinstance(value, Decimal), value
        self._decimals.append(str(value))
        return "decimal"


def _is_held(token: str, exact: Decimal) -> bool:
    """Whether Spark makes a decimal of a number that is written without an exponent."""
    _, digits, exponent = exact.as_tuple()
    assert isinstance(exponent, int), token
    return len(digits) <= MAX_DIGITS and -exponent <= MAX_DIGITS


def _simple(value: float) -> Any:
    """A double as the canonical form has it; beyond the greatest one, the text that Spark prints for infinity."""
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value.is_integer():
        return _canonical(Decimal(repr(value)))
    return value


def _canonical(value: Decimal) -> Any:
    """An int where the number is whole, a float where its shortest text is the number, else a Decimal."""
    if value == value.to_integral_value(context=_EXACT):
        if value.adjusted() < _LONGEST_INTEGER:
            return int(value)
    elif Decimal(repr(nearest := float(value))) == value:
        return nearest
    return value.normalize(_EXACT)
