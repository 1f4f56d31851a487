"""A random model of a stream that moves between servers of a group, and of tables that are left and taken up again.

    python -m lakehouse_cdc.spec.failover [--runs N] [--without GUARD]

Purpose: which rules of failover and of quarantine cannot be done without. `spec.interleaving` has one server and one
table; here are the servers of `spec.group`, and two tables. Before any step the stream may find another server: between
two batches, or between the plan of one and its execution.

Invariant, checked after each batch, where bronze is folded in the order of seq:

1. a table is the source's at W, for the keys that have been read for sure; all of it, after a repeated pass has ended;
2. a table that is quarantined is what it was where it was left, until it is read again;
3. no transaction's change of a key is emitted twice, and a replay on the same server emits the same rows.

A server on which that cannot be is refused; a run in which all are refused ends, and that is no breach.
`source.planning.server_change`, `model.log_place` and `model.state_machine` say why it holds. Each guard here can be
taken out, and then a run fails: `tests/spec/test_failover.py`.

Of DDL there are statements that change no row, and statements after which their table cannot be followed. Of XA,
gaps, and tables without a key there is nothing.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

from lakehouse_cdc.spec.group import KEYS, TABLES, Group, Server
from lakehouse_cdc.spec.interleaving import command_line

Guard = Literal[
    "place", "contained", "purged", "order", "epoch", "claimed", "settled", "taken-back", "confirmed", "bound",
    "left-at", "silent", "from-the-beginning", "end-of-pass", "since",
]  # fmt: skip
"""Rules that can be left out.

- `place`: a stream continues where the other log holds what bronze holds, not at the same position.
- `contained`: a server that lacks a transaction of bronze's is refused.
- `purged`: one that has purged a transaction that bronze lacks is refused.
- `order`: one that logged a transaction that bronze lacks before one of bronze's is refused.
- `epoch`: on another server the next epoch begins, so that later rows have later seqs.
- `claimed`: the epoch in which a batch was executed elsewhere is never continued in, nor an earlier one.
- `settled`: on another server all is visible up to the place before rows are read.
- `taken-back`: reads that are not confirmed when the server changes are made again.
- `confirmed`: reads of which the next batch finds that they met DDL are made again.
- `bound`: what such reads may have emitted is followed, though it is read again.
- `left-at`: a batch ends at the statement after which a table cannot be followed.
- `silent`: no event of a quarantined table passes.
- `from-the-beginning`: a table that is taken up again is read from its first key on.
- `end-of-pass`: when it has been read again, what is older goes.
- `since`: but for what was read or changed since that reading began.
"""

DONE = len(KEYS)
STEPS = 16

Seq = tuple[int, int, int, int]  # epoch, position, rank, ordinal
EVENT, READ, END = 0, 2, 3


class Table(NamedTuple):
    """Keys below `cursor` have been read, those below `confirmed` for sure; events pass below `bound`.

    `since` is the seq of the pass; `left`: quarantined.
    """

    cursor: int = 0
    confirmed: int = 0
    bound: int = 0
    since: Seq = (0, 0, 0, 0)
    left: bool = False

    def put_back(self, without: Guard | None) -> Table:
        bound = self.bound if without != "bound" else self.confirmed
        return self._replace(cursor=self.confirmed, bound=bound)


@dataclass(frozen=True)
class Offset:
    epoch: int
    server: Server
    place: int
    floor: int
    tables: Mapping[str, Table]

    @property
    def position(self) -> int:
        return self.server.shift + self.place


class Row(NamedTuple):
    """The rank in `seq` is its kind; an END deletes what is older than `older` of its table."""

    seq: Seq
    table: str
    key: int
    value: int | None
    gtid: int = 0
    older: Seq | None = None


class NoPlace(Exception):
    """No place on this server is the offset's."""


class Model:
    """One run: the group, and one stream with its checkpoint and bronze."""

    def __init__(self, seed: int, without: Guard | None) -> None:
        self.random, self.without = random.Random(seed), without
        self.group = Group(self.random)
        self._claims: dict[tuple[int, Server], int] = {}
        self.last_epoch = 1
        self.bronze: list[Row] = []
        self._frozen: dict[str, dict[int, int]] = {}

    @property
    def at(self) -> Server:
        """The server that the stream finds."""
        return self.group.at

    # ------------------------------------------------------------------ another server

    def _place(self, held: frozenset[int]) -> int:
        server = self.at
        place = server.begins
        if not server.gtids(place) <= held and self.without != "purged":
            raise NoPlace
        while place < len(server.history) and server.history[place].gtid in held:
            place += 1
        lacking = held - server.gtids(len(server.history))
        late = held - lacking - server.gtids(place)
        if (lacking and self.without != "contained") or (late and self.without != "order"):
            raise NoPlace
        return place

    def _located(self, offset: Offset, epoch: int) -> Offset:
        if offset.server is self.at:
            return replace(offset, epoch=epoch)
        place = self._place(offset.server.gtids(offset.place))
        if self.without == "place":
            place = max(self.at.begins, min(offset.position - self.at.shift, len(self.at.history)))
        return Offset(epoch, self.at, place, place, offset.tables)

    def moved(self, start: Offset) -> Offset:
        """`start` on the server that is there; itself where nothing has changed."""
        claimed = self.last_epoch > start.epoch and self.without != "claimed"
        if start.server is self.at and not claimed:
            return start
        epoch = max(start.epoch, self.last_epoch if self.without != "claimed" else 0) + (self.without != "epoch")
        end = self._located(start, epoch)
        self.last_epoch = max(self.last_epoch, epoch)
        if self.without != "settled":
            self.at.visible = max(self.at.visible, end.place)  # waited for
        taken = {
            name: state.put_back(self.without)
            if self.without != "taken-back"
            else state._replace(confirmed=state.cursor)
            for name, state in end.tables.items()
        }
        return replace(end, tables=taken)

    # ------------------------------------------------------------------ plan and execution

    def plan(self, start: Offset) -> Offset:
        """The end of the next batch, on the server of its start."""
        server, tip = self.at, len(self.at.history)
        logged = [(n + 1, one) for n, one in enumerate(server.history[start.place : tip], start.place) if one.ddl]
        stops = [n for n, one in logged if self.without != "left-at" or one.ddl != "break"]
        end = stops[0] if stops else tip
        crossed = {one.table for _, one in logged} if self.without != "confirmed" else set()
        tables = {}
        for name, state in start.tables.items():
            if name in crossed and state.confirmed < state.cursor:
                state = state.put_back(self.without)
            else:
                state = state._replace(confirmed=state.cursor)
            if any(one.ddl == "break" and one.table == name for n, one in logged if n <= end):
                state = state._replace(left=True)
            elif not logged and state.left and self.random.random() < 0.5:
                state = self._taken_up(state, (start.epoch, server.shift + end))
            elif not logged and not state.left and state.cursor < DONE:
                to = min(DONE, state.cursor + self.random.randrange(3))
                state = state._replace(cursor=to, bound=max(to, state.bound))
            tables[name] = state
        floor = max(start.floor, min(self.random.randint(0, server.visible), end))
        return Offset(start.epoch, server, end, floor, tables)

    def _taken_up(self, state: Table, at: tuple[int, int]) -> Table:
        since = (*at, READ, state.since[3] + 1)
        if self.without == "from-the-beginning":
            return state._replace(cursor=state.confirmed, left=False, since=since)
        return Table(since=since)

    def rows(self, start: Offset, end: Offset) -> list[Row]:
        """What an execution of the batch emits, on the server that is there."""
        elsewhere = end.server is not self.at
        if elsewhere:
            epoch = self._claims.setdefault((end.epoch, self.at), self.last_epoch + 1)
            self.last_epoch = max(self.last_epoch, epoch)
            start, end = self._located(start, epoch), self._located(end, epoch)
        rows = list(self._events(start, end))
        for name, state in end.tables.items():
            before = start.tables[name]
            same = before.since == state.since
            low = before.cursor if same else 0
            if not elsewhere and low < state.cursor and not state.left:
                rows += self._chunk(name, low, state, end)
            ends = same and before.cursor == DONE > before.confirmed and state.confirmed == DONE and not state.left
            if ends and state.since[0] and self.without != "end-of-pass":
                seq = (end.epoch, end.position, END, state.since[3])
                rows.append(Row(seq, name, -1, None, older=state.since if self.without != "since" else seq))
        return rows

    def _events(self, start: Offset, end: Offset) -> Iterator[Row]:
        for place in range(start.place, end.place):
            one = self.at.history[place]
            for ordinal, write in enumerate(one.writes):
                state = start.tables[write.table]
                if write.key < state.bound and (not state.left or self.without == "silent"):
                    seq = (end.epoch, self.at.shift + place + 1, EVENT, ordinal)
                    yield Row(seq, write.table, write.key, write.after, one.gtid)

    def _chunk(self, name: str, low: int, state: Table, end: Offset) -> list[Row]:
        """The keys in [low, cursor) as they were at the end; nothing, where DDL of the table comes after it."""
        server = self.at
        self.group.pass_time()
        seen = server.visible
        self.group.pass_time()
        if any(one.table == name for one in server.history[end.place :]):
            return []
        read = server.rows(name, seen)
        # what the window says, `spec.interleaving` shows; here it ends at W, and is right if it begins at the floor
        changed = {w.key for one in server.history[end.floor :] for w in one.writes if w.table == name}
        then = server.rows(name, end.place)
        seq = (end.epoch, end.position, READ, state.since[3])
        values = {key: then.get(key) if key in changed else read.get(key) for key in range(low, state.cursor)}
        return [Row(seq, name, key, value) for key, value in values.items() if value is not None]

    # ------------------------------------------------------------------ what must be

    def breach(self, start: Offset, end: Offset) -> str | None:
        """What is wrong with bronze after the batch."""
        events = [(row.gtid, row.table, row.key) for row in self.bronze if row.gtid]
        if len(events) != len(set(events)):
            return "a change is there twice"
        for name, state in end.tables.items():
            source = end.server.rows(name, end.place)
            if state.left and not start.tables[name].left:
                left_at = next(
                    n + 1
                    for n, one in enumerate(end.server.history[: end.place])
                    if one.ddl == "break" and one.table == name and n >= start.place
                )
                self._frozen[name] = end.server.rows(name, left_at)
            expected = self._frozen[name] if state.left else source
            whole = state.confirmed == DONE
            rows = self._fold(name, (0, 0, 0, 0) if whole else state.since)
            rows = {key: value for key, value in rows.items() if whole or key < state.confirmed}
            expected = {key: value for key, value in expected.items() if key < state.confirmed}
            if rows != expected:
                return f"{name} is {rows}, the source {expected}"
        return None

    def _fold(self, table: str, since: Seq) -> dict[int, int]:
        """The table by its rows from a seq on."""
        last: dict[int, Row] = {}
        for row in sorted((r for r in self.bronze if r.table == table and r.seq >= since), key=lambda r: r.seq):
            if row.older is not None:
                older = row.older
                last = {key: one for key, one in last.items() if one.seq >= older}
            else:
                last[row.key] = row
        return {key: row.value for key, row in last.items() if row.value is not None}


def _same(rows: list[Row], others: list[Row]) -> bool:
    """Whether two executions say the same; the reads of a table may be none, where they met DDL."""
    for kind in (EVENT, END):
        if [row for row in rows if row.seq[2] == kind] != [row for row in others if row.seq[2] == kind]:
            return False
    for name in TABLES:
        one, other = ([row for row in each if row.table == name and row.seq[2] == READ] for each in (rows, others))
        if one and other and one != other:
            return False
    return True


def run(seed: int, without: Guard | None = None) -> str | None:
    """One random run of some batches. The first breach of the invariant in words, or None."""
    model = Model(seed, without)
    model.group.pass_time()
    place = model.at.visible = len(model.at.history)
    offset = Offset(1, model.at, place, place, {name: Table() for name in TABLES})
    planned: tuple[Offset, Offset] | None = None
    for number in range(STEPS):
        model.group.pass_time()
        model.group.fail_over()
        try:
            if planned is None:
                offset = model.moved(offset)
                planned = offset, model.plan(offset)
                if model.random.random() < 0.3:
                    continue  # a crash: what is planned is executed, whichever server is there then
            start, end = planned
            rows = model.rows(start, end)
            if not _same(rows, model.rows(start, end)):
                return f"seed {seed}: a replay in step {number} differs"
        except NoPlace:
            continue  # the next server, or this one when it has applied more
        model.bronze += rows
        if (breach := model.breach(start, end)) is not None:
            return f"seed {seed}: after step {number} {breach}"
        offset, planned = end, None
    return None


if __name__ == "__main__":
    sys.exit(command_line(run, get_args(Guard), "Random runs of failover and quarantine."))
