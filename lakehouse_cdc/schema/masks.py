"""Masks: what of a column's values is let through to bronze, as the user says it, and as a schema holds it.

- `null`: nothing; the column is always NULL, of its own type.
- `hash`: HMAC-SHA256 of the value's text under the user's secret salt, in 64 hexadecimal digits: equal values have
  equal hashes, in every column, table and pipeline with that salt, and nobody without it can try values out.
- `keep_first`, `keep_last`: so many characters of the value's text at its beginning and its end; each other one becomes
  `*`. A text that is not longer than what is to be kept is `*` throughout.

NULL stays NULL. The text of a value is: a text as bronze would hold it, in UTF-8; numbers, dates and times as the
server prints them (a DECIMAL with all digits of its scale, a TIMESTAMP in UTC, BIT as a number); a DOUBLE by the fewest
digits that give it back, as JSON prints it, a FLOAT as the DOUBLE that it is. Of binary values it is their bytes.

In a schema a mask is a text: `null`, `hash:` and the salt's fingerprint, or `keep:<first>:<last>`. So it is part of the
schema's content: other masks, and another salt, are another schema. The fingerprint is 32 bits of a HMAC under the
salt; who has it can try salts out, as can who has the hash of one known value: a salt must be random.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from typing import Any

from lakehouse_cdc.schema.table import Column
from lakehouse_cdc.schema.type_registry import AS_TEXT

NULL, HASH = "null", "hash"
LEAST_SALT = 16  # characters
LEAST_KEPT, MOST_KEPT = 1, (1 << 16) - 1  # characters
SIDES = ("keep_first", "keep_last")
_KEEP = "keep"
_EXPECTED = "expected null, hash, {keep_first: n} or {keep_last: n}"


def parsed(given: Any) -> str:
    """A mask as a schema holds it, but for the fingerprint, from what the user says. Raises ValueError."""
    if given is None or given in (NULL, HASH):
        return given or NULL
    if not isinstance(given, dict) or not given or not given.keys() <= {*SIDES}:
        raise ValueError(_EXPECTED)
    first, last = (given.get(side, 0) for side in SIDES)
    if not all(type(n) is int and 0 <= n <= MOST_KEPT for n in (first, last)) or not first + last:
        raise ValueError(f"{_EXPECTED}, n a number of characters above zero")
    return f"{_KEEP}:{first}:{last}"


def salted(mask: str, salt: str) -> str:
    """The same with the salt's fingerprint, where it is a hash."""
    return f"{HASH}:{fingerprint(salt)}" if mask == HASH else mask


def fingerprint(salt: str) -> str:
    """By what a salt is known again."""
    return hmac.new(salt.encode(), b"lakehouse_cdc: a salt's fingerprint", hashlib.sha256).hexdigest()[:8]


def gives_text(column: Column) -> bool:
    """Whether the column's values become texts by its mask."""
    return bool(column.mask) and column.mask != NULL


def hashed_under(mask: str) -> str | None:
    """The fingerprint of the salt that a mask hashes with; None for another mask."""
    kind, _, key = mask.partition(":")
    return key if kind == HASH else None


def kept(mask: str) -> tuple[int, int] | None:
    """How many characters a mask keeps at the beginning and at the end; None for another mask."""
    kind, *numbers = mask.split(":")
    return (int(numbers[0]), int(numbers[1])) if kind == _KEEP else None


def unmasked(column: Column) -> Column:
    """The column as its values are read before they are masked: those that become texts, as texts where they can be."""
    carried = "text" if gives_text(column) and column.type in AS_TEXT else column.carried
    return replace(column, mask="", carried=carried)
