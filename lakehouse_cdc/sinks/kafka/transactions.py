"""Where the transactions of a sink end, and which rows a resumed part leaves out.

A row is counted in the order of its part. A transaction ends before a row where it has enough of them, and the row
before does not belong to the same transaction of the source. That is asked of each row of `Row`; of rows whose messages
tasks have made, only of those where it matters: the others are taken many at a time.

Guard: tests/sinks/kafka/test_transactions.py, in which both give the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator

from lakehouse_cdc.model.seq import POS, RANK, Rank, unpack
from lakehouse_cdc.sinks.kafka.bronze_rows import Records


class Transactions:
    """Of one part: `skip` rows are left out; one ends at about `most` rows by a call of `end` with the rows so far."""

    def __init__(self, skip: int, most: int, end: Callable[[int], None]) -> None:
        self._skip, self._most, self._end = skip, most, end
        self.rows = 0  # that were met
        self._sent = self._previous = 0  # rows of the open transaction, and the seq of the last one

    def take_row(self, seq: int) -> bool:
        """Count a row; whether it is to be sent."""
        self._end_before(seq)
        self.rows += 1
        if self.rows <= self._skip:
            return False
        self._sent, self._previous = self._sent + 1, seq
        return True

    def take(self, records: Records) -> Iterator[Records]:
        """Count rows; those that are to be sent, each part to be sent before the next is asked for."""
        at, end = records.first, records.end
        left_out = min(end - at, max(0, self._skip - self.rows))
        self.rows += left_out
        at += left_out
        while at < end:
            self._end_before(records.seq(at))
            if self._sent < self._most:
                until = min(end, at + self._most - self._sent)
            else:  # all of the source's transaction, for rows rise by seq
                after_it = self._previous // POS * POS + (Rank.EVENT + 1) * RANK
                until = bisect_left(range(end), after_it, at, key=records.seq)
            self.rows += until - at
            self._sent, self._previous = self._sent + until - at, records.seq(until - 1)
            yield records.part(at, until)
            at = until

    def _end_before(self, seq: int) -> None:
        if self._sent >= self._most and not in_one_transaction(self._previous, seq):
            self._end(self.rows)
            self._sent = 0


def in_one_transaction(one: int, other: int) -> bool:
    """Whether two rows belong to one transaction of the source; what a snapshot reads belongs to none."""
    return one // POS == other // POS and Rank.EVENT == unpack(one).rank == unpack(other).rank
