"""Which DDL a batch may pass: a batch is then several stretches of the log, each of which ends at such a statement.

Purpose: a backlog with 300 ALTERs is one batch, not 300 of which each costs a commit of bronze and one of silver.

Invariant: a batch of stretches emits just the rows that a batch for each of them would.

Why it holds. The end of a batch names the ends of its stretches (`Offset.between`), each of which is the offset that
the batch would have ended at. The rows of a stretch are a function of the two offsets around it, so they are planned as
those of a batch are (`split_plan.plan`). A batch is committed as a whole, and sinks take its rows in the order of seq.
What remains is what is known from the end of a batch alone, and is not known of a stretch:

- the commit's note says which tables are being read, and the offset which are quarantined. So both are the same at each
  end but the last: a batch ends where a table is to be read again, or is left.
- `set_aside` sees by the start of a batch that a table has been quarantined. So a table that was not captured there is
  not taken up before the last stretch.
- chunks move at the end of a batch alone, when all of the log has been read: in the last stretch.

Guards: tests/source/test_stretches.py compares a batch of stretches with batches of one each, row by row.
"""

from __future__ import annotations

from lakehouse_cdc.model.offset import Offset

MOST = 256  # of one batch


def may_pass(start: Offset, end: Offset, passed: int) -> bool:
    """Whether a batch from `start` may continue after `end`, after which it would have `passed` statements.

    Not beyond a file of the log, of which the length is not known here.
    """
    return (
        bool(end.ddl)
        and passed < MOST
        and end.position.number == start.position.number
        and end.reading == start.reading
        and end.quarantined == start.quarantined
        and all(name in start.captured for name in end.captured if name in start.tables)
    )
