"""The features of a bare table: those of Delta's protocol with which deltalake is tried."""

from __future__ import annotations

BARE = frozenset({"appendOnly", "invariants", "timestampNtz"})
