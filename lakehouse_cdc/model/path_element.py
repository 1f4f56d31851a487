"""Names as elements of a path, which file systems limit to 255 bytes.

A name of MySQL's has up to 64 characters, of up to three bytes each, and nine where these are escaped as in a URL. What
does not fit is cut, and a digest of all of it takes the place of the rest; so two names still do not meet.
"""

from __future__ import annotations

import hashlib

_MOST = 255  # bytes
_DIGEST = 32  # hexadecimal digits


def fitted(element: str) -> str:
    """The element itself where it fits; else its first part and a digest. An escape (%41) is kept whole, or goes."""
    whole = element.encode()
    if len(whole) <= _MOST:
        return element
    begin = whole[: _MOST - _DIGEST - 1].decode("utf-8", "ignore")
    escape = begin.rfind("%", len(begin) - 2)
    digest = hashlib.sha256(whole).hexdigest()[:_DIGEST]
    return f"{begin if escape < 0 else begin[:escape]}-{digest}"
