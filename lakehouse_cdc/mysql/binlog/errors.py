"""Why a scan stops, in words: one error for each answer of the kernel, and for each event type that is not read."""

from __future__ import annotations

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.images.binlog.words import (
    MALFORMED,
    MISPLACED,
    NO_MAP,
    NOT_ONE,
    TRUNCATED,
    WRONG_POSITION,
)

_DAMAGED = "the binlog or its transport is damaged: check the file with mysqlbinlog, then read it again"
_ANSWERS = {
    TRUNCATED: (codes.BINLOG_DAMAGED, "a binlog event is cut off, or its length is impossible", _DAMAGED),
    WRONG_POSITION: (codes.BINLOG_DAMAGED, "a binlog event does not end where its header says", _DAMAGED),
    MISPLACED: (
        codes.BINLOG_EVENT_MISPLACED,
        "a binlog event is where none of its type can be",
        "start at a transaction's begin; if this is one, the binlog is not one that is understood",
    ),
    NO_MAP: (
        codes.BINLOG_EVENT_MISPLACED,
        "the binlog holds rows without a table map in their transaction",
        "start at a transaction's begin",
    ),
    MALFORMED: (codes.BINLOG_DAMAGED, "a binlog event is malformed", _DAMAGED),
    NOT_ONE: (
        codes.BINLOG_DAMAGED,
        "a compressed transaction holds something else than one whole transaction",
        _DAMAGED,
    ),
}
_TYPES = {
    26: (
        "the server logged an INCIDENT: changes may be missing from its binlog",
        "its error log says which; FLUSH BINARY LOGS, then begin again with a fresh checkpoint and fresh tables",
    ),
}


def stopped(answer: int, kind: int, where: str) -> DefiniteError:
    """The error for an answer of the kernel at an event of type `kind`."""
    code, what, hint = _ANSWERS[answer]
    return code.error(f"{what} (type {kind})", where=where, hint=hint)


def refuse_type(kind: int, where: str) -> DefiniteError:
    """The error for an event of a type that must not be passed over."""
    if kind in _TYPES:
        what, hint = _TYPES[kind]
        return codes.BINLOG_INCIDENT.error(what, where=where, hint=hint)
    owner = "MariaDB's " if 160 <= kind <= 180 else ""
    return codes.BINLOG_EVENT_UNKNOWN.error(
        f"the binlog holds an event of {owner}type {kind}, which is not known",
        where=where,
        hint="this version reads MySQL 5.7 to 9.7 and MariaDB 10.5 to 11.8; nothing after this event can be read",
    )
