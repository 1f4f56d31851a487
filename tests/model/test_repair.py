"""Keys that were looked for by themselves: what they are asked for by, and what it means that one is not there."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

from lakehouse_cdc.model.changelog import Change, Op, fold, invalid
from lakehouse_cdc.model.history import Kept, Version, histories, kept
from lakehouse_cdc.model.key_repair import Repair
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.model.table_state import (
    Complete,
    FirstPass,
    Repaired,
    RepairPending,
    RepairRead,
    RepeatedPass,
    TableState,
    Waiting,
)
from lakehouse_cdc.model.table_state_json import from_json, to_json


def at(pos: int, rank: Rank = Rank.EVENT) -> int:
    return Seq(1, 1, pos, rank, 0).pack()


def change(op: Op, pos: int, before: Any = None, after: Any = None, rank: Rank = Rank.EVENT) -> Change:
    return Change(at(pos, rank), op, "t", 1, before, after)


def missed(pos: int) -> Change:
    return change(Op.DELETE, pos, rank=Rank.READ)


def test_a_repair_is_its_keys_whatever_their_order() -> None:
    keys: list[dict[str, Any]] = [
        {"a": "é", "b": 2**63 - 1}, {"a": "", "b": -1}, {"a": b"\x00", "b": Decimal("18446744073709551615")},
        {"a": datetime(2024, 2, 29, 1, 2, 3, 4), "b": datetime(2024, 2, 29, tzinfo=timezone.utc)},
    ]  # fmt: skip
    repair = Repair.of("d.t", "0123", 10**37, keys)
    assert Repair.of("d.t", "0123", 10**37, reversed(keys)) == repair
    assert Repair.from_json(repair.to_json()) == repair
    assert sorted(map(repr, repair.decoded())) == sorted(map(repr, keys))


def test_a_key_that_is_missed_is_gone_whatever_was_known_of_it() -> None:
    begun = [change(Op.READ, 1, None, "x", Rank.READ)]
    assert fold([*begun, missed(2)]) == {}
    assert invalid([*begun, missed(2), change(Op.INSERT, 3, None, "y")]) is None
    assert invalid([missed(1), missed(2)]) is None
    assert invalid([*begun, change(Op.DELETE, 2)]) is not None  # an event has an image
    [[version]] = histories([*begun, missed(2), missed(3)]).values()
    assert version == Version(at(1, Rank.READ), at(2, Rank.READ), at(1, Rank.READ), "x")


def test_what_is_kept_of_a_row_that_is_missed_is_what_it_held() -> None:
    begun = [change(Op.READ, 1, None, "x", Rank.READ)]
    gone = at(2, Rank.READ)
    assert kept([missed(1)]) == {}
    assert kept([*begun, missed(2), missed(3)]) == {("t", 1): Kept(gone, gone, "x")}
    deleted = change(Op.DELETE, 2, "y")
    assert kept([*begun, deleted, missed(3)]) == {("t", 1): Kept(at(2), at(2), "y")}


def test_readings_are_counted_over_whole_ones_and_repairs() -> None:
    found = Offset.from_json({
        "version": 1, "epoch": 1, "server_uuid": "u", "created": 0, "file": "b.000007", "pos": 100, "gtid": "",
        "last_gtid": "", "commit_ts": 0, "floor": ["b.000007", 4], "tables": {},
    })  # fmt: skip
    assert found is not None
    offset = found

    def ordinal(state: TableState) -> int:
        return offset.next_reading(state) - Seq(1, 7, 100, Rank.READ, 0).pack()

    earlier = Seq(1, 7, 50, Rank.READ, 4).pack()
    assert ordinal(TableState("s", Waiting())) == 1
    read = TableState("s", Complete(RepeatedPass(earlier)))
    assert ordinal(read) == 5  # it may have read its last rows at 100
    assert ordinal(replace(read, repair=Repaired(Seq(1, 7, 100, Rank.READ, 5).pack()))) == 6


def test_what_an_offset_says_of_repairs() -> None:
    read = Complete(FirstPass())
    for repair in (RepairPending("f"), RepairRead("f", 10**37), Repaired(1)):
        state = TableState("s", read, repair=repair)
        assert from_json(to_json(state)) == state
    assert TableState("s", read, repair=RepairPending("f")).repair_pending
    assert TableState("s", read, repair=RepairRead("f", 1)).unconfirmed
    assert not TableState("s", read, repair=Repaired(1)).unconfirmed
