"""The place where a stream continues in another server's log, against all places of random logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from lakehouse_cdc.model.gtid import GtidSet
from lakehouse_cdc.model.log_place import Held, Logged, OutOfOrder, Place, Purged, Unnamed, place_of
from lakehouse_cdc.model.position import Position
from tests.model.test_gtid import A, B, members

Gtid = tuple[str, int]


@dataclass(frozen=True)
class File:
    """One of a random log."""

    begin: Position
    before: GtidSet
    logged: Sequence[Logged]

    def header(self) -> tuple[Position, GtidSet]:
        return self.begin, self.before

    def transactions(self) -> Iterable[Logged]:
        return self.logged


def set_of(gtids: Iterable[Gtid], *, through: bool = False) -> GtidSet:
    """`through`: as MariaDB names them, each with all of its server before it."""
    out = GtidSet()
    for source, number in gtids:
        out = out.union(GtidSet({source: [(1 if through else number, number + 1)]}))
    return out


def log_of(gtids: Sequence[Gtid], cuts: Iterable[int], *, purged: int = 0, through: bool = False) -> list[File]:
    """The log in files that begin at `cuts`, without the first `purged` files."""
    begins = [0, *sorted(set(cuts))]
    files = []
    for number, (first, end) in enumerate(zip(begins, [*begins[1:], len(gtids)], strict=True), start=1):
        name = f"binlog.{number:06d}"
        logged = [Logged(Position(name, 200 + 100 * i), *gtid) for i, gtid in enumerate(gtids[first:end])]
        files.append(File(Position(name, 120), set_of(gtids[:first], through=through), logged))
    return files[min(purged, len(files) - 1) :]


def places(files: Sequence[File], unlogged: GtidSet) -> dict[Position, GtidSet]:
    """Every place between two transactions, with all that is before it."""
    out = {}
    for file in files:
        so_far = file.before.union(unlogged)
        out[file.begin] = so_far
        for end, source, number in file.logged:
            so_far = so_far.add(source, number)
            out[end] = so_far
    return out


@st.composite
def moves(draw: st.DrawFn) -> tuple[list[File], GtidSet, GtidSet]:
    """A log, what its server never logged, and what is held: mostly what is before some place, else something near."""
    every = [(source, number) for source in (A, B) for number in range(1, 7)]
    order = draw(st.permutations(every))
    split = draw(st.integers(0, 4))
    unlogged, gtids = set_of(order[:split]), order[split:]
    files = log_of(gtids, draw(st.lists(st.integers(0, len(gtids)), max_size=3)), purged=draw(st.integers(0, 2)))
    held = set_of(gtids[: draw(st.integers(0, len(gtids)))]).union(unlogged)
    for gtid in draw(st.lists(st.sampled_from(every), max_size=2)):
        one = set_of([gtid])
        held = held.minus(one) if held.contains(one) else held.union(one)
    return files, unlogged, held


@given(moves())
def test_a_place_holds_just_what_is_held_or_there_is_none(move: tuple[list[File], GtidSet, GtidSet]) -> None:
    files, unlogged, held = move
    every = places(files, unlogged)
    right = {position for position, gtids in every.items() if gtids == held}
    got = place_of(Held(held), files, unlogged)
    event(type(got).__name__)
    if isinstance(got, Place):
        assert got.position in right
        assert got.gtids == held
        rest = [(one.source, one.number) for file in files for one in file.logged if one.end > got.position]
        assert members(held) | set(rest) == members(max(every.items())[1])  # all of the rest, and no more
        assert members(held).isdisjoint(rest)
    else:
        assert not right
    if isinstance(got, Purged):
        assert got.gtids == files[0].before.union(unlogged).minus(held) != GtidSet()
    if isinstance(got, OutOfOrder):
        assert held.contains(got.late)
        assert bool(got.first) == bool(members(max(every.items())[1]) - members(held)), "the log ends, or one is before"


def test_a_transaction_without_a_gtid_is_not_passed() -> None:
    [file] = log_of([(A, 1), ("", 0), (A, 2)], [])
    assert place_of(Held(set_of([(A, 1)])), [file], GtidSet()) == Unnamed(Position("binlog.000001", 300))
    [file] = log_of([(A, 1), (A, 2), ("", 0)], [])
    assert isinstance(place_of(Held(set_of([(A, 1)])), [file], GtidSet()), Place)


# ---------------------------------------------------------------------- MariaDB


@st.composite
def domains(draw: st.DrawFn) -> list[Gtid]:
    """A log of two domains, in which numbers only rise; any server commits."""
    out, number = [], {"0": 0, "7": 0}
    for _ in range(draw(st.integers(0, 14))):
        domain = draw(st.sampled_from("07"))
        number[domain] += draw(st.integers(1, 2))
        out.append((f"{domain}-{draw(st.integers(1, 3))}", number[domain]))
    return out


@given(domains(), st.data())
def test_of_domains_the_last_gtid_is_enough(gtids: list[Gtid], data: st.DataObject) -> None:
    """A server that was set up from a backup does not name those that committed before, and neither do we."""
    at = data.draw(st.integers(0, len(gtids)))
    backup = data.draw(st.integers(0, at))
    cuts = data.draw(st.lists(st.integers(0, len(gtids) - backup), max_size=3))
    files = log_of(gtids[backup:], cuts, through=True)
    if {domain for domain, _ in (s.split("-") for s, _ in gtids[:backup])} - {
        s.split("-")[0] for s, _ in gtids[backup:at]
    }:
        return  # of a domain nothing was logged since the backup: the server cannot say that it has it
    got = place_of(Held(set_of(gtids[:at], through=True), by_domain=True), files, GtidSet())
    assert isinstance(got, Place)
    after = [(one.source, one.number) for file in files for one in file.logged if one.end > got.position]
    assert after == gtids[at:]


@given(domains(), st.data())
def test_a_set_by_servers_is_one_place_at_most(gtids: list[Gtid], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(gtids)))
    files = log_of(gtids, data.draw(st.lists(st.integers(0, len(gtids)), max_size=3)), through=True)
    held = set_of(gtids[:at], through=True)
    got = place_of(Held(held), files, GtidSet())
    assert isinstance(got, Place)
    assert got.gtids == held
    assert [one for file in files for one in file.logged if one.end > got.position][:1] == [
        one for file in files for one in file.logged
    ][at : at + 1]


@pytest.mark.parametrize("by_domain", [False, True])
def test_a_write_on_a_replica_with_a_number_of_the_primary(by_domain: bool) -> None:
    """`0-2-3` is another transaction than `0-1-3`."""
    files = log_of([("0-1", 1), ("0-1", 2), ("0-2", 3)], [], through=True)
    held = Held(set_of([("0-1", 3)], through=True), by_domain=by_domain)
    got = place_of(held, files, GtidSet())
    assert isinstance(got, OutOfOrder)
    assert str(got.late) == "0-1-3"
    assert held.beyond(set_of([("0-1", 2), ("0-2", 3)], through=True)) == got.late


def test_two_servers_with_one_number_are_no_order() -> None:
    """Then sets are compared, server by server."""
    held = Held(set_of([("0-1", 3), ("0-2", 3)], through=True), by_domain=True)
    assert isinstance(place_of(held, log_of([("0-1", 3)], [], through=True), GtidSet()), OutOfOrder)
    assert isinstance(place_of(held, log_of([("0-1", 3), ("0-2", 3)], [], through=True), GtidSet()), Place)
