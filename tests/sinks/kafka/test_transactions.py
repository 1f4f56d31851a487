"""Transactions end at the same rows whether rows come one by one or many at a time, and no other rows are left out."""

from __future__ import annotations

import random

from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.sinks.kafka.bronze_rows import Records
from lakehouse_cdc.sinks.kafka.transactions import Transactions
from tests.support.rounds import rounds

Sent = list[tuple[str, int]]  # ("row", seq) or ("end", rows so far)


def one_by_one(seqs: list[int], skip: int, most: int) -> tuple[Sent, int]:
    sent: Sent = []
    cut = Transactions(skip, most, lambda rows: sent.append(("end", rows)))
    for seq in seqs:
        if cut.take_row(seq):
            sent.append(("row", seq))
    return sent, cut.rows


def many_at_a_time(chosen: random.Random, seqs: list[int], skip: int, most: int) -> tuple[Sent, int]:
    """In pieces of any length, some of them single rows; of some rows there is more than one message."""
    sent: Sent = []
    cut, at = Transactions(skip, most, lambda rows: sent.append(("end", rows))), 0
    while at < len(seqs):
        if chosen.random() < 0.2:
            if cut.take_row(seqs[at]):
                sent.append(("row", seqs[at]))
            at += 1
            continue
        n = min(len(seqs) - at, chosen.randrange(1, 40))
        first = chosen.randrange(5)
        of = [first + i for i in range(n) for _ in range(chosen.choice((1, 1, 2)))]
        texts = [str(seqs[at + row - first]).encode() for row in of]
        for part in cut.take(Records(first, first + n, of, [""] * len(of), texts, texts, texts)):
            assert part.end > part.first
            sent += [("row", part.seq(row)) for row in range(part.first, part.end)]
        at += n
    return sent, cut.rows


def seqs_of(chosen: random.Random) -> list[int]:
    """Transactions of some rows, snapshots whose rows share a seq, and ends, in order."""
    seqs: list[int] = []
    for pos in range(chosen.randrange(12)):
        rank, n = chosen.choice(list(Rank)), chosen.choice((1, 1, 3, 30))
        seqs += [Seq(1, 1, pos, rank, i if rank is Rank.EVENT else 0).pack() for i in range(n)]
        if chosen.random() < 0.3:
            seqs += [Seq(1, 1, pos, Rank.END, 0).pack()]
    return sorted(seqs)


def test_they_end_at_the_same_rows(seed: int) -> None:
    chosen, ended = random.Random(seed), 0
    for _ in range(rounds(400)):
        seqs = seqs_of(chosen)
        skip, most = chosen.choice((0, 0, 1, 7, len(seqs))), chosen.choice((1, 2, 5, 50))
        sent, rows = one_by_one(seqs, min(skip, len(seqs)), most)
        assert many_at_a_time(chosen, seqs, min(skip, len(seqs)), most) == (sent, rows)
        assert [seq for kind, seq in sent if kind == "row"] == seqs[min(skip, len(seqs)) :]
        ended += sum(kind == "end" for kind, _ in sent)
    assert ended > 100


def test_a_transaction_of_the_source_is_not_cut() -> None:
    events = [Seq(1, 1, 9, Rank.EVENT, i).pack() for i in range(5)]
    reads = [Seq(1, 1, 9, Rank.READ, 0).pack()] * 4
    sent, _ = one_by_one([*events, *reads], 0, 2)
    assert [rows for kind, rows in sent if kind == "end"] == [5, 7]
