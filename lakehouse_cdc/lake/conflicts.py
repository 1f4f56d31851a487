"""Which failures mean that somebody else's commit came first, so that the same may be done again."""

from __future__ import annotations

import re

# Delta's error classes, and its exceptions where those are not said
_CONFLICT = re.compile(
    r"DELTA_CONCURRENT_|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|Concurrent\w+Exception|MetadataChangedException"
)


def is_conflict(error: BaseException) -> bool:
    """Whether Delta refused a commit because of another that was made meanwhile; then it has changed nothing."""
    return _CONFLICT.search(f"{type(error).__name__}: {error}") is not None
