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

_ANSWERS = {
    TRUNCATED: (codes.BINLOG_DAMAGED, "a binlog event is cut off, or its length is impossible"),
    WRONG_POSITION: (codes.BINLOG_DAMAGED, "a binlog event does not end where its header says"),
    MISPLACED: (
        codes.BINLOG_EVENT_MISPLACED,
        "a binlog event is where none of its type can be",
    ),
    NO_MAP: (
        codes.BINLOG_EVENT_MISPLACED,
        "the binlog holds rows without a table map in their transaction",
    ),
    MALFORMED: (codes.BINLOG_DAMAGED, "a binlog event is malformed"),
    NOT_ONE: (
        codes.BINLOG_DAMAGED,
        "a compressed transaction holds something else than one whole transaction",
    ),
}
_INCIDENT = 26


def stopped(answer: int, kind: int, where: str) -> DefiniteError:
    """The error for an answer of the kernel at an event of type `kind`."""
    code, what = _ANSWERS[answer]
    return code.error(f"{what} (type {kind})", where=where)


def refuse_type(kind: int, where: str) -> DefiniteError:
    """The error for an event of a type that must not be passed over."""
    if kind == _INCIDENT:
        what = "the server logged an INCIDENT: changes may be missing from its binlog"
        return codes.BINLOG_INCIDENT.error(what, where=where)
    owner = "MariaDB's " if 160 <= kind <= 180 else ""
    return codes.BINLOG_EVENT_UNKNOWN.error(
        f"the binlog holds an event of {owner}type {kind}, which is not known",
        where=where,
    )
