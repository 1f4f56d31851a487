"""Which sources kernels are made of: all of this package, and the modules below it that have constants of theirs.

Guard: tests/images/ahead/test_sources.py, which looks up where each name in a kernel is from.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from lakehouse_cdc.model import variant
from lakehouse_cdc.schema import versioning

SOURCES = (
    *(Path(str(module.__file__)) for module in (variant, versioning)),
    *sorted(Path(__file__).parent.rglob("*.py")),
)


def _digest() -> str:
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in SOURCES)).hexdigest()[:16]


DIGEST = _digest()
