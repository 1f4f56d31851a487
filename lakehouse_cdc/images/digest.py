"""Which code the compiled kernels are of: without numba, so that who only asks need not import it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from lakehouse_cdc.model import variant


def _digest() -> str:
    sources = [Path(variant.__file__), *sorted(Path(__file__).parent.rglob("*.py"))]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]


DIGEST = _digest()
