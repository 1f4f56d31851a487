"""A lease has one holder at a time, whatever is slow, and a dead one is replaced: owners with clocks of their own."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.lake.failpoints import Door, commit_to, guarded_by
from lakehouse_cdc.pipeline.run import lease as module
from lakehouse_cdc.pipeline.run.lease import DEAD, RENEWED, Clock, Lease

pytestmark = pytest.mark.unit


class World:
    """One object, as a store keeps it, and the time. While anybody waits for either, `meanwhile` happens."""

    def __init__(self) -> None:
        self.now, self.content, self.version = 0.0, b"", 0
        self.meanwhile: Callable[[], None] = lambda: None

    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()


class Slot:
    """That object for one owner, whose requests take their time before and after the store has them."""

    def __init__(self, world: World, delay: Callable[[], float]) -> None:
        self._world, self._delay = world, delay

    def read(self) -> tuple[bytes, str] | None:
        self._world.passes(self._delay())
        tag = str(self._world.version)
        self._world.passes(self._delay())
        held = (self._world.content, tag) if self._world.content else None
        self._world.passes(self._delay())
        return held

    def put_new(self, content: bytes) -> bool:
        return self._put(content, "0")

    def replace(self, content: bytes, tag: str) -> bool:
        return self._put(content, tag)

    def _put(self, content: bytes, tag: str) -> bool:
        self._world.passes(self._delay())
        done = tag == str(self._world.version)
        if done:
            self._world.content, self._world.version = content, self._world.version + 1
        self._world.passes(self._delay())
        return done


def leases(world: World, delay: Callable[[], float] = lambda: 0.0, number: int = 2) -> list[Lease]:
    """Of owners whose clocks differ by hours."""
    return [
        Lease(Slot(world, delay), "s3a://lake", "wait", Clock(lambda n=n: world.now + n * 3600, world.passes))  # type: ignore[misc]
        for n in range(number)
    ]


@pytest.fixture(autouse=True)
def as_of_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows of a process of the others."""
    monkeypatch.setattr(module, "_machine", lambda: "")


def refused(lease: Lease) -> None:
    with pytest.raises(CdcError) as error:
        lease.acquire()
    assert error.value.code is codes.TABLES_LOCKED


def test_another_one_is_refused_while_it_is_renewed_and_gets_it_when_it_is_released() -> None:
    world = World()
    one, other = leases(world)
    one.acquire()
    began = world.now
    due = iter(range(1, 1000))
    beat = next(due) * RENEWED

    def renews() -> None:
        nonlocal beat
        if world.now >= beat:
            beat = next(due) * RENEWED
            one.renew()

    world.meanwhile = renews
    refused(other)
    assert world.now - began <= RENEWED + 2
    one.release()
    other.acquire()
    assert other.is_held
    assert not one.is_held
    assert not other.took_over


def test_one_that_is_dead_is_replaced_and_may_not_commit() -> None:
    world = World()
    one, other = leases(world)
    one.acquire()
    other.acquire()
    assert world.now >= DEAD
    assert other.took_over
    with guarded_by(other.require), commit_to(Door.WRITE, "t"):
        pass
    with pytest.raises(CdcError) as lost, guarded_by(one.require), commit_to(Door.WRITE, "t"):
        pytest.fail("it commits")
    assert lost.value.code is codes.LEASE_LOST
    one.renew()
    assert not one.is_held
    assert json.loads(world.content)["owner"] == other.owner
    one.release()
    assert json.loads(world.content)["owner"] == other.owner


def test_a_process_of_this_machine_that_is_none_any_more_is_replaced_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    one, other = leases(world)
    monkeypatch.setattr(module, "_machine", lambda: "this one")
    one.acquire()
    world.content = json.dumps({**json.loads(world.content), "pid": -1, "began": "earlier"}).encode()
    other.acquire()
    assert world.now < RENEWED
    assert other.took_over


@given(st.integers(0, 2**32))
def test_no_two_hold_it_at_a_moment(seed: int) -> None:
    """Owners whose requests take up to a minute and a half; at each moment at most one may commit."""
    world, chance = World(), random.Random(seed)
    slow = chance.choice([0.1, 5, 30, 90])
    owners = leases(world, lambda: chance.random() * slow, 3)
    depth = 0

    def happens() -> None:
        nonlocal depth
        assert sum(owner.is_held for owner in owners) <= 1
        if depth < 3 and chance.random() < 0.3:
            depth += 1
            does(chance.choice(owners))
            depth -= 1

    busy, refusals = set[int](), set[str]()

    def does(owner: Lease) -> None:
        if id(owner) in busy:  # one thread
            return
        busy.add(id(owner))
        try:
            if owner.is_held:
                chance.choice([owner.renew, owner.renew, owner.renew, owner.release])()
            else:
                owner.acquire()
        except CdcError as error:
            refusals.add(error.code.label)
        finally:
            busy.discard(id(owner))

    world.meanwhile = happens
    for _ in range(15):
        does(chance.choice(owners))
        world.passes(chance.random() * chance.choice([1, RENEWED, DEAD]))
    assert refusals <= {codes.TABLES_LOCKED.label}
