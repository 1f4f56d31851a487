"""What a table may have, and where it may lie, so that deltalake reads and writes it: as far as that has been tried."""

from __future__ import annotations

import re

BARE = frozenset({"appendOnly", "invariants", "timestampNtz"})  # features of Delta's protocol
# in other paths some characters are decoded like those of a URL, and some end in a panic
_PATH = re.compile(r"/[\w/., +=@~-]*")


def is_plain_path(path: str) -> bool:
    """Whether deltalake takes the path of a folder of this machine for just that."""
    return _PATH.fullmatch(path) is not None
