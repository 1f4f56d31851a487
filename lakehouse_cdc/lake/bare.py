"""The features of a bare table: those of Delta's protocol with which deltalake is tried, as table features call them."""

from __future__ import annotations

BARE = frozenset({"appendOnly", "invariants", "timestampNtz"})
