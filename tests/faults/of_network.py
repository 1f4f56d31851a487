"""What a network does to connections: see `tests.support.relay`."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.kinds import Kind, Missed, World, kind


@kind("connections are reset", (0, 0), weight=12)
def cut(world: World) -> Iterator[None]:
    if not world.relay.cut():
        raise Missed
    yield


@kind("connections end after any byte", (0.2, 1.0), weight=12)
def truncated(world: World) -> Iterator[None]:
    """Those that there are, and those that begin meanwhile: in a login, an answer, or an event of the log."""
    before, after = world.relay.truncated, int(10 ** world.rng.uniform(0, 4.5))
    world.relay.cut(after=after)
    world.relay.new_end_after = after
    try:
        yield
    finally:
        world.relay.new_end_after = None
    if world.relay.truncated == before:
        raise Missed


@kind("nothing passes", (0.1, 2.0), weight=6)
def stalled(world: World) -> Iterator[None]:
    if not world.relay.connections:
        raise Missed
    world.relay.flows.clear()
    try:
        yield
    finally:
        world.relay.flows.set()


@kind("nothing passes, then a reset", (0.1, 1.0), weight=4)
def stalled_and_cut(world: World) -> Iterator[None]:
    world.relay.flows.clear()
    try:
        yield
        cut_off = world.relay.cut()
    finally:
        world.relay.flows.set()
    if not cut_off:
        raise Missed


@kind("everything is late", (0.2, 1.5), weight=4)
def delayed(world: World) -> Iterator[None]:
    if not world.relay.connections:
        raise Missed
    world.relay.delay = world.rng.uniform(0.001, 0.05)
    try:
        yield
    finally:
        world.relay.delay = 0.0


@kind("everything comes in pieces of few bytes", (0.1, 1.0), weight=4)
def in_pieces(world: World) -> Iterator[None]:
    if not world.relay.connections:
        raise Missed
    world.relay.piece = world.rng.choice((1, 2, 3, 7, 100))
    try:
        yield
    finally:
        world.relay.piece = None


@kind("new connections are refused", (0.2, 2.0), weight=6)
def refused(world: World) -> Iterator[None]:
    """What is open is cut, so that somebody asks for a new one."""
    before, world.relay.refuses = world.relay.refused, True
    try:
        world.relay.cut()
        yield
    finally:
        world.relay.refuses = False
    if world.relay.refused == before:
        raise Missed


KINDS: tuple[Kind, ...] = (cut, truncated, stalled, stalled_and_cut, delayed, in_pieces, refused)
