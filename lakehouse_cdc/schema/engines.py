"""The storage engines: by which rule a table of one is read as of a position, or why it is not captured. Declared once.

InnoDB keeps versions of rows, and shows a transaction after it was logged; `source.settling.settled_position` has the
rule. The engines of `LOCKED` lock a whole table for each statement, which leaves less to prove: see
`source.settling.table_locks`. Of all others no such argument is known, or their rows are not in the binlog at all.
"""

from __future__ import annotations

INNODB, MEMORY, CSV, MERGE = "InnoDB", "MEMORY", "CSV", "MRG_MYISAM"
LOCKED = ("MyISAM", "Aria", MEMORY, CSV)
_ALIASES = {"heap": MEMORY, "merge": MERGE, "ndb": "ndbcluster"}
_ELSEWHERE = "whose rows are on another server"
_REASONS = {
    "archive": "which shows rows before they are in the binlog",
    "blackhole": "which keeps no rows",
    "mrg_myisam": "whose rows are those of other tables",
    "sequence": "which computes its rows",
    "federated": _ELSEWHERE,
    "spider": _ELSEWHERE,
    "ndbcluster": "whose rows other servers change, too",
    "connect": "whose rows change without an entry in the binlog",
    "s3": "whose rows change without an entry in the binlog",
}
_UNKNOWN = "of which it is not proven when its rows are visible"
NOT_OPENED = "cannot be opened by the server, which names no engine for it (SHOW CREATE TABLE says why)"
_BY_NAME = {name.lower(): name for name in (INNODB, *LOCKED)}


def canonical(name: str) -> str:
    """The engine as catalogs write it, by any of its names; one that is not known as it is given.

    Of MRG_MYISAM servers write MRG_MyISAM, too.
    """
    name = _ALIASES.get(name.lower(), name)
    return _BY_NAME.get(name.lower(), name.upper() if name.lower() in _REASONS else name)


def not_captured(engine: str | None) -> str | None:
    """Why no table of that engine is captured ("has the engine X, ..."); None for one whose tables are.

    `engine` is that of the catalog, which is NULL for a table that cannot be opened.
    """
    if engine is None:
        return NOT_OPENED
    name = canonical(engine)
    if name in _BY_NAME.values():
        return None
    return f"has the engine {name}, {_REASONS.get(name.lower(), _UNKNOWN)}"
