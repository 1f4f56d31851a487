"""What happens to the processes of a pipeline: each can be killed at any moment, or get no time for some seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import psutil

from tests.faults.kinds import Kind, Missed, World, kind


def _one(world: World, of: list[psutil.Process]) -> psutil.Process:
    if not of:
        raise Missed
    return world.rng.choice(of)


def _kill(world: World, of: list[psutil.Process]) -> None:
    try:
        _one(world, of).kill()
    except psutil.NoSuchProcess:
        raise Missed from None


@kind("a worker is killed", (0, 0.5), weight=6)
def worker(world: World) -> Iterator[None]:
    _kill(world, world.process.workers())
    yield


@kind("the planner is killed", (0, 0.5), weight=4)
def planner(world: World) -> Iterator[None]:
    _kill(world, world.process.planners())
    yield


@kind("the driver is killed", (0, 2.0), weight=1)
def driver(world: World) -> Iterator[None]:
    if not world.process.kill(with_jvm=False):
        raise Missed
    yield


@kind("the driver and its JVM are killed", (0, 2.0), weight=1)
def driver_and_jvm(world: World) -> Iterator[None]:
    if not world.process.kill(with_jvm=True):
        raise Missed
    yield


@kind("the JVM is killed", (0, 2.0), weight=1)
def jvm(world: World) -> Iterator[None]:
    _kill(world, world.process.jvm())
    yield


@kind("processes rest (SIGSTOP)", (0.5, 4.0), weight=2)
def frozen(world: World) -> Iterator[None]:
    """One of them, such as the one that another waits for."""
    run = world.process
    one = _one(world, [*run.driver(), *run.jvm(), *run.planners(), *run.workers()])
    try:
        one.suspend()
    except psutil.NoSuchProcess:
        raise Missed from None
    try:
        yield
    finally:
        with suppress(psutil.NoSuchProcess):
            one.resume()


KINDS: tuple[Kind, ...] = (worker, planner, driver, driver_and_jvm, jvm, frozen)
