"""What a table may have, and where it may lie, so that deltalake reads and writes it: as far as that has been tried."""

from __future__ import annotations

import re

from lakehouse_cdc.model.place import is_url

BARE = frozenset({"appendOnly", "invariants", "timestampNtz"})  # features of Delta's protocol
# of tables to which it adds files that others wrote: it need not know what is in them
EXTENSIBLE = BARE | {"changeDataFeed", "variantType"}
# in other paths some characters are decoded like those of a URL, and some end in a panic
_PATH = re.compile(r"/[\w/., +=@~-]*")
_URL = re.compile(r"(?:s3a|abfss?)://[A-Za-z0-9_/.=@-]*")
_OPENABLE = re.compile(r"/[^%\\]*")  # a path with these is decoded once more than it was encoded


def is_plain_path(path: str) -> bool:
    """Whether deltalake takes the path of a folder of this machine, or a URL, for just that."""
    return (_URL if is_url(path) else _PATH).fullmatch(path) is not None


def is_openable_path(path: str) -> bool:
    """Whether deltalake opens a table in the folder of this machine, given its address (`file:`), to read it.

    Of a URL, whether it takes that for just what it is.
    """
    if is_url(path):
        return is_plain_path(path)
    return _OPENABLE.fullmatch(path) is not None and path.isprintable()
